"""Reads the files of a log that another process appends to.

The reader is told up to which batch the log is durable, and never looks beyond: what is behind may
be half a batch, or one that a power failure takes back.
"""

from pathlib import Path

from rowcast.log.batch import Batch
from rowcast.log.segment import SEGMENT_HEADER, SUFFIX, SegmentReader, damaged, path_of


class LogFollower:
    """Reads a directory of segments in order, beginning after a batch."""

    def __init__(self, directory: Path, after: int) -> None:
        self._directory = directory
        self._next = after + 1
        self._segment: SegmentReader | None = None
        self._offset = 0

    def read(self, until: int, size: int) -> list[Batch]:
        """Return the next batches up to a number, about ``size`` bytes of them, at least one.

        Raises INVALID, naming the place, when one is damaged or missing.
        """
        found: list[Batch] = []
        while self._next <= until and size > 0:
            batch = self._read()
            found.append(batch)
            size -= len(batch.data)
        return found

    def _read(self) -> Batch:
        segment = self._segment or self._open()
        if self._offset >= segment.grown() and path_of(self._directory, self._next).exists():
            segment = self._open()
        batch = segment.batch_at(self._offset)
        if batch.number != self._next:
            what = f"batch {batch.number} where {self._next} is expected"
            raise damaged(segment.path, self._offset, what)
        self._offset += len(batch.data)
        self._next += 1
        return batch

    def _open(self) -> SegmentReader:
        """Open the segment that has the next batch, and go to its place."""
        firsts = sorted(int(path.stem) for path in self._directory.glob(f"*{SUFFIX}"))
        usable = [first for first in firsts if first <= self._next]
        if not usable:
            raise damaged(self._directory, 0, f"batch {self._next} is missing")
        self.close()
        segment = self._segment = SegmentReader(path_of(self._directory, usable[-1]))
        self._offset = SEGMENT_HEADER.size
        for _ in range(usable[-1], self._next):
            self._offset += len(segment.batch_at(self._offset).data)
        return segment

    def close(self) -> None:
        """Release the file."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
