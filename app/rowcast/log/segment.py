"""A segment: one file of the log, batches one behind the other.

The file begins with 32 bytes: ``RCS1``, four reserved, the epoch as eight ASCII characters, the
number of its first batch, and eight reserved; numbers in network byte order. Batches follow without
a gap. They are only ever appended, and each is synced before the next is written. So of a file
that a crash cut short, all that can be incomplete is its last batch, which was not acknowledged
and is cut off when the file is opened. Any other bytes that are no batch were changed later: that
is damage, and refused, because to cut it off would lose what was acknowledged.

The file that is appended to has zeros at its end: room is reserved ahead, because the sync of a
write that does not change the length of a file is quicker (fdatasync(2): no metadata). The zeros
are cut off when the next file begins, and when the log is closed or opened.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from rowcast.core.errors import Code, Error
from rowcast.log.batch import HEADER_BYTES, Batch, size_at

SEGMENT_MAGIC: Final = b"RCS1"
SEGMENT_HEADER: Final = struct.Struct("!4sI8sQQ")
FILE_MODE: Final = 0o600
"""Everybody's records are in it: other users of the machine must not read it."""
SUFFIX: Final = ".log"
SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all (NVMe and ATA, logical block)."""
RESERVED_BYTES: Final = 1024 * 1024
"""Reserved at a time in a large file: some thousand small batches. A small one has less."""
RESERVED_BYTES_MIN: Final = 64 * 1024
"""Reserved first: logs of a few batches, of which there may be many, stay small."""
_SIZE_END: Final = 8
"""Of a batch's header: behind the length, which tells where the batch ends."""
_FIRST_READ_BYTES: Final = 64 * 1024
"""Of a batch at an unknown place: most batches are shorter, and have come with their header."""


class Place(NamedTuple):
    """Where a batch is in its file."""

    offset: int
    size: int


def path_of(directory: Path, first: int) -> Path:
    """Return the file of the segment whose first batch has a number; names sort as numbers do."""
    return directory / f"{first:020d}{SUFFIX}"


def create(directory: Path, epoch: str, first: int, *, synced: bool = True) -> "SegmentFile":
    """Make an empty segment, durably; one of that name is an empty one that a crash left.

    ``synced`` as for ``SegmentFile.open``.
    """
    path = path_of(directory, first)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    file = SegmentFile(path, os.open(path, flags, FILE_MODE), 0, synced=synced)
    try:
        file.append(SEGMENT_HEADER.pack(SEGMENT_MAGIC, 0, epoch.encode("ascii"), first, 0))
        sync_directory(directory)
    except BaseException:
        file.close()
        raise
    return file


