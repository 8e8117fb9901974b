"""Backups: a directory with all durable state, and its restore to a data directory.

It has the database, the archive of its log, the other files of the data directory (users, keys),
the schema, and a manifest with the digest of each. It is written under a temporary name and renamed
at the end, so an existing one is complete. A restored log has a new epoch, because its numbers are
reused: clients with a cursor of the old one get a reset.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from rowcast import __version__
from rowcast.core.clock import seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.moments import Moment, moment_of
from rowcast.journal.log_replay import replay_log
from rowcast.log.segment import sync_directory
from rowcast.program.archive_backups import (
    Earlier,
    back_up_archive,
    digest_of,
    restore_archive,
    restore_stored,
)
from rowcast.program.archiving import DIRECTORY as ARCHIVE
from rowcast.program.config import Config
from rowcast.program.membership_mark import FILE as CLUSTER
from rowcast.routes.system_rows import time_text
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.schema import load_schema
from rowcast.store.backup import Copied, copy_database, inspect_copy, parts_of
from rowcast.store.private import DIRECTORY_MODE, make_directory, make_file
from rowcast.store.rewind import position_of_time, renew, rewind
from rowcast.store.sql_database import FILE_NAME, file_of

MANIFEST: Final = "manifest.json"
SCHEMA: Final = "schema.graphql"
STORED: Final = "archive_location"
"""In the manifest: the object store with the archive of the log, whose files are not copied."""
FILES: Final = "files"
"""The directory of the other files within a backup."""
_UNFINISHED: Final = ".unfinished"
_DATABASE_ENDS: Final = ("", "-wal", "-shm", "-journal", "-log", "-spool")
"""Of the names of a database's files and folders; locks are none of them."""


