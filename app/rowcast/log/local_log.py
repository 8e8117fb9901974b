"""The log in files of this machine: a directory of segments, appended to by one process.

``append`` is one write and one ``fdatasync``, in which the interpreter's lock is free. Opening
reads the newest segment, cuts off what a crash left incomplete, and begins a new term. Where each
batch is, is known in memory; a segment that is not the newest is read when somebody asks for it.
A lock on the directory keeps a second process from appending.
"""

import fcntl
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.log.batch import Batch
from rowcast.log.log import Head
from rowcast.log.segment import (
    FILE_MODE,
    SEGMENT_HEADER,
    SUFFIX,
    Place,
    SegmentFile,
    SegmentReader,
    create,
    damaged,
    path_of,
    sync_directory,
)

SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""When a new segment begins: trimming frees at least as much, and opening reads no more."""
READERS_OPEN_MAX: Final = 8
"""Segments whose batches' places are in memory beside the newest: eight readers far behind."""
LOCK: Final = "lock"
DIRECTORY_MODE: Final = 0o700


class _Segment:
    """Where the batches of one file are."""

    def __init__(self, reader: SegmentReader) -> None:
        self.reader = reader
        self.first: int = reader.first
        self.places: list[Place] = []

    def last(self) -> int:
        return self.first + len(self.places) - 1