def sync_directory(directory: Path) -> None:
    """Make new and removed names of files durable (fsync(2), notes on directories)."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SegmentFile:
    """The segment that is appended to. While it waits for the disk, other threads go on."""

    def __init__(self, path: Path, handle: int, size: int, *, synced: bool = True) -> None:
        self.path = path
        self.size = self._length = size
        """Bytes that are complete and synced: what is behind them is nothing."""
        self._handle = handle
        self._synced = synced
        self._failed = False

    @classmethod
    def open(cls, path: Path, size: int, *, synced: bool = True) -> "SegmentFile":
        """Open a segment to append to it behind its first ``size`` bytes; the rest is cut off.

        ``synced``: each append is on the disk before it returns.
        """
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(handle).st_size != size:
                os.ftruncate(handle, size)
                os.fsync(handle)
        except BaseException:
            os.close(handle)
            raise
        return cls(path, handle, size, synced=synced)

    def append(self, data: bytes) -> Place:
        """Write and sync; returns where it is. Raises OSError, and the file is as it was then.

        After a sync that failed nobody knows what is on the disk, and another sync would tell
        nothing (fsync(2), EIO): so this file takes nothing more, and must be opened again.
        """
        if self._failed:
            raise OSError(5, "an earlier write could not be synced; the log must be opened again")
        if self._synced and self.size > 0 and self.size + len(data) > self._length:
            self._reserve(self.size + len(data))  # behind a header that is there
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._handle, memoryview(data)[written:], self.size + written)
            if self._synced:
                self._failed = True  # unless it returns
                getattr(os, "fdatasync", os.fsync)(self._handle)
                self._failed = False
        except OSError:
            with suppress(OSError):  # what fails is found when it is opened
                self._cut_off()
            raise
        place = Place(self.size, len(data))
        self.size += len(data)
        return place

    def _reserve(self, size: int) -> None:
        """Make the file longer than it will be, where the system can."""
        more = min(RESERVED_BYTES, max(RESERVED_BYTES_MIN, self.size))
        with suppress(OSError, AttributeError):  # a full disk may still take the batch itself
            os.posix_fallocate(self._handle, self._length, size + more - self._length)
            self._length = size + more

    def _cut_off(self) -> None:
        """Cut off what is behind the complete batches; a full disk takes that, too."""
        os.ftruncate(self._handle, self.size)
        self._length = self.size

    def end(self) -> None:
        """Cut off what was reserved, durably; what is appended later is behind the rest."""
        if self._length > self.size:
            self._cut_off()
            os.fsync(self._handle)

    def close(self) -> None:
        """Release the file."""
        with suppress(OSError):  # the next opening does it
            self.end()
        os.close(self._handle)


class SegmentReader:
    """Reads one segment, complete or being appended to; each has a file handle of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._handle).st_size
        header = os.pread(self._handle, SEGMENT_HEADER.size, 0)
        if len(header) < SEGMENT_HEADER.size or header[:4] != SEGMENT_MAGIC:
            os.close(self._handle)
            raise damaged(path, 0, "it does not begin as a segment of the log does")
        _, _, epoch, self.first, _ = SEGMENT_HEADER.unpack(header)
        self.epoch = bytes(epoch).decode("ascii", "replace")
        if path_of(path.parent, self.first) != path:
            os.close(self._handle)
            raise damaged(path, 0, f"it begins with batch {self.first}, unlike its name")

    def batch(self, place: Place) -> Batch:
        """Return the batch at a place. Raises INVALID, naming file and place, for damage."""
        try:
            return Batch.read(os.pread(self._handle, place.size, place.offset))
        except Error as fault:
            raise damaged(self.path, place.offset, fault.message) from None

    def batches(self) -> Iterator[tuple[Place, Batch]]:
        """Yield every batch from the first on; raises INVALID at the first that is not whole."""
        offset = SEGMENT_HEADER.size
        while offset < self.size:
            batch = self.batch_at(offset)
            yield Place(offset, len(batch.data)), batch
            offset += len(batch.data)

    def batch_at(self, offset: int) -> Batch:
        """Return the batch that begins at a place; raises INVALID if it is not whole."""
        data = os.pread(self._handle, _FIRST_READ_BYTES, offset)
        try:
            size = size_at(data, 0)
            if size > len(data):
                data = os.pread(self._handle, size, offset)
            return Batch.read(data)
        except Error as fault:
            raise damaged(self.path, offset, fault.message) from None

    def grown(self) -> int:
        """Return the bytes that the file has now."""
        return os.fstat(self._handle).st_size

    def is_torn(self, offset: int) -> bool:
        """Tell whether what begins at a place is a batch that a crash left incomplete.

        One batch at a time is not synced yet, and it is the last: so it reaches the end of the file
        or would reach beyond it, or only what was reserved is behind it, which is zeros. Its pages
        come to the disk in any order, and one that did not come reads as zeros; so its header may
        be missing, wholly or from a sector's boundary on.
        """
        header = os.pread(self._handle, HEADER_BYTES, offset)
        if len(header) < HEADER_BYTES:
            return True
        there = offset + len(header.rstrip(b"\0"))
        if there < offset + _SIZE_END and (there == offset or not there % SECTOR_BYTES):
            return True
        with suppress(Error):
            return self._is_empty(offset + size_at(header, 0))
        return False

    def _is_empty(self, offset: int) -> bool:
        """Whether there are only zeros from a place on."""
        while data := os.pread(self._handle, RESERVED_BYTES, offset):
            if data.count(0) < len(data):
                return False
            offset += len(data)
        return True

    def close(self) -> None:
        """Release the file."""
        os.close(self._handle)


def damaged(path: Path, offset: int, why: str) -> Error:
    """Return the refusal of a file that was changed from outside; the place is not for callers."""
    error = Error(
        Code.INVALID, f"the log is damaged at byte {offset}: {why}; restore it from a backup"
    )
    error.place = str(path)
    return error
