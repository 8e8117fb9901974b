"""Refresh of a store's state in memory when another process has written the file.

The writing process notes each change of the parts (a topic table begins or ends, a trim) as a new
``generation`` in the file. Each read transaction compares it with the one that it knows, in its own
snapshot, so a read never uses parts that its snapshot does not have. Counts come with the reports
of the writer (``PartCounts``), which may be a moment late.
"""

# ruff: noqa: S608 - names are ours, values are bound

from collections.abc import Callable, Sequence
from sqlite3 import Cursor
from threading import Lock
from typing import Final, NamedTuple

from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_parts import Parts
from rowcast.store.sql_tables import META, SWITCHED_IN, TABLES
from rowcast.store.sql_topic_tables import load
from rowcast.store.store_limits import StoreLimits

_GENERATION: Final = f"SELECT CAST(value AS INTEGER) FROM {META} WHERE name='generation'"
_SEEN: Final = (
    f"SELECT max(CAST(value AS INTEGER)) FROM {META} WHERE name IN ('applied','{SWITCHED_IN}')"
)
"""The last batch of which a snapshot has something: a switch is seen before its facts are."""
_COUNTS: Final = f"SELECT id,name,records,events,bytes,trimmed,mixed FROM {TABLES}"


class PartCounts(NamedTuple):
    """The counts of one part after a commit."""

    table_id: int
    records: int
    events: int
    bytes: int


class Report(NamedTuple):
    """What a commit has changed that a following process keeps in memory."""

    applied: int
    """The number of the log's last batch in the tables."""
    head: int
    """The number of the last event."""
    generation: int
    """How often the parts have changed."""
    counts: Sequence[PartCounts] = ()


def counts_of(parts: Sequence[LogPartition]) -> list[PartCounts]:
    """Return the counts of parts."""
    return [PartCounts(part.table_id, part.count, part.events, part.bytes) for part in parts]


class Following:
    """Keeps the parts of a reading process as they are in the file."""

    def __init__(
        self,
        parts: Parts,
        generation: int,
        limits: StoreLimits,
        seen: Callable[[int], None] | None = None,
    ) -> None:
        self._seen = seen
        self._parts = parts
        self._generation = generation
        self._limits = limits
        self._lock = Lock()

    def look(self, cursor: Cursor) -> None:
        """Read the parts again if this transaction's snapshot has others."""
        row = cursor.execute(_GENERATION).fetchone()
        if self._seen is not None:
            self._seen(int(cursor.execute(_SEEN).fetchone()[0] or 0))
        generation = 0 if row is None else int(row[0])
        if generation == self._generation:
            return
        with self._lock:
            if generation > self._generation:
                self._read(cursor)
                self._generation = generation

    def _read(self, cursor: Cursor) -> None:
        parts = self._parts
        own = {part.table_id: part for part in (parts.general, *parts.tables.values())}
        rows = cursor.execute(_COUNTS).fetchall()
        if parts.older is not None:  # before anybody can learn that it was trimmed
            for number, name, *_, trimmed, _mixed in rows:
                parts.older.look(number, name, trimmed)
        for number, _name, records, events, size, trimmed, mixed in rows:
            part = own.get(number)
            if part is not None:
                part.count = part.count if records is None else records
                part.events, part.bytes, part.trimmed = events, size, trimmed
                part.mixed = bool(mixed)
        parts.become(load(cursor, parts.general, parts.tables.values(), self._limits))

    def is_behind(self, generation: int) -> bool:
        """Whether the parts have changed since they were read."""
        return generation > self._generation

    def note(self, counts: Sequence[PartCounts]) -> None:
        """Take over the counts of a report."""
        parts = self._parts
        branches = list(parts.by_level.values())
        known = {part.table_id: part for part in (parts.general, *parts.tables.values(), *branches)}
        for item in counts:
            part = known.get(item.table_id)
            if part is not None:
                part.count, part.events, part.bytes = item.records, item.events, item.bytes