class LocalLog:
    """A log in a directory, which is made if need be; ``epoch`` names a new one.

    Raises BUSY when another process has it open, and INVALID when a file is damaged.
    ``segment_bytes`` is when a new file begins, ``first`` the number of the first batch of a new
    log, for tables that have had another one. ``synced``: an append is on the disk before it
    returns; a copy of another log need not be.
    """

    def __init__(
        self,
        directory: Path,
        epoch: str,
        segment_bytes: int = SEGMENT_BYTES,
        first: int = 1,
        *,
        synced: bool = True,
    ) -> None:
        self._directory = directory
        self._synced = synced
        self._segment_bytes = segment_bytes
        self._grown = threading.Condition()
        self._reading = threading.Lock()
        self._older: OrderedDict[int, _Segment] = OrderedDict()
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            self._open(epoch, first)
        except BaseException:
            os.close(self._lock)
            raise

    # -- opening -----------------------------------------------------------------------------------

    def _take_lock(self) -> int:
        path = self._directory / LOCK
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            refusal = Error(Code.BUSY, "the log is open in another process; end that one first")
            refusal.place = str(self._directory)
            raise refusal from None
        return handle

    def _open(self, epoch: str, first: int) -> None:
        self._firsts = sorted(
            int(path.stem) for path in self._directory.glob(f"*{SUFFIX}") if path.stem.isdigit()
        )
        if self._firsts:
            self._remove_unfinished()
        if not self._firsts:
            self._firsts = [first]
            create(self._directory, epoch, first).close()
        self._newest = self._recover(self._firsts[-1])
        self._file = SegmentFile.open(self._newest.reader.path, self._end(), synced=self._synced)
        last = self._last_batch()
        self.epoch = self._newest.reader.epoch
        self.term = 1 if last is None else last.term + 1
        self.head = Head(self._newest.last(), 0 if last is None else last.last)
        self.trimmed = self._firsts[0] - 1

    def _remove_unfinished(self) -> None:
        """Remove a newest file whose header a crash cut short: nothing can be in it."""
        path = path_of(self._directory, self._firsts[-1])
        if path.stat().st_size < SEGMENT_HEADER.size:
            path.unlink()
            sync_directory(self._directory)
            self._firsts.pop()

    def _recover(self, first: int) -> _Segment:
        """Find the batches of the newest file; what a crash left incomplete is not among them."""
        segment = _Segment(SegmentReader(path_of(self._directory, first)))
        try:
            self._note(segment)
        except Error:
            if not segment.reader.is_torn(self._end_of(segment)):
                segment.reader.close()
                raise
        return segment

    @staticmethod
    def _note(segment: _Segment) -> None:
        """Note where the batches of a file are. Raises INVALID at one that is not the next."""
        for place, batch in segment.reader.batches():
            if batch.number != segment.last() + 1:
                raise damaged(
                    segment.reader.path,
                    place.offset,
                    f"batch {batch.number} where {segment.last() + 1} is expected",
                )
            segment.places.append(place)

    def _last_batch(self) -> Batch | None:
        """Return the last batch of all; the newest file may have none yet."""
        segment = self._newest
        if not segment.places and len(self._firsts) > 1:
            segment = self._older_segment(self._firsts[-2])
        return segment.reader.batch(segment.places[-1]) if segment.places else None

    @staticmethod
    def _end_of(segment: _Segment) -> int:
        return sum(segment.places[-1]) if segment.places else SEGMENT_HEADER.size

    def _end(self) -> int:
        return self._end_of(self._newest)

    # -- appending ---------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Append a batch; on return it is durable."""
        if batch.term != self.term or batch.number != self.head.number + 1:
            raise Error(
                Code.CONFLICT,
                f"batch {batch.number} of term {batch.term} cannot follow batch"
                f" {self.head.number} in term {self.term}; read the log again",
            )
        try:
            if self._file.size >= self._segment_bytes and self._newest.places:
                self._begin_segment(batch.number)
            place = self._file.append(batch.data)
        except OSError as error:
            refusal = Error(
                Code.BUSY, f"the disk does not take a batch of the log: {error.strerror}"
            )
            refusal.place = str(self._file.path)
            raise refusal from error
        with self._grown:
            self._newest.places.append(place)
            self.head = Head(batch.number, batch.last)
            self._grown.notify_all()

    def _begin_segment(self, first: int) -> None:
        self._file.end()  # first: readers take a file whose successor exists for complete
        file = create(self._directory, self.epoch, first, synced=self._synced)
        reader = SegmentReader(file.path)
        self._file.close()
        self._file = file
        with self._reading:
            self._keep_open(self._newest)
            self._newest = _Segment(reader)
            self._firsts.append(first)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, after: int, size: int) -> list[Batch]:
        """Return the batches after a number, in order, up to about ``size`` bytes."""
        found: list[Batch] = []
        head = self.head.number
        with self._reading:
            if after < self.trimmed:
                raise Error(
                    Code.GONE,
                    f"batches up to {self.trimmed} are no longer in the log; {after} was read last",
                )
            while after < head and size > 0:
                segment = self._segment_of(after + 1)
                batch = segment.reader.batch(segment.places[after + 1 - segment.first])
                found.append(batch)
                size -= len(batch.data)
                after += 1
        return found

    def _segment_of(self, number: int) -> _Segment:
        if number >= self._newest.first:
            return self._newest
        segment = self._older_segment(max(first for first in self._firsts if first <= number))
        if number > segment.last():
            end = self._end_of(segment)
            raise damaged(segment.reader.path, end, f"batch {number} is missing behind it")
        return segment

    def _older_segment(self, first: int) -> _Segment:
        """Return a segment that is not the newest, which is read the first time."""
        segment = self._older.get(first)
        if segment is None:
            segment = _Segment(SegmentReader(path_of(self._directory, first)))
            try:
                if segment.reader.epoch != self._newest.reader.epoch:
                    raise damaged(segment.reader.path, 0, "it belongs to another log")
                self._note(segment)
            except Error:
                segment.reader.close()
                raise
            self._keep_open(segment)
        self._older.move_to_end(first)
        return segment

    def _keep_open(self, segment: _Segment) -> None:
        self._older[segment.first] = segment
        while len(self._older) > READERS_OPEN_MAX:
            self._older.popitem(last=False)[1].reader.close()

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until the log has a batch after a number, at most so long; tell whether it has."""
        with self._grown:
            return self._grown.wait_for(lambda: self.head.number > after, seconds)

    # -- trimming ----------------------------------------------------------------------------------

    def trim(self, until: int) -> None:
        """Remove the segments all of whose batches have at most this number; never the newest."""
        with self._reading:
            gone = 0
            while gone + 1 < len(self._firsts) and self._firsts[gone + 1] - 1 <= until:
                gone += 1
            firsts, self._firsts = self._firsts[:gone], self._firsts[gone:]
            self.trimmed = self._firsts[0] - 1
            for first in firsts:
                if first in self._older:
                    self._older.pop(first).reader.close()
                path_of(self._directory, first).unlink(missing_ok=True)
            if firsts:
                sync_directory(self._directory)

    def close(self) -> None:
        """Release files; what was appended stays."""
        self._file.close()
        with self._reading:
            for segment in (self._newest, *self._older.values()):
                segment.reader.close()
            self._older.clear()
        os.close(self._lock)
