"""An archive in an object store, whose files are read and written at a cache on this disk.

    s3://bucket/prefix/<epoch>/<number of the part>/source
    s3://bucket/prefix/<epoch>/<number of the part>/<after>-<last>.parquet

A file is written in the cache, sent, and found in the store with its size before the archiver goes
on to trim; an object is there whole or not at all. What is read is fetched as a whole, checked, and
stays until newer ones need the room. The names in the store are the index: the cache knows nothing.
The summary of a file that is not in the cache is read from its end only.

What a store does not answer is a ConnectionError: retention waits, and reads are refused.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Final

import pyarrow as pa

from rowcast.core.archive_limits import (
    ARCHIVE_CACHE_BYTES,
    ARCHIVE_CHUNK_BYTES,
    ARCHIVE_FETCH_ATTEMPTS,
    ARCHIVE_TAIL_BYTES,
)
from rowcast.features.archive.disk_place import SOURCE
from rowcast.features.archive.file_format import Group
from rowcast.store.private import make_directory, open_new
from rowcast.store.sql_rows import Row
from rowcast_lake.archive.footers import check_end, end_bytes
from rowcast_lake.archive.log_files import ParquetFile, ParquetFiles, groups_of
from rowcast_lake.stores.object_paths import ObjectPath

_UNFINISHED: Final = ".new"
_GONE: Final = re.compile("(NO_SUCH_KEY|RESOURCE_NOT_FOUND) during (Get|Copy)Object")
"""In what pyarrow tells of an object that was removed after it was opened, or listed."""


class StorePlace:
    """The files of one log in a store: the place of an archive, and the format of its files."""

    def __init__(
        self,
        store: ObjectPath,
        directory: Path,
        cache_bytes: int = ARCHIVE_CACHE_BYTES,
        files: ParquetFiles | None = None,
        tail_bytes: int = ARCHIVE_TAIL_BYTES,
    ) -> None:
        self.store = store
        self.directory = directory
        self._cache_bytes = cache_bytes
        self._files = files or ParquetFiles()
        self._tail_bytes = tail_bytes
        self._lock = Lock()

    # -- the place ---------------------------------------------------------------------------------

    def folders(self) -> list[str]:
        """Return the folders that have files."""
        with self._answering():
            found = [path.name for path in self.store.iterdir()]
            if not found and not self.store.bucket.is_dir():
                raise OSError("there is no such bucket")
        return found

    def names(self, folder: str) -> list[str]:
        """Return the names of a folder's files."""
        with self._answering():
            return [path.name for path in (self.store / folder).iterdir()]

    def source(self, folder: str) -> str:
        """Return the name of the part of a folder; empty where there is none."""
        with self._answering(), suppress(FileNotFoundError):
            return (self.store / folder / SOURCE).read_text()
        return ""

    def begin(self, folder: str, name: str) -> None:
        """Note the name of a part."""
        with self._answering():
            (self.store / folder / SOURCE).write_bytes(name.encode())

    def put_aside(self, folder: str) -> str:
        """Move what a part has to another beginning of its keys; return that."""
        with self._answering():
            there = {path.name for path in self.store.iterdir()}
            names = (f"{folder}.{again}" for again in range(1, 1 << 30))
            aside = self.store / next(name for name in names if name not in there)
            for path in (self.store / folder).iterdir():
                path.move(aside / path.name)
        shutil.rmtree(self.directory / folder, ignore_errors=True)
        return str(aside)

    def sweep(self, folder: str) -> None:
        """Remove unfinished files of a folder from the cache."""
        for path in (self.directory / folder).glob(f"*{_UNFINISHED}"):
            path.unlink(missing_ok=True)

    def size(self, path: Path) -> int:
        """Return the bytes of a file."""
        with self._answering():
            return self._object(path).stat().st_size

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        with self._answering():
            self._object(path).remove()
        path.unlink(missing_ok=True)

    def give_up(self, path: Path) -> None:
        """Remove a file from the cache: another node has merged it, or it was too old."""
        with suppress(OSError):
            path.unlink()

    # -- the files ---------------------------------------------------------------------------------

    def open(self, path: Path) -> ParquetFile:
        """Open a file. Raises OSError; FileNotFoundError if it is gone."""
        for _ in range(ARCHIVE_FETCH_ATTEMPTS):
            is_new = self._fetch(path)
            try:
                return self._files.open(path, lambda: path.unlink(missing_ok=True))
            except FileNotFoundError:  # pushed out of the cache at once
                continue
            except OSError:
                path.unlink(missing_ok=True)  # what the store has may be whole
                if is_new:
                    raise
        raise OSError(f"the cache of the archive, {self.directory}, is too small")

    def groups(self, path: Path) -> tuple[Group, ...]:
        """Return the row groups of a file, from its end."""
        if path.exists():
            try:
                return self._files.groups(path)
            except OSError:
                path.unlink(missing_ok=True)  # what the store has may be whole
        with self._answering():
            tail = self._object(path).read_end(self._tail_bytes)
            if end_bytes(tail) > len(tail):
                tail = self._object(path).read_end(end_bytes(tail))
        check_end(BytesIO(tail), path)
        return groups_of(pa.BufferReader(tail), path)

    def write(self, path: Path, rows: Iterable[Row], facts: Mapping[str, object]) -> None:
        """Write a file that is in the store whole or not at all. Raises OSError."""
        self._make_directory(path)
        self._files.write(path, rows, facts)
        self._send(path)

    def merge(self, paths: Sequence[Path], path: Path, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of others, in their order. Raises OSError."""
        for source in paths:
            self._fetch(source)
        with self._forgetting(paths):
            self._files.merge(paths, path, facts)
        self._send(path)

    def cut(self, path: Path, target: Path, upto: int, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of another up to a number. Raises OSError."""
        self._fetch(path)
        self._make_directory(target)
        with self._forgetting([path]):
            self._files.cut(path, target, upto, facts)
        self._send(target)

    def copy(self, path: Path, other: "StorePlace", target: Path) -> None:
        """Copy a file to ``target`` of another place of the store, which does it itself.

        Raises OSError; FileNotFoundError if it is gone.
        """
        with self._answering():
            self._object(path).copy(other.store / target.parent.name / target.name)

    # -- the cache ---------------------------------------------------------------------------------

    def _object(self, path: Path) -> ObjectPath:
        return self.store / path.parent.name / path.name

    def _send(self, path: Path) -> None:
        """Put a file into the store; nothing is left of one that is not there whole."""
        try:
            with self._answering():
                self._put(path, self._object(path))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._make_room(path)

    @staticmethod
    def _put(path: Path, there: ObjectPath) -> None:
        there.copy_from(path)
        sizes = [place.stat().st_size for place in (path, there)]
        if sizes[0] != sizes[1]:
            there.remove()
            raise OSError(f"{there} has {sizes[1]} bytes of {sizes[0]}")

    def _fetch(self, path: Path) -> bool:
        """Let a file be in the cache; return whether it was not. Raises FileNotFoundError."""
        with suppress(FileNotFoundError):
            os.utime(path)
            return False
        self._make_directory(path)
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            with open_new(fresh) as file, self._answering():
                for chunk in self._object(path).chunks(ARCHIVE_CHUNK_BYTES):
                    file.write(chunk)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        self._make_room(path)
        return True

    def _make_directory(self, path: Path) -> None:
        for folder in (self.directory.parent, self.directory, path.parent):
            make_directory(folder)

    def _make_room(self, but: Path) -> None:
        """Remove what was read longest ago from the cache, if there is more than it may have."""
        with self._lock:
            found = []
            for path in self.directory.rglob("*.parquet"):
                with suppress(FileNotFoundError):
                    facts = path.stat()
                    found.append((facts.st_mtime_ns, facts.st_size, path))
            total = sum(size for _, size, _ in found)
            for _, size, path in sorted(found):
                if total <= self._cache_bytes:
                    break
                if path != but:
                    path.unlink(missing_ok=True)
                    total -= size

    @contextmanager
    def _forgetting(self, paths: Sequence[Path]) -> Iterator[None]:
        """Fetch files anew the next time if they cannot be read now: a copy may be damaged."""
        try:
            yield
        except OSError:
            for path in paths:
                path.unlink(missing_ok=True)
            raise

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turn what a store answers, but for what is not there, into a ConnectionError."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            if _GONE.search(str(error)):
                raise FileNotFoundError(str(error)) from error
            raise ConnectionError(f"{self.store} cannot be reached or written: {error}") from error


def store_place(url: str, epoch: str, directory: Path, cache_bytes: int) -> StorePlace:
    """Return the place of a log's files below a URL, with its cache; raises INVALID."""
    return StorePlace(ObjectPath.of(url) / epoch, directory / epoch, cache_bytes)
