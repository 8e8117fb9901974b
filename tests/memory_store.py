"""A store in memory: the simplest that is correct, for tests and simulation.

Dictionaries, one list and brute force, so that there is nothing to get wrong; the SQL store is
compared with it. It outlives ``close``: opening it again is a restart after which everything is
still there. ``fault`` lets a test be the disk that fails.
"""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import TypeVar, cast

from rowcast.core.clock import seconds_of
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import Row, answer
from rowcast.core.events import DELETE, MESSAGE, MISSING, PATCH, PUT, RETAINED, Event, Record
from rowcast.core.grouping import Grouping, GroupRow, Groups
from rowcast.core.limits import CLOCK_LEAD_SECONDS_MAX
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot, TopicTable, branch_of
from rowcast.core.topics import TopicFilter
from rowcast.store.page_room import PageRoom
from rowcast.store.read_limit import ReadLimit
from rowcast.store.records import Key, Layout, is_after, logged
from rowcast.store.store import Change, Figures, Keep, Lag, Page, Scan

T = TypeVar("T")

Fault = Callable[[str], None]
"""Called with the name of what is about to be written; what it raises happens instead."""


class _Part:
    """One table's share: its records, their values as queries see them, and what was trimmed."""

    __slots__ = ("layout", "records", "trimmed", "values")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.records: dict[Key, Record] = {}
        self.values: dict[Key, object] = {}
        self.trimmed = 0

    def put(self, event: Event) -> None:
        """Replace the record at the event's topic."""
        key = self.layout.key(event.topic)
        record = self.layout.record(event)
        self.records[key] = record
        value = record.decoded if record.decoded is not MISSING else event.decoded
        self.values[key] = None if value is MISSING else value

    def delete(self, event: Event) -> None:
        """Remove the record at the event's topic."""
        key = self.layout.key(event.topic)
        self.records.pop(key, None)
        self.values.pop(key, None)

    def has(self, topic: str) -> bool:
        """Tell whether a record is at the topic."""
        return self.layout.key(topic) in self.records

    def rows(self) -> list[Row]:
        """Return every record as a query sees it."""
        return list(self.values.items())


def _timely(part: _Part, query: Query) -> list[Row]:
    """Return the records that are as old as a query asks."""
    if query.stale is None:
        return part.rows()
    below, records = query.stale_below, part.records
    old = {key for key, record in records.items() if record.version < below}
    return [row for row in part.rows() if (row[0] in old) is query.stale]


class _Topics:
    """What belongs to one topic table; ``since``: up to where the general part may be its own."""

    __slots__ = ("layout", "since", "table", "trimmed")

    def __init__(self, table: TopicTable, since: int, trimmed: int) -> None:
        self.layout = Layout(None)
        self.table = table
        self.since = since
        self.trimmed = trimmed


_Owner = _Part | _Topics


