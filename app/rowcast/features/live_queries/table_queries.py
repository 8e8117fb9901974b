"""The live queries on one table: which of them an event concerns, and who reads them.

It is one subscriber of the bus for all of them. An event is compared with the queries that the
index finds for the record before it and after it, once for all readers, and is offered to the
readers of those for which one of the two holds.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from rowcast.bus.subscriber import Subscriber
from rowcast.core.conditions import Where, holds
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, RETAINED, Event, Record
from rowcast.core.tables import Table
from rowcast.features.live_queries.query_index import QueryIndex
from rowcast.features.live_queries.table_values import TableValues
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.query_points import QueryReader

Match = tuple[bool, bool]
"""Whether conditions hold for the record before an event, and for the record after it."""


class Named(Protocol):
    """What a shared query is called."""

    @property
    def name(self) -> str:
        """The filter that names it."""

    @property
    def key(self) -> str:
        """The same text for readers that see the same."""


class SharedQuery(Protocol):
    """A query whose steps are made once for its readers: a window, or one on related records."""

    @property
    def query(self) -> Named:
        """What it is about."""

    def take(self, event: Event) -> Iterable[QueryReader]:
        """Take an event that may concern it; return the readers to whom it matters."""

    def steps(self, event: Event) -> list[Event] | None:
        """Return what an event of the bus means to its readers; None if that is not known."""

    @property
    def readers(self) -> Iterable[QueryReader]:
        """Those who read it."""

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""


class Matches(NamedTuple):
    """The queries that an event concerns."""

    generation: object
    """That of the queries which it was compared with; another object after each new query."""
    of: dict[str, Match] | None
    """By the name of the query; None if the record before the event is unknown."""


_MATCHES: Final[EventCache[Matches]] = EventCache("matches of live queries")


class TableQueries(Subscriber):
    """The queries of one table, by name, with their readers."""

    def __init__(self, table: Table, transcoder: Transcoder) -> None:
        self.table = table
        self.values = TableValues(table, transcoder)
        self.windows: dict[str, SharedQuery] = {}
        """Those of this table, by their keys, which are names in the index, too."""
        self._index = QueryIndex()
        self._generation = object()
        self._wheres: dict[str, Where | None] = {}
        self._readers: dict[str, dict[QueryReader, None]] = {}

    def __len__(self) -> int:
        return len(self._wheres)

    def enter(self, name: str, where: Where | None, reader: QueryReader) -> None:
        """Offer the events that concern a query to a reader from now on."""
        if name not in self._readers:
            self._add(name, where)
            self._readers[name] = {}
        self._readers[name][reader] = None

    def add_window(self, window: SharedQuery, where: Where | None) -> None:
        """Offer the events that may concern a window to it from now on."""
        self._add(window.query.key, where)
        self.windows[window.query.key] = window

    def remove_window(self, key: str) -> None:
        """Offer them no longer."""
        del self.windows[key]
        self._remove(key)

    def _add(self, name: str, where: Where | None) -> None:
        self._index.add(name, where)
        self._wheres[name] = where
        self._generation = object()  # no number: another table's, or a later one's, may be equal

    def _remove(self, name: str) -> None:
        self._index.remove(name)
        del self._wheres[name]

    def leave(self, name: str, reader: QueryReader) -> bool:
        """Offer them no longer; return whether it was a reader of the query."""
        readers = self._readers.get(name, {})
        if reader not in readers:
            return False
        del readers[reader]
        if not readers:
            self._remove(name)
            del self._readers[name]
        return True

    def offer(self, event: Event) -> None:
        """Offer an event of the bus to the readers that it concerns, each once."""
        table = event.table
        if not event.seq or event.kind not in RETAINED or table is None:
            return
        if table.name != self.table.name:  # another table's topics may be below its path
            return
        found = self.matches(event)
        readers: dict[QueryReader, None] = {}
        for name in list(self._wheres) if found is None else found:
            window = self.windows.get(name)
            at = self._readers.get(name, {}) if window is None else window.take(event)
            readers.update(dict.fromkeys(at))
        for reader in readers:
            reader.offer(event)

    def name_of(self, key: str) -> str:
        """Return the name of a query by its key in the index."""
        window = self.windows.get(key)
        return key if window is None else window.query.name

    def fall_behind(self, event: Event) -> None:
        """Have windows read again, and let every reader go on from the log."""
        if event.table is None or event.table.name != self.table.name:
            return
        readers: dict[QueryReader, None] = {}
        for name in self._wheres:
            window = self.windows.get(name)
            if window is not None:
                window.forget()
            readers.update(dict.fromkeys(self._readers.get(name, {})))
            readers.update(dict.fromkeys(window.readers if window is not None else ()))
        for reader in readers:
            reader.fall_behind(event)

    def matches(self, event: Event) -> dict[str, Match] | None:
        """Return the queries that an event concerns; None if the record before it is unknown."""
        known = _MATCHES.of(event, None)
        if known is None or known.generation is not self._generation:
            known = _MATCHES.put(event, Matches(self._generation, self._matches(event)))
        return known.of

    def _matches(self, event: Event) -> dict[str, Match] | None:
        before = before_of(event)
        if isinstance(before, UnknownBefore):
            return None
        after = None if event.kind == DELETE else event
        record_id = self.values.id(event)
        found: dict[str, Match] = {}
        old, new = self.values.value(before), self.values.value(after)
        states = [new] if before is None else [old] if after is None else [old, new]
        for name in self._index.find(record_id, *states):
            where = self._wheres[name]
            was = before is not None and holds(where, old, record_id)
            is_now = after is not None and holds(where, new, record_id)
            if was or is_now:
                found[name] = was, is_now
        return found

    def selects(self, where: Where | None, record: Record) -> bool:
        """Whether conditions hold for a record."""
        return holds(where, self.values.value(record), self.values.id(record))
