"""A file of rows: the events of one upload, a page after another, in the encoding of the log.

It exists so that a result takes no memory while it is brought. Pages are written by threads, in any
order, each at the place that it was given. A file without a name leaves nothing when the process
ends, however it does; one with a name stays, for who knows where its pages are and what they sum up
to.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO
from zlib import crc32

from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.tables import Table
from rowcast.log.batch_content import Content, decode_content, encode_content
from rowcast.store.private import FILE_MODE, make_directory


@dataclass(slots=True)
class Page:
    """The place of some rows in the file; ``data`` are their bytes until they are written."""

    at: int
    size: int
    rows: int
    sum: int
    """The checksum of its bytes."""
    data: bytes = b""


class RowFile:
    """The file of one upload; made with its first page, in a directory or the system's for such.

    With a ``path`` it has a name, and may have ``size`` bytes already.
    """

    def __init__(self, directory: str | None, path: Path | None = None, size: int = 0) -> None:
        self._directory = directory
        self._path = path
        self._file: IO[bytes] | None = None
        self._closed = False
        self._lock = Lock()
        """Held while the file is used, so that no other gets its number meanwhile."""
        self.size = size
        """Bytes of all pages, also of those that nobody reads any more."""

    def __del__(self) -> None:
        self.close()

    def page(self, events: Sequence[Event]) -> Page:
        """Give events a place; ``write`` brings them there."""
        return self.page_of(encode_content(Content(events), 0), len(events))

    def page_of(self, data: bytes, rows: int) -> Page:
        """Give bytes a place, those of so many rows; ``write`` brings them there."""
        page = Page(self.size, len(data), rows, crc32(data), data)
        self.size += len(data)
        return page

    def take_back(self, pages: Sequence[Page]) -> None:
        """Give the places of pages to others, as far as nothing is behind them."""
        for page in reversed(pages):
            if page.at + page.size == self.size:
                self.size = page.at

    def write(self, page: Page) -> None:
        """Write a page, in a thread. Raises BUSY when the disk refuses."""
        data, page.data = page.data, b""
        try:
            with self._lock:
                number = self._opened().fileno()
                while data:
                    written = os.pwrite(number, data, page.at + page.size - len(data))
                    data = data[written:]
        except OSError as error:
            raise not_kept(error) from error

    def sync(self) -> None:
        """Return once all that was written is on the disk, in a thread. Raises OSError."""
        with self._lock:
            number = os.dup(self._opened().fileno())
        try:
            os.fdatasync(number)  # others write meanwhile
        finally:
            os.close(number)

    def _opened(self) -> IO[bytes]:
        if self._closed:
            raise gone()
        if self._file is None:
            if self._path is None:
                self._file = TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115
            else:
                make_directory(self._path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self._path, flags, FILE_MODE), "r+b", buffering=0)
        return self._file

    def read(self, page: Page, table: Table) -> list[Event]:
        """Read a page, in a thread."""
        return self.read_all(page, {table.name: table})

    def read_all(self, page: Page, tables: Mapping[str, Table]) -> list[Event]:
        """Read a page with events of several tables, in a thread."""
        data = self.bytes_at(page.at, page.size)
        if crc32(data) != page.sum:
            raise Error(Code.CONFLICT, "rows of the upload are damaged; bring the result again")
        return list(decode_content(data, 0, tables.get).events)

    def bytes_at(self, at: int, size: int) -> bytes:
        """Return bytes that were written, in a thread."""
        with self._lock:
            return os.pread(self._opened().fileno(), size, at)

    def discard(self) -> None:
        """Refuse all further reads and writes, at once; ``close`` gives back the disk."""
        self._closed = True

    def close(self) -> None:
        """Close the file, which removes one without a name.

        Blocks for a write of another thread, and for the file system.
        """
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()


def not_kept(error: OSError) -> Error:
    """Return the Error of a disk that refuses rows."""
    words = f"the rows of a result cannot be kept until its commit: {error.strerror}"
    return Error(Code.BUSY, words, retry_after_seconds=10)


def gone() -> Error:
    """Return the Error of an upload that is used after its end."""
    return Error(Code.NOT_FOUND, "the upload was discarded meanwhile; bring the result again")