class MemoryStore:
    """Records and the log, in memory."""

    def __init__(self, epoch: str = "00000000") -> None:
        self._epoch = epoch
        self._lock = RLock()
        self._parts: dict[str | None, _Part] = {None: _Part(Layout(None))}
        self._log: list[tuple[Event, _Owner]] = []
        """The events, and the part that each is of."""
        self._topics: dict[TopicRoot, _Topics] = {}
        self._former: dict[TopicRoot, int] = {}
        """Up to where the events of branches are gone whose tables were dropped."""
        self._states: dict[str, dict[str, bytes]] = {}
        self._reserved = self._last_version = self._applied = 0
        self.fault, self.missing_numbers = cast("Fault | None", None), lambda _after, _until: 0
        """Asked with the name of a method of the writer before it changes anything."""

    @property
    def epoch(self) -> str:
        """Eight hexadecimal digits that name this log."""
        return self._epoch

    def open(self, tables: Sequence[Table]) -> None:
        """Make what is missing for these tables."""
        with self._lock:
            for table in tables:
                part = self._parts.setdefault(_name(table), _Part(Layout(table)))
                part.layout = Layout(table)

    def close(self) -> None:
        """Do nothing: what was committed stays."""

    # -- the writer thread -------------------------------------------------------------------------

    def reserve(self, seq: int, first: int = 0) -> None:
        """Promise that numbers up to ``seq`` will not be handed out again."""
        self._ask("reserve")
        self._reserved = max(self._reserved, seq)

    def caught_up(self) -> None:
        """Do nothing: there is no log that it could be behind."""

    def lag(self) -> Lag:
        """Return none, likewise."""
        return Lag()

    def pack(self, events: Sequence[Event], changes: Sequence[Change] = ()) -> object:
        """Return what ``append`` takes."""
        return events, changes

    is_behind = False

    def append(self, packed: object, *, may_outrun_tables: bool = False) -> None:
        """Write what was packed."""
        self.commit(*packed)

    def applied(self) -> int:
        """Return the number of the log's last batch that was committed."""
        return self._applied

    def commit(
        self, events: Sequence[Event], changes: Sequence[Change] = (), applied: int = 0
    ) -> list[bool]:
        """Write events, the records they make, and changes."""
        self._ask("commit")
        with self._lock:
            self._applied = applied or self._applied
            for event in events:
                self._part(event.table).layout.key(event.topic)  # refuses before anything changes
            for change in changes:
                self._change(change)
            return [self._apply(event) for event in events]

    def _change(self, change: Change) -> None:
        facts = self._states.setdefault(change.owner, {})
        if change.value is not None:
            facts[change.name] = change.value
        elif change.name:
            facts.pop(change.name, None)
        else:
            facts.clear()
        if not facts:
            del self._states[change.owner]

    def _apply(self, event: Event) -> bool:
        part = self._part(event.table)
        existed = event.kind != MESSAGE and part.has(event.topic)
        if event.kind in {PUT, PATCH}:
            part.put(event)
        elif event.kind == DELETE:
            part.delete(event)
        owner: _Owner | None = None
        if event.table is None:
            owner = self._topics.get(branch_of(event.topic))
        self._log.append((logged(event), owner or part))
        self._last_version = max(self._last_version, event.version)
        return existed

    def lookup(self, wanted: Sequence[tuple[Table | None, str]]) -> dict[str, Record]:
        """Return the current records of these topics."""
        found = {topic: self.get(table, topic) for table, topic in wanted}
        return {topic: record for topic, record in found.items() if record is not None}

    def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Forget a part's oldest events beyond ``keep``."""
        self._ask("trim")
        with self._lock:
            owner = self._own(source)
            events = [event for event, of in self._log if of is owner]
            dropped = events[: min(limit, _beyond(events, keep, now_seconds))]
            if owner is not None and dropped:
                owner.trimmed = last = dropped[-1].seq
                self._log = [
                    item for item in self._log if item[1] is not owner or item[0].seq > last
                ]
            return len(dropped)

    def define(self, *tables: TopicTable) -> None:
        """Give branches a table: from now on the events of each are a part of their own."""
        self._ask("define")
        with self._lock:
            before = dict(self._topics)
            try:
                for table in tables:
                    self._define(table)
            except Error:
                self._topics = before
                raise
            for table in tables:
                self._former.pop(table.branch, None)

    def _define(self, table: TopicTable) -> None:
        if not self._is_defined(table):
            general, branch = self._part(None), table.branch
            any_left = any(of is general for _, of in self._log)
            trimmed = self._former.get(branch, 0) if any_left else self.trimmed(branch)
            self._topics[branch] = _Topics(table, self.head() if any_left else 0, trimmed)

    def drop(self, table: TopicTable) -> None:
        """End a branch's table with the events that it has."""
        self._ask("drop")
        with self._lock:
            if self._is_defined(table):
                owner = self._topics.pop(table.branch)
                seqs = [event.seq for event, of in self._log if of is owner]
                self._former[table.branch] = max([owner.trimmed, *seqs])
                self._log = [item for item in self._log if item[1] is not owner]

    def tidy(self, limit: int) -> bool:
        """Do nothing: nothing was left for later."""
        return False

    def _is_defined(self, table: TopicTable) -> bool:
        known = [item.table for item in self._topics.values()]
        if any(
            item != table and (item.branch == table.branch or item.name == table.name)
            for item in known
        ):
            raise Error(Code.CONFLICT, f"{table.name} for {table.branch}: another is in its place")
        return table in known

    # -- any thread --------------------------------------------------------------------------------

    def limited(self, limit: ReadLimit, call: Callable[[], T]) -> T:
        """Do reads on this thread; nothing here takes long, so a limit is asked once."""
        limit.check()
        return call()

    def head(self) -> int:
        """Return the greatest number committed or trimmed."""
        with self._lock:
            trimmed = max(part.trimmed for part in self._parts.values())
            return max(trimmed, self.trimmed(None), self._log[-1][0].seq if self._log else 0)

    def reserved(self) -> int:
        """Return the number up to which ``reserve`` has promised."""
        return self._reserved

    def last_version(self) -> int:
        """Return the greatest version ever committed."""
        return self._last_version

    def return_versions(self, version: int) -> None:
        """Forget that versions above this one were committed."""
        self._ask("return_versions")
        self._last_version = min(self._last_version, version)

    def trimmed(self, source: LogSource) -> int:
        """Return the greatest number that may be gone of a source."""
        with self._lock:
            general = self._part(None).trimmed
            if source is None:
                own = [item.trimmed for item in self._topics.values()]
                return max(general, *own, *self._former.values(), 0)
            if not isinstance(source, TopicRoot):
                return self._part(source).trimmed
            topics = self._topics.get(source)
            if topics is None:
                return max(general, self._former.get(source, 0))
            return max(topics.trimmed, min(general, topics.since))

    def topic_tables(self) -> list[TopicTable]:
        """Return the tables that were defined and not dropped, in the order of their making."""
        with self._lock:
            return [item.table for item in self._topics.values()]

    def figures(self, source: LogSource) -> Figures:
        """Return what is known of a source at once."""
        with self._lock:
            owner = self._own(source)
            events = [
                event
                for event, of in self._log
                if of is owner or (source is None and event.table is None)
            ]
            size = sum(len(event.payload) for event in events)
            return Figures(self.count(source), len(events), size, self.trimmed(source))

    def place(self, after: int, sources: Sequence[LogSource] | None) -> str:
        """Return what ``read`` would read, as a text."""
        with self._lock:
            if sources is None:
                return "#"
            return repr(sorted({self._place(after, source) for source in sources}))

    def _place(self, after: int, source: LogSource) -> str:
        if isinstance(source, TopicRoot):
            topics = self._topics.get(source)
            if topics is None:
                return "general"
            return f"{source} and the general one to {topics.since if topics.since > after else 0}"
        return "undeclared" if source is None and self._topics else _name(source) or "general"

    def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""
        with self._lock:
            part = self._part(table)
            key = part.layout.key_or_none(topic)
            return None if key is None else part.records.get(key)

    def read(
        self, after: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return events of the log after a position."""
        with self._lock:
            return [event for event in self._events(sources) if event.seq > after][:limit]

    def read_back(
        self, before: int, limit: int, sources: Sequence[LogSource] | None = None
    ) -> list[Event]:
        """Return events of the log before a position, newest first."""
        with self._lock:
            events = [event for event in self._events(sources) if event.seq < before]
            return events[::-1][:limit]

    def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return records that the filter selects, in the order of their keys."""
        with self._lock:
            part = self._part(table)
            last = part.layout.key(after) if after else None
            found = [
                record
                for key, record in sorted(part.records.items())
                if topics.matches(record.topic) and (last is None or is_after(key, last))
            ]
            return Page(self.head(), found[:limit], more=len(found) > limit)

    def scan_all(self, scans: Sequence[Scan], limit: int, size: int) -> list[Page]:
        """Return the first pages of several scans, within a bound of records and of bytes."""
        room = PageRoom(limit, size)
        with self._lock:
            found = (self.scan(*item, limit + 1) for item in scans)
            return room.pages(room.page(page.position, iter(page.records)) for page in found)

    def search(self, table: Table, query: Query) -> Page:
        """Return one page of the query's answer."""
        with self._lock:
            part = self._part(table)
            page = answer(query, _timely(part, query))
            records = [part.records[key] for key, _ in page.rows]  # type: ignore[index] # a Key
            return Page(self.head(), records, more=bool(page.after), after=page.after)

    def matching(self, table: Table, query: Query) -> int:
        """Return how many records the query's conditions select."""
        with self._lock:
            rows = _timely(self._part(table), query)
            return sum(holds(query.where, value, key) for key, value in rows)

    def grouped(self, table: Table, query: Query, grouping: Grouping, most: int) -> list[GroupRow]:
        """Return the groups of what the query's conditions select."""
        with self._lock:
            groups = Groups(grouping, most)
            for key, value in _timely(self._part(table), query):
                if holds(query.where, value, key):
                    groups.add(value, key)
            return groups.rows()

    def count(self, source: LogSource) -> int:
        """Return how many records a source has."""
        with self._lock:
            if isinstance(source, TopicRoot):
                topics = [record.topic for record in self._part(None).records.values()]
                return sum(map(source.has, topics)) if source in self._topics else 0
            return len(self._part(source).records)

    def history(
        self, source: LogSource, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last events at one topic, oldest first."""
        with self._lock:
            found = [event for event in self._events([source]) if event.topic == topic]
            found = [event for event in found if before is None or event.seq < before]
            return found[max(0, len(found) - limit) :]

    def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return events at one topic after a position, in order."""
        with self._lock:
            events = self._events([source])
            return [item for item in events if item.topic == topic and item.seq > after][:limit]

    def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position."""
        with self._lock:
            events = reversed(self._events([source]))
            at_topic = (item for item in events if item.topic == topic and item.seq <= until)
            return next((item for item in at_topic if item.kind in RETAINED), None)

    def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version."""
        with self._lock:
            found = (event.seq for event in self._events([source]) if event.version >= version)
            return next(found, self.head() + 1) - 1

    def states(self, prefix: str) -> list[tuple[str, str, bytes]]:
        """Return the facts of owners that begin with ``prefix``, by owner and name."""
        with self._lock:
            owners = sorted(owner for owner in self._states if owner.startswith(prefix))
            return [
                (owner, *fact) for owner in owners for fact in sorted(self._states[owner].items())
            ]

    def facts(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the values of these facts, by owner and name; absent ones are left out."""
        with self._lock:
            found = {place: self._states.get(place[0], {}).get(place[1]) for place in places}
            return {place: value for place, value in found.items() if value is not None}

    def expired(self, now_seconds, limit, behind=(0.0, 0)):
        """Return records whose time is over, of all tables, the longest over first."""
        with self._lock:
            records = [record for part in self._parts.values() for record in part.records.values()]
            over = [item for item in records if 0 < item.expires_at <= now_seconds]
            over = [item for item in over if item.expires_at >= behind[0]]
            return sorted(over, key=lambda item: item.expires_at)[behind[1] :][:limit]

    def next_expiry(self) -> float | None:
        """Return when the next record's time is over."""
        with self._lock:
            records = [record for part in self._parts.values() for record in part.records.values()]
            return min((item.expires_at for item in records if item.expires_at > 0), default=None)

    # -- inside ------------------------------------------------------------------------------------

    def _ask(self, what: str) -> None:
        if self.fault is not None:
            self.fault(what)

    def _part(self, table: Table | None) -> _Part:
        return self._parts[_name(table)]

    def _own(self, source: LogSource) -> _Owner | None:
        """Return the part that belongs to a source alone."""
        return self._topics.get(source) if isinstance(source, TopicRoot) else self._part(source)

    def _events(self, sources: Sequence[LogSource] | None) -> list[Event]:
        """Return the events of sources; None: all of them."""
        if sources is None:
            return [event for event, _ in self._log]
        return [event for event, of in self._log if any(self._is_of(s, event, of) for s in sources)]

    def _is_of(self, source: LogSource, event: Event, owner: _Owner) -> bool:
        """Tell whether an event is read with a source."""
        if not isinstance(source, TopicRoot):
            return _name(source) == _name(event.table)
        topics, general = self._topics.get(source), self._part(None)
        if topics is None:
            return owner is general
        return owner is topics or (owner is general and event.seq <= topics.since)


def _name(table: Table | None) -> str | None:
    return f"{table.database}/{table.name}" if table is not None else None


def _beyond(events: Sequence[Event], keep: Keep, now_seconds: float) -> int:
    """Return how many of a table's events, oldest first, are more than ``keep`` says."""
    count = max(0, len(events) - keep.events) if keep.events else 0
    if keep.seconds:
        since, until = now_seconds - keep.seconds, now_seconds + CLOCK_LEAD_SECONDS_MAX
        ages = [(index, seconds_of(e.version)) for index, e in enumerate(events)]
        known = [(index, at) for index, at in ages if at <= until]
        young = next((number for number, (_, at) in enumerate(known) if at >= since), len(known))
        count = max(count, known[young - 1][0] + 1 if young else 0)
    if keep.bytes:
        size = sum(len(event.payload) for event in events[count:])
        while size > keep.bytes:
            size -= len(events[count].payload)
            count += 1
    return count
