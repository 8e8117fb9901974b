"""The record cache: current records in memory, so that a hot read costs no trip to the disk.

The committer puts in what is in the log, before it is announced; readers put in what they
read, but only when nothing was evicted meanwhile, so an old value can never replace a newer one.
A look is one dictionary operation, which is atomic in CPython; whoever changes something holds a
lock, because the bytes are counted too. A deleted record stays as a known absence (None).

What it holds is counted with decoded values, as far as they can be estimated; a large record is
there as bytes alone, and each reader has a copy of its own, with which what it decodes goes.

What was committed is first the event as it was written; who reads it (``reader.py``) gives it the
form that the store gives back, once, so that memory and disk never differ by a byte.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from threading import Lock
from typing import Final

from rowcast.core.events import DELETE, MISSING, PATCH, RETAINED, Record
from rowcast.core.memory_limits import (
    RECORD_CACHE_BYTES_MAX,
    RECORD_CACHE_PAYLOAD_BYTES_MAX,
    RECORD_CACHE_RECORDS_MAX,
)
from rowcast.reads.held_bytes import held_bytes


class Unknown:
    """The type of UNKNOWN: the cache cannot say."""

    __slots__ = ()


UNKNOWN: Final = Unknown()


class RecordCache:
    """Topics to their current records; bounded; the oldest written goes first."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_large",
        "_lock",
        "_payload_max",
        "_records",
        "_records_max",
        "_sizes",
        "_weigh",
        "_written",
        "evictions",
        "restore",
    )

    def __init__(
        self,
        records_max: int = RECORD_CACHE_RECORDS_MAX,
        bytes_max: int = RECORD_CACHE_BYTES_MAX,
        payload_max: int = RECORD_CACHE_PAYLOAD_BYTES_MAX,
        weigh: Callable[[Record], int] = held_bytes,
    ) -> None:
        self._payload_max = payload_max
        self._weigh = weigh
        self._sizes: dict[str, int] = {}
        self._large: set[str] = set()
        """Topics of records that are here as bytes alone."""
        self._records: OrderedDict[str, Record | None] = OrderedDict()
        """The oldest written is the first, which a plain dict would search for at each eviction."""
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._written: set[str] = set()
        self._lock = Lock()
        self.restore: Callable[[Record], None] | None = None
        """Decodes a record that was put in as it came from the log, before somebody looks at it."""
        self.evictions = 0
        """Number of evictions; a reader that saw it change does not fill."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, topic: str) -> Record | Unknown | None:
        """Return the current record, None if there is none, UNKNOWN if the store must be asked."""
        known = self._records.get(topic, UNKNOWN)
        if topic in self._large and isinstance(known, Record):
            return known.changed()
        return known if self.restore is None else self._restored(known, self.restore)

    def recall(self, topic: str) -> Record | None:
        """Return a record that is here whole and in the store's form; None says nothing."""
        if topic in self._written or topic in self._large:
            return None
        return self._records.get(topic)

    def whole(self, topic: str) -> Record | Unknown | None:
        """Do likewise for readers of the decoded value: of a large record only the store has it."""
        known = UNKNOWN if topic in self._large else self._records.get(topic, UNKNOWN)
        return known if self.restore is None else self._restored(known, self.restore)

    @staticmethod
    def _restored(
        known: Record | Unknown | None, restore: Callable[[Record], None]
    ) -> Record | Unknown | None:
        if isinstance(known, Record) and known.decoded is MISSING:
            restore(known)
        return known

    def put_all(self, events: Sequence[Record], known: Collection[str] | None = None) -> None:
        """Put in the records that committed events make; only those at ``known`` topics.

        Called by the writer only.
        """
        records, sizes, weigh, payload_max = (
            self._records,
            self._sizes,
            self._weigh,
            self._payload_max,
        )
        with self._lock:
            for event in events:
                topic = event.topic
                if event.kind not in RETAINED or (known is not None and topic not in known):
                    continue
                if event.kind == DELETE or len(event.payload) > payload_max:
                    self._put_rare(event)
                else:  # as nearly always: what ``_forget`` and ``_keep`` do, without their calls
                    written = event.table is not None or event.kind == PATCH
                    if written:
                        self._written.add(topic)  # first, for a look is made without the lock
                    records[topic] = event
                    records.move_to_end(topic)  # as the newest
                    size = weigh(event)
                    self._bytes += size - sizes.get(topic, 0)
                    sizes[topic] = size
                    if self._large:
                        self._large.discard(topic)
                    if not written:
                        self._written.discard(topic)
                while len(records) > self._records_max or self._bytes > self._bytes_max:
                    self.evictions += 1
                    self._forget(next(iter(records)))

    def _put_rare(self, event: Record) -> None:
        """Put in the absence of a deleted record, or a large one, which is kept as bytes."""
        topic = event.topic
        self._forget(topic)
        if event.kind == DELETE:
            self._keep(topic, None)
        elif event.table is not None or event.kind == PATCH:
            self.evictions += 1  # what the store makes of it, the store is asked
        else:
            self._keep(topic, event)

    def known(self, events: Sequence[Record]) -> set[str]:
        """Return at which of these topics a record is here, after the events are committed.

        For a bulk write, which puts in these alone, so that it pushes out nothing that is read.
        What was read of the others before is not filled in any more.
        """
        with self._lock:
            self.evictions += 1
            return {event.topic for event in events if event.topic in self._records}

    def fill(self, topic: str, record: Record | None, evictions: int) -> None:
        """Put in a record that was read, unless one was evicted since ``evictions`` was seen."""
        with self._lock:
            if (
                self.evictions == evictions
                and topic not in self._records
                and len(self._records) < self._records_max
                and self._bytes + self._size(record) <= self._bytes_max
            ):
                self._keep(topic, record)

    def as_written(self, topic: str) -> bool:
        """Whether the record is the event that wrote it, not yet in the store's form."""
        return topic in self._written

    def settle(self, topic: str, written: Record, stored: Record) -> None:
        """Put the store's form of a record in the place of the event that wrote it."""
        with self._lock:
            if self._records.get(topic) is written:
                self._bytes -= self._sizes.get(topic, 0)
                self._keep(topic, stored)
                self._written.discard(topic)

    def clear(self) -> None:
        """Forget all records: memory is short."""
        with self._lock:
            self.evictions += 1
            for held in (self._records, self._sizes, self._large, self._written):
                held.clear()
            self._bytes = 0

    def _keep(self, topic: str, record: Record | None) -> None:
        size = self._size(record)
        if record is not None and len(record.payload) > self._payload_max:
            record = record.changed(decoded=MISSING)
            self._large.add(topic)
        self._records[topic] = record
        self._sizes[topic] = size
        self._bytes += size

    def _size(self, record: Record | None) -> int:
        if record is None:
            return 0
        large = len(record.payload) > self._payload_max
        return len(record.payload) if large else self._weigh(record)

    def _forget(self, topic: str) -> None:
        if self._records.pop(topic, UNKNOWN) is not UNKNOWN:
            self._bytes -= self._sizes.pop(topic)
            self._written.discard(topic)
            self._large.discard(topic)
