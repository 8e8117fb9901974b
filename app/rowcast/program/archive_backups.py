"""The archive of the log in a backup, and its return to a data directory.

    archive/<epoch>/<number of the part>/<after>-<last>.parquet, and source

The database is copied first. What the copy lacks was archived before, so the chain of each part
that is listed afterwards has it. A server goes on meanwhile: files that it merges are listed again,
and what it archives is after the end of the copy. A restore leaves that out, because the restored
log uses those numbers again; a file that goes beyond its end is cut there.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.features.archive.archive_index import ArchivedRange, ArchiveIndex
from rowcast.features.archive.disk_place import SOURCE, DiskPlace
from rowcast.log.segment import sync_directory
from rowcast.program.archiving import DIRECTORY, StoredArchive, file_format, stored_archive
from rowcast.program.config import Config
from rowcast.store.private import make_directory, make_file

log = logging.getLogger("rowcast.backup")

ATTEMPTS: Final = 100
"""How often the files of a part are listed while a server merges them: it merges now and then."""

_READER: Final = "restore"
"""Who reads folders of names, and writes none."""

LogParts = Mapping[int, tuple[str, int]]
"""Name and trimmed position of each part, by its number."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier backup, whose files of the archive are linked where they are the same."""

    place: Path
    files: Mapping[str, object]
    """The digests in its manifest."""

    def find(self, name: Path) -> Path | None:
        """Return a file that is as its manifest says, or None."""
        said, file = self.files.get(str(name)), self.place / name
        return file if said and file.is_file() and digest_of(file) == said else None


def digest_of(file: Path) -> dict[str, object]:
    """Return what a manifest says of a file. Raises OSError."""
    with file.open("rb") as stream:
        return {"bytes": file.stat().st_size, "sha256": file_digest(stream, "sha256").hexdigest()}


def back_up_archive(
    data: Path,
    place: Path,
    epoch: str,
    parts: LogParts,
    head: int,
    earlier: Earlier | None = None,
) -> None:
    """Copy the files that have what a copied database lacks. Raises OSError, BUSY.

    ``head`` is the last position of the copy.
    """
    index = ArchiveIndex(DiskPlace(data / DIRECTORY / epoch))
    index.read(parts, clean=False)
    for number in sorted(set(index.numbers()) & set(parts)):
        target = place / DIRECTORY / epoch / str(number)
        target.mkdir(parents=True)
        copy = _Copying(target, earlier, target.relative_to(place))
        for _ in range(ATTEMPTS):
            chain = [item for item in index.chain(number) if item.after < head]
            try:
                copy.files([item.path for item in chain])
                copy.file(index.place.directory / str(number) / SOURCE)
                break
            except FileNotFoundError:  # merged meanwhile, or too old
                index.renew(number, parts[number][1])
        else:
            raise Error(
                Code.BUSY,
                f"the archived files of {parts[number][0]} change all the time; try again, with a "
                "longer history.sweep_seconds",
            )


class _Copying:
    """Copies the files of one part."""

    def __init__(self, target: Path, earlier: Earlier | None, folder: Path) -> None:
        self._target = target
        self._earlier = earlier
        self._folder = folder

    def files(self, paths: list[Path]) -> None:
        """Copy these, and remove others that were copied."""
        names = {path.name for path in paths}
        for path in list(self._target.iterdir()):
            if path.name not in names:
                path.unlink()
        for path in paths:
            if not (self._target / path.name).exists() and not self._linked(path.name):
                self.file(path)

    def file(self, path: Path) -> None:
        """Copy a file, whole or not at all."""
        target = self._target / path.name
        try:
            _copy(path, target)
        except OSError:
            target.unlink(missing_ok=True)
            raise

    def _linked(self, name: str) -> bool:
        """Whether an earlier backup has a file, undamaged, that could be linked."""
        known = None if self._earlier is None else self._earlier.find(self._folder / name)
        if known is None:
            return False
        with suppress(OSError):
            (self._target / name).hardlink_to(known)
            return True
        return False