_NO_STORE: Final = (
    "events of this log are archived at {0}, and no object store is named; give --set "
    "log.archive_location={0}, whose files are copied there for the restored log, or leave out "
    "what was archived: --no-archive"
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    data: Path
    epoch: str
    position: int
    before: Copied
    archived: int
    """How many files of the archive were brought back."""


def back_up(config: Config, target: Path, previous: Path | None = None) -> dict[str, object]:
    """Write a backup to a new directory; return its manifest.

    The server may run and write meanwhile. All that was acknowledged before is in it. Files of the
    archive that the backup ``previous`` has are linked to those.
    """
    earlier = None if previous is None else _earlier(previous.absolute())
    target = target.absolute()
    if target.exists():
        raise Error(Code.CONFLICT, f"{target} is there already; name a directory that is not")
    part = target.with_name(target.name + _UNFINISHED)
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(DIRECTORY_MODE, parents=True)
        (part / FILES).mkdir(DIRECTORY_MODE)
        source = file_of(config.database_url)
        has_schema = config.schema_file.is_file()
        replay_log(source, load_schema(config.schema_file).tables if has_schema else None)
        copied = copy_database(source, part / FILE_NAME)
        if has_schema:
            _copy(config.schema_file, part / SCHEMA)
        parts = parts_of(part / FILE_NAME)
        back_up_archive(config.data, part, copied.epoch, parts, copied.head, earlier)
        for file in _others(config.data, source):
            _copy(file, part / FILES / file.name)
        manifest = _manifest(part, copied) | _stored_at(config)
        _write(part / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        _put_in_place(part, target)
    except OSError as error:
        raise Error(Code.BUSY, f"{target} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _put_in_place(part: Path, target: Path) -> None:
    """Rename a directory, durably; its files are synced."""
    for folder in (part, *(place for place in part.rglob("*") if place.is_dir())):
        sync_directory(folder)
    part.rename(target)
    sync_directory(target.parent)


def _copy(source: Path, target: Path) -> None:
    """Copy a file's content to a private file, durably."""
    make_file(target)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _others(data: Path, database: Path) -> Iterator[Path]:
    """Yield the durable files besides the database; subdirectories have derived data."""
    for file in sorted(data.iterdir()) if data.is_dir() else ():
        if file.is_file() and not file.name.startswith(database.name):
            yield file


def _manifest(place: Path, copied: Copied) -> dict[str, object]:
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    return {
        "rowcast": __version__,
        "made_at": time_text(time.time()),
        "cursor": f"{copied.epoch}:{copied.head}",
        "written_at": time_text(seconds_of(copied.last_version)),
        "log_reaches_back_to": f"{copied.epoch}:{copied.reaches}",
        "files": {str(file.relative_to(place)): digest_of(file) for file in files},
    }


def _stored_at(config: Config) -> dict[str, object]:
    """Return what a manifest says of an archive that is not in the backup."""
    log = config.log
    return {STORED: log.archive_location} if log.archive and log.archive_location else {}


def _write(file: Path, text: str) -> None:
    make_file(file)
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _earlier(place: Path) -> Earlier:
    return Earlier(place, cast("dict[str, object]", _read_manifest(place)["files"]))


def verify(place: Path, *, archive: bool = True) -> dict[str, object]:
    """Return a backup's manifest; raises INVALID unless every file matches it.

    Without ``archive`` the files of that are not looked at.
    """
    manifest = _read_manifest(place)
    for name, said in cast("dict[str, object]", manifest["files"]).items():
        file, archived = place / name, name.startswith(f"{ARCHIVE}/")
        if archived and not archive:
            continue
        otherwise = ", or leave out what was archived: --no-archive" if archived else ""
        if not file.is_file():
            raise Error(Code.INVALID, f"{file} is missing; take another backup{otherwise}")
        if digest_of(file) != said:
            raise Error(
                Code.INVALID, f"{file} is not as it was backed up; take another backup{otherwise}"
            )
    return manifest


def _read_manifest(place: Path) -> dict[str, object]:
    """Return a backup's manifest; raises INVALID without one."""
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        return {**manifest, "files": dict(manifest["files"])}
    except OSError as error:
        raise Error(
            Code.INVALID,
            f"{place} is no backup: its {MANIFEST} cannot be read ({error.strerror}); name the "
            "directory that `rowcast backup` made",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Error(Code.INVALID, f"{place / MANIFEST} is damaged; take another backup") from error


def restore(
    place: Path,
    data: Path,
    to: str = "",
    schema: Path | None = None,
    *,
    same_log: bool = False,
    archive: bool = True,
    stored: Config | None = None,
    database: Path | None = None,
) -> Restored:
    """Restore a backup to a data directory, optionally to an earlier position of its log.

    ``database`` is the file that the server will open, if that is not in the directory.
    ``same_log``: it goes on following the log of its cluster, whose epoch it keeps.
    ``archive``: with what was archived of the log; ``stored`` names an object store that has it.

    Raises INVALID for a damaged backup, CONFLICT if there is data already, GONE if the log no
    longer has the position.
    """
    place, data = place.absolute(), data.absolute()
    manifest = verify(place, archive=archive)
    if archive and not same_log and not stored and STORED in manifest:
        raise Error(Code.INVALID, _NO_STORE.format(manifest[STORED]))
    with _unfinished(_free(database or data / FILE_NAME, data, place / FILES), data) as part:
        _copy(place / FILE_NAME, part)
        before = inspect_copy(part)
        epoch, position = before.epoch, before.head
        if not same_log:
            moment = _moment(to, manifest)
            epoch, position = _rewound(part, before, moment, schema or place / SCHEMA)
        epochs = before.epoch, epoch
        with _removed_on_failure(data / ARCHIVE / epoch):
            files = restore_archive(place, data, epochs, position) if archive else 0
            if archive and stored and not same_log:
                files += _restore_stored(stored, place, part, epochs, position)
            _copy_files(place / FILES, data, same_log=same_log)
    return Restored(data, epoch, position, before, files)


def _restore_stored(
    config: Config, place: Path, part: Path, epochs: tuple[str, str], position: int
) -> int:
    shared = (place / FILES / CLUSTER).exists()
    return restore_stored(config, epochs, position, parts_of(part), shared=shared)


@contextmanager
def _unfinished(target: Path, data: Path) -> Iterator[Path]:
    """Have a database made beside its place, and put there once it is whole. Raises BUSY."""
    part, folder = target.with_name(target.name + _UNFINISHED), target.parent
    new = [place for place in (data, folder) if not place.exists()]
    try:
        for place in new:
            make_directory(place)
        _remove(folder, part.name)  # a killed restore's journal would be taken as this one's
        yield part
        part.rename(target)
        for place in {data, folder}:
            sync_directory(place)
    except OSError as error:
        why = error.strerror or error
        raise Error(Code.BUSY, f"{target.parent} cannot be written: {why}") from error
    finally:
        _remove(folder, part.name)
        for place in new:
            with suppress(OSError):  # it is not empty where all went well
                place.rmdir()


def _remove(folder: Path, name: str) -> None:
    for left in folder.glob(f"{name}*"):
        left.unlink()


@contextmanager
def _removed_on_failure(archive: Path) -> Iterator[None]:
    """Remove an archive that is brought back if that, or what follows, fails.

    One of the same log that was there before stays.
    """
    was_there = archive.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            shutil.rmtree(archive, ignore_errors=True)
            with suppress(OSError):  # it has archives of other logs, or is not there
                archive.parent.rmdir()
        raise


def _copy_files(files: Path, data: Path, *, same_log: bool) -> None:
    """Copy what is beside the database, all or nothing; a log of its own is not of the cluster."""
    wanted = [file for file in sorted(files.iterdir()) if same_log or file.name != CLUSTER]
    parts = {file: data / f"{file.name}{_UNFINISHED}" for file in wanted}
    try:
        for file, part in parts.items():
            _copy(file, part)
        for file, part in parts.items():
            part.rename(data / file.name)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _free(database: Path, data: Path, files: Path) -> Path:
    """Return where a database goes. Raises CONFLICT where data is.

    So is what SQLite would take for the restored database's. A file that is as in the backup
    is one that an earlier restore has left.
    """
    there = [database.with_name(f"{database.name}{end}") for end in _DATABASE_ENDS]
    there += [
        data / file.name
        for file in sorted(files.iterdir())
        if (data / file.name).exists() and digest_of(data / file.name) != digest_of(file)
    ]
    for path in there:
        if path.exists():
            another = "--data" if path.parent == data else "--set store.url=sqlite:///FILE"
            raise Error(
                Code.CONFLICT,
                f"{path} is there already; move that directory away, or name another with "
                f"{another}",
            )
    return database


def _moment(to: str, manifest: dict[str, object]) -> Moment | None:
    """Return a point to restore to. Raises GONE for a time that the backup does not reach."""
    if not to:
        return None
    moment = moment_of(to, "--to", time.time())
    made = max(str(manifest["made_at"]), str(manifest["written_at"]))
    if moment.cursor is None and moment.version > moment_of(made, "made_at", 0).version:
        raise Error(
            Code.GONE,
            f"{to} is after this backup, which was made at {made}; take a later one, or leave out "
            "--to for the end of this one",
        )
    return moment


def _rewound(part: Path, before: Copied, moment: Moment | None, schema: Path) -> tuple[str, int]:
    if moment is None:
        return renew(part), before.head
    tables = load_schema(schema).tables
    transcoder = Transcoder({table.name: CompiledTable(table) for table in tables})
    position = _position(part, moment, before)
    return rewind(part, tables, position, transcoder.structured), position


def _position(part: Path, moment: Moment, before: Copied) -> int:
    """Return the position of a cursor or a time; events of that time are after it."""
    if moment.cursor is None:
        return position_of_time(part, moment.version)
    if moment.cursor.epoch != before.epoch:
        raise Error(
            Code.GONE,
            f"{moment.cursor} is of another log; this backup is of {before.epoch}:{before.head}",
        )
    if moment.cursor.seq > before.head:
        raise Error(
            Code.GONE,
            f"{moment.cursor} is after this backup, which ends at {before.epoch}:{before.head}; "
            "take a later one",
        )
    return moment.cursor.seq
