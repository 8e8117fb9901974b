"""The record cache: current records in memory, so that a hot read costs no trip to the disk.

The writer thread puts in what it has committed, before it is announced; readers put in what they
read, but only when nothing was evicted meanwhile, so an old value can never replace a newer one.
One dictionary operation at a time is atomic in CPython, which is all the locking there is. A
deleted record stays as a known absence (None).
"""

from typing import Final

from app.core.events import Record
from app.core.limits import RECORD_CACHE_BYTES_MAX, RECORD_CACHE_RECORDS_MAX


class Unknown:
    """The type of UNKNOWN: the cache cannot say."""

    __slots__ = ()


UNKNOWN: Final = Unknown()


class RecordCache:
    """Topics to their current records; bounded; the oldest written goes first."""

    __slots__ = ("_bytes", "_bytes_max", "_records", "_records_max", "evictions")

    def __init__(
        self,
        records_max: int = RECORD_CACHE_RECORDS_MAX,
        bytes_max: int = RECORD_CACHE_BYTES_MAX,
    ) -> None:
        self._records: dict[str, Record | None] = {}
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self.evictions = 0
        """Counts what left; a reader that saw it change does not fill."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, topic: str) -> Record | Unknown | None:
        """Return the current record, None if there is none, UNKNOWN if the store must be asked."""
        return self._records.get(topic, UNKNOWN)

    def put(self, topic: str, record: Record | None) -> None:
        """Note what was committed: called by the writer only."""
        old = self._records.pop(topic, None)
        if old is not None:
            self._bytes -= len(old.payload)
        if record is not None:
            self._bytes += len(record.payload)
        self._records[topic] = record
        while len(self._records) > self._records_max or self._bytes > self._bytes_max:
            self._evict()

    def fill(self, topic: str, record: Record | None, evictions: int) -> None:
        """Note what was read, unless the writer has been there since ``evictions`` was seen."""
        if self.evictions == evictions and len(self._records) < self._records_max:
            if record is not None:
                if self._bytes + len(record.payload) > self._bytes_max:
                    return
                self._bytes += len(record.payload)
            kept = self._records.setdefault(topic, record)
            if kept is not record and record is not None:
                self._bytes -= len(record.payload)

    def _evict(self) -> None:
        self.evictions += 1
        try:
            record = self._records.pop(next(iter(self._records)))
        except (KeyError, RuntimeError, StopIteration):  # a reader filled in between: try again
            return
        if record is not None:
            self._bytes -= len(record.payload)