def restore_archive(place: Path, data: Path, epochs: tuple[str, str], position: int) -> int:
    """Bring the archive of a backup's epoch back for a new one; return the number of files.

    What is after ``position`` is left out. Raises OSError; UNSUPPORTED where a file must be cut and
    its library is not there. The caller removes what a failure leaves.
    """
    old, new = place / DIRECTORY / epochs[0], data / DIRECTORY / epochs[1]
    index, count = ArchiveIndex(DiskPlace(old)), 0
    for part in sorted(old.iterdir()) if old.is_dir() else ():
        for folder in (data / DIRECTORY, new, new / part.name):
            make_directory(folder)
        index.renew(int(part.name))
        chain = [item for item in index.chain(int(part.name)) if item.after < position]
        for item in chain:
            _restore(item, new / part.name, epochs[1], position)
        _copy(part / SOURCE, new / part.name / SOURCE)
        sync_directory(new / part.name)
        count += len(chain)
    return count


def restore_stored(
    config: Config, epochs: tuple[str, str], position: int, parts: LogParts, *, shared: bool
) -> int:
    """Copy the archive of an epoch within its object store for a new one; the same otherwise.

    ``parts`` are those of the restored log. ``shared``: nodes of a cluster wrote it, into folders
    of names. What is made has folders of numbers, which a server of its own reads, and nodes too.
    """
    old, new = (stored_archive(config, epoch) for epoch in epochs)
    return copy_stored((old, new), epochs[1], position, parts, shared=shared)


def copy_stored(
    places: tuple[StoredArchive, StoredArchive],
    epoch: str,
    position: int,
    parts: LogParts,
    *,
    shared: bool,
) -> int:
    """Copy an archive to an empty place for ``epoch``, all of it or nothing; see restore_stored."""
    old, new = places
    index = ArchiveIndex(old, _READER if shared else None)
    index.read(parts, clean=False)
    numbers = sorted(set(index.numbers()) & set(parts))
    copy = _StoredCopy(index, places, epoch, position)
    try:
        for number in numbers:
            new.begin(str(number), parts[number][0])
        return sum(copy.part(number, parts[number]) for number in numbers)
    except BaseException:
        _empty(new)
        raise


def _empty(place: StoredArchive) -> None:
    """Remove what was made at a place of this restore alone; tell of what cannot be removed."""
    try:
        for folder in place.folders():
            for name in place.names(folder):
                place.remove(place.directory / folder / name)
    except OSError as error:
        log.warning(
            "the restore has failed, and its objects below %s/ in log.archive_location cannot be "
            "removed (%s); remove them, no log has them",
            place.directory.name,
            error,
        )


class _StoredCopy:
    """Copies files within a store for another epoch, while a server may still merge them."""

    def __init__(
        self,
        index: ArchiveIndex,
        places: tuple[StoredArchive, StoredArchive],
        epoch: str,
        position: int,
    ) -> None:
        self._index = index
        self._old, self._new = places
        self._epoch = epoch
        self._position = position

    def part(self, number: int, part: tuple[str, int]) -> int:
        """Copy the files of a part up to the position; return their number. Raises BUSY."""
        name, trimmed = part
        for _ in range(ATTEMPTS):
            chain = [x for x in self._index.chain(number) if x.after < self._position]
            try:
                for item in chain:
                    self._file(item, number, name)
            except FileNotFoundError:  # merged meanwhile, or too old
                self._index.renew(number, trimmed)
            else:
                return len(chain)
        raise Error(
            Code.BUSY,
            f"the archived files of {name} in {self._old.directory.name} change all the time; try "
            "again, with a longer history.sweep_seconds at the server that writes them",
        )

    def _file(self, item: ArchivedRange, number: int, name: str) -> None:
        last = min(item.last, self._position)
        target = self._new.directory / str(number) / f"{item.after}-{last}.parquet"
        if item.last <= self._position:
            self._old.copy(item.path, self._new, target)
            return
        with self._old.open(item.path):  # it is in the cache then
            facts = _facts(item, name, self._epoch, self._position)
            self._new.cut(item.path, target, self._position, facts)


def _facts(item: ArchivedRange, source: str, epoch: str, last: int) -> dict[str, object]:
    return {"epoch": epoch, "source": source, "after": item.after, "last": last}


def _restore(item: ArchivedRange, target: Path, epoch: str, position: int) -> None:
    """Bring a file back, without what is after a position."""
    if item.last <= position:
        _copy(item.path, target / item.path.name)
        return
    source = (item.path.parent / SOURCE).read_text(encoding="utf-8")
    facts = _facts(item, source, epoch, position)
    files = file_format("the archive of this backup goes on behind the end, so a file is cut")
    files.cut(item.path, target / f"{item.after}-{position}.parquet", position, facts)


def _copy(source: Path, target: Path) -> None:
    make_file(target)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
