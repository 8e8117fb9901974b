"""A batch on its way to the log: its decisions, and what they wrote.

``commit.py`` takes it through its steps: current records, decision, append, answers.
"""

from collections.abc import Callable

from rowcast.core.clock import HybridClock
from rowcast.core.errors import Error
from rowcast.core.events import RETAINED, Event
from rowcast.core.limits import BULK_WRITES_MIN
from rowcast.core.tables import Table
from rowcast.reads.record_cache import RecordCache, Unknown
from rowcast.store.store import Appends, Change
from rowcast.writes.batch import Batch
from rowcast.writes.decide import decide_all
from rowcast.writes.last_write_wins import places_of_tombstones, properties_in, stamp_in
from rowcast.writes.write import Current, Outcome


class GroupCommit:
    """One batch between the queue and its answers."""

    __slots__ = (
        "alone",
        "announced",
        "batch",
        "bulk",
        "changes",
        "current",
        "events",
        "late",
        "on_writer_thread",
        "outcomes",
        "packed",
    )

    def __init__(self, batch: Batch, *, alone: bool = False) -> None:
        self.batch = batch
        self.alone = alone
        """Whether it is a part of a batch that failed."""
        self.announced = False
        """Whether it is announced before it is appended."""
        self.on_writer_thread = False
        """Whether it is decided on the writer thread: it is large, or a decider reads the store."""
        self.bulk = False
        """Whether many records were written together, which hardly anybody reads at once."""
        self.current = Current()
        """The current records at its topics, where its writes depend on them."""
        self.late: list[str] = []
        """Topics of writes that may be late, or that follow a deletion that matters."""
        self.outcomes: list[Outcome] = []
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self.packed: object = None
        """The encoded events and changes, of ``Appends.pack``: a ``journal/packed.py:Packed``."""

    def collect(self, cache: RecordCache, clock: HybridClock) -> list[tuple[Table | None, str]]:
        """Collect the current records that are in memory; return those that must be read."""
        current, ask = self.current, list[tuple[Table | None, str]]()
        compares = False
        for write in self.batch.writes:
            if not (write.depends or write.wants_existed):
                continue
            if not compares and (write.versioned or write.follows):
                current.ceiling, compares = clock.ceiling, True
            if write.on_writer_thread:
                self.on_writer_thread = True
            topic = write.event.topic
            if write.versioned and write.event.kind in RETAINED:
                self.late.append(topic)
            if topic in current:
                continue
            record = cache.whole(topic)
            if isinstance(record, Unknown):
                ask.append((write.event.table, topic))
                record = None
            current[topic] = record
            if write.follows and record is None:
                self.late.append(topic)
        return ask

    def fetch(self, store: Appends, ask: list[tuple[Table | None, str]]) -> None:
        """Read records, and tombstones of absent ones, on the writer thread."""
        current = self.current
        if ask:
            current.update(store.lookup(ask))
        absent = {topic for topic in self.late if current[topic] is None}
        if absent:
            places = places_of_tombstones(absent, current.now)
            for (_, topic), value in store.facts(places).items():
                stamp = stamp_in(value)
                current.tombstones[topic] = max(stamp, current.tombstones.get(topic, (0, "")))
                if (kept := properties_in(value)) is not None:
                    current.tombstone_properties[topic, stamp] = kept

    def decide(self, next_seq: Callable[[], int], store: Appends) -> None:
        """Decide its writes, in order, and encode what they write."""
        batch, current, events, changes = self.batch, self.current, self.events, self.changes
        group = batch.writes[0].group if batch.writes else None
        self.bulk = group is not None and len(group.writes) >= BULK_WRITES_MIN
        if not batch.facts_writes:  # the common case, without a generator
            self.outcomes = decide_all(batch.writes, current, events, changes, next_seq)
        else:
            for writes, facts_write in batch.stretches():
                self.outcomes += decide_all(writes, current, events, changes, next_seq)
                if facts_write is not None:
                    changes += facts_write.changes
        if events or changes:
            self.packed = store.pack(events, changes)

    def fail(self, error: Error) -> None:
        """Give it the outcomes of a batch that the disk has refused."""
        self.outcomes = self.batch.refused(error)
