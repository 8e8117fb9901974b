"""The record cache: current records in memory, so that a hot read costs no trip to the disk.

The writer thread puts in what it has committed, before it is announced; readers put in what they
read, but only when nothing was evicted meanwhile, so an old value can never replace a newer one.
A look is one dictionary operation, which is atomic in CPython; whoever changes something holds a
lock, because the bytes are counted too. A deleted record stays as a known absence (None).

What was committed is first the event as it was written; who reads it (``reader.py``) gives it the
form that the store gives back, once, so that memory and disk never differ by a byte.
"""

from threading import Lock
from typing import Final

from app.core.events import PATCH, Record
from app.core.limits import RECORD_CACHE_BYTES_MAX, RECORD_CACHE_RECORDS_MAX


class Unknown:
    """The type of UNKNOWN: the cache cannot say."""

    __slots__ = ()


UNKNOWN: Final = Unknown()


class RecordCache:
    """Topics to their current records; bounded; the oldest written goes first."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_lock",
        "_records",
        "_records_max",
        "_written",
        "evictions",
    )

    def __init__(
        self,
        records_max: int = RECORD_CACHE_RECORDS_MAX,
        bytes_max: int = RECORD_CACHE_BYTES_MAX,
    ) -> None:
        self._records: dict[str, Record | None] = {}
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._written: set[str] = set()
        self._lock = Lock()
        self.evictions = 0
        """Counts what left; a reader that saw it change does not fill."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, topic: str) -> Record | Unknown | None:
        """Return the current record, None if there is none, UNKNOWN if the store must be asked."""
        return self._records.get(topic, UNKNOWN)

    def put(self, topic: str, record: Record | None) -> None:
        """Note what was committed: called by the writer only."""
        with self._lock:
            known = self._records.pop(topic, None)  # it goes to the end, as the newest
            self._records[topic] = record
            self._bytes += _size(record) - _size(known)
            if record is not None and (record.table is not None or record.kind == PATCH):
                self._written.add(topic)
            else:
                self._written.discard(topic)
            while len(self._records) > self._records_max or self._bytes > self._bytes_max:
                self.evictions += 1
                self._forget(next(iter(self._records)))

    def fill(self, topic: str, record: Record | None, evictions: int) -> None:
        """Note what was read, unless the writer has been there since ``evictions`` was seen."""
        with self._lock:
            if (
                self.evictions == evictions
                and topic not in self._records
                and len(self._records) < self._records_max
                and self._bytes + _size(record) <= self._bytes_max
            ):
                self._records[topic] = record
                self._bytes += _size(record)

    def as_written(self, topic: str) -> bool:
        """Tell whether the record is the event that wrote it, not yet in the store's form."""
        return topic in self._written

    def settle(self, topic: str, written: Record, stored: Record) -> None:
        """Put the store's form of a record in the place of the event that wrote it."""
        with self._lock:
            if self._records.get(topic) is written:
                self._records[topic] = stored
                self._bytes += len(stored.payload) - len(written.payload)
                self._written.discard(topic)

    def _forget(self, topic: str) -> None:
        self._written.discard(topic)
        self._bytes -= _size(self._records.pop(topic, None))


def _size(record: Record | None) -> int:
    return len(record.payload) if record is not None else 0
