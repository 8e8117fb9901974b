"""Before images: the record that an event replaced, for tables with row rules.

A reader that may see some of a table's records must be told what an event means to it, and that
depends on whether it could see the record before. The writer thread knows that record, and leaves a
copy with the event; for an event that is read from the log it is read from there too. Where the log
no longer has it, nobody knows (UNKNOWN_BEFORE), and nothing is told.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, RETAINED, SNAPSHOT, Event, Record
from rowcast.core.tables import Table


class UnknownBefore:
    """The type of UNKNOWN_BEFORE: the before image is unknown."""

    __slots__ = ()


UNKNOWN_BEFORE: Final = UnknownBefore()

_BEFORE: Final = EventCache[Record | None]("before image")


def before_of(event: Event) -> Record | UnknownBefore | None:
    """Return the record before an event, None if there was none, or UNKNOWN_BEFORE."""
    return UNKNOWN_BEFORE if event.kind == SNAPSHOT else _BEFORE.of(event, UNKNOWN_BEFORE)


def is_ruled(table: Table | None) -> bool:
    """Whether a table has row rules, so that its events need their before image."""
    return table is not None and table.ruled


def set_before_image(event: Event, record: Record | None) -> None:
    """Attach the before image to an event; without its own, for the chain would grow for ever."""
    _BEFORE.put(event, None if record is None else record.changed())


class Changes(Protocol):
    """A log, as far as it is asked for earlier changes."""

    def change(self, table: Table, topic: str, upto: int, /) -> Event | None:
        """Return the last change of a record up to a position."""

    def trimmed(self, table: Table, /) -> int:
        """Return up to where a table's events are gone."""


def find_befores(store: Changes, tables: Iterable[str], events: Sequence[Event]) -> None:
    """Attach the before images to the events of these tables, on a reader thread."""
    ruled = frozenset(tables)
    newest: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: event.seq):
        table = event.table
        if table is None or table.name not in ruled:
            continue
        before = newest.get(event.topic) or store.change(table, event.topic, event.seq - 1)
        if before is None and store.trimmed(table):
            continue
        set_before_image(event, None if before is None or before.kind == DELETE else before)
        if event.kind in RETAINED:
            newest[event.topic] = event
