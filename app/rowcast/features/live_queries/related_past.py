"""What happened to a live query with conditions on related records since a position (M3, A9).

The keys of the other tables are known as of now. The log tells which of them a write added or
removed since; the records that refer to these keys are read by one statement for each table,
however many writes there were, and put back as they were. So the query is known as of the position,
and from there the events are taken one by one. All of this is in slices of the loop: a write of
one record may concern ten thousand others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rowcast.core.conditions import ABSENT, Where
from rowcast.core.events import DELETE, RETAINED, Event, Record
from rowcast.core.query_limits import WINDOW_TOUCHED_MAX
from rowcast.core.relation_limits import LIVE_RELATED_RECORDS_MAX, RELATED_RECORDS_MAX
from rowcast.core.tables import Table
from rowcast.features.live_queries.query_index import Key
from rowcast.features.live_queries.related_plan import (
    Branch,
    Counts,
    Has,
    Node,
    Plan,
    add,
    anything,
    has_of,
    of_others,
)
from rowcast.features.live_queries.related_pool import Pool, SelectedRecords, is_in
from rowcast.features.live_queries.window_replay import TOO_MUCH, TRIMMED
from rowcast.reads.before_image import UnknownBefore, before_of
from rowcast.reads.loop_turns import each
from rowcast.subscriptions.live_query import Step, Unknown, as_step
from rowcast.subscriptions.reader import Reader

TOO_MANY = "a write of a related record concerns more records than are compared one by one"


class Limits(NamedTuple):
    """Bounds of one query."""

    keys: int = RELATED_RECORDS_MAX
    """Records, or keys of records, to which one of its conditions leads."""
    events: int = WINDOW_TOUCHED_MAX
    """Events of the tables since the position."""
    records: int = LIVE_RELATED_RECORDS_MAX
    """Records of one table that may be concerned by them."""


class Steps(NamedTuple):
    """The steps of one event; each has the number of its record."""

    position: int
    steps: list[Event]


class Past:
    """The events of a plan's tables after ``since``, up to ``position``."""

    def __init__(
        self, plan: Plan, reader: Reader, since: int, position: int, limits: Limits
    ) -> None:
        self._plan = plan
        self._reader = reader
        self._since = since
        self._position = position
        self._limits = limits
        self._tables = {table.name: table for table in plan.tables}
        self._pools = {name: Pool(plan, name) for name in self._tables}
        self._selected_records = SelectedRecords(plan, self._pools)
        self.before: dict[str, Record | None] = {}
        """The records that steps are about as they were told at ``since``; None: they did not
        match."""

    async def steps(self, counts: Counts) -> list[Steps]:
        """Return the steps of each event; ``counts`` are those of the position.

        Raises Unknown where the log does not tell, or too many records would be compared.
        """
        events = await self._settled()
        start = await self._counted_at_start(events, counts)
        return await self._forward(events, start)

    async def steps_from(self, counts: Counts) -> list[Steps]:
        """Return the same by the counts of ``since``, which become those of the position."""
        return await self._forward(await self._settled(), counts)

    async def _settled(self) -> list[Event]:
        """Return the events, when the pools have what they concern."""
        events = await self.events()
        found, upto = await self._found(events)
        await self._settle(events, found, upto)
        return events

    async def _forward(self, events: list[Event], counts: Counts) -> list[Steps]:
        taken = [await self._taken(event, counts) async for event in each(events)]
        return [made for made in taken if made is not None]

    async def shown(self, records: Sequence[Record]) -> list[Event]:
        """Return records as their readers are told them, as of the position."""
        root, table = self._plan.root, self._plan.root.table.name
        await self._settle([], list(records), self._position)
        pool, selected = self._pools[table].records, self._selected_records
        current = [pool[record.topic] for record in records if record.topic in pool]
        return [
            selected.record(seen)
            async for record in each(current)
            if (seen := root.seen(record)) is not None
        ]

    # -- what is concerned -------------------------------------------------------------------------

    async def events(self) -> list[Event]:
        """Return the events; raises Unknown."""
        return await self._events(self._since, self._position)

    async def _events(self, since: int, position: int) -> list[Event]:
        """Return the events of the tables between two positions."""
        reader, tables = self._reader, list(self._tables.values())
        found: list[Event] = []
        while since < position:
            page = await reader.page(since, reader.log_page_events, tables, position)
            trimmed = reader.trimmed(tables)  # checked after the read: it only grows
            if trimmed > since:
                raise Unknown(TRIMMED, trimmed)
            since = page.upto
            found += [event for event in page.events if self._is_of(event, position)]
            if len(found) > self._limits.events:
                raise Unknown(TOO_MUCH)
        if any(isinstance(before_of(event), UnknownBefore) for event in found):
            raise Unknown(TRIMMED)
        return found

    def _is_of(self, event: Event, position: int) -> bool:
        table = event.table
        within = table is not None and table.name in self._tables and event.seq <= position
        return within and event.kind in RETAINED

    async def _found(self, events: list[Event]) -> tuple[list[Record], int]:
        """Return the records that refer to keys which may have changed, and their position.

        A record that refers to another one since is not found by its key any more: its event is
        after the position, and leads to what refers to it.
        """
        keys: list[set[Key]] = [set() for _ in self._plan.branches]
        found, known, upto = list[Record](), list(events), self._position
        await self._reader.caught_up()
        for number, node in enumerate(self._plan.nodes):
            records, position = await self._read(node, node.referring(keys))
            found += records
            known += await self._events(upto, position)
            upto = max(upto, position)
            if number < len(keys):
                keys[number] = await _moved(self._plan.branches[number], known, records)
        return found, upto

    async def _read(self, node: Node, where: Where | None) -> tuple[list[Record], int]:
        """Return the records of a table that satisfy conditions, and their position."""
        most = self._limits.records
        query = None if where is None else node.narrowed(where, most + 1)
        if query is None:
            return [], 0
        page = await self._reader.search(node.table, query)
        if len(page.records) > most:
            raise Unknown(TOO_MANY)
        return list(page.records), page.position

    async def _settle(self, events: list[Event], found: list[Record], upto: int) -> None:
        """Fill the pools with what is known, as of before the events."""
        later = await self._events(self._position, upto)
        if self._plan.joins:
            others, upto = await self._joined([*events, *later], found, upto)
            found = [*found, *others]
            later = await self._events(self._position, upto)
        await self._put_back(found, [*events, *later])

    async def _joined(
        self, events: list[Event], found: list[Record], upto: int
    ) -> tuple[list[Record], int]:
        """Return the records of which parts are told of those that may be concerned."""
        others, events = list[Record](), list(events)
        for branch in reversed(self._plan.branches):  # from the query's table on
            holder = self._plan.holder(branch)
            if not branch.is_selected:
                continue
            known = [*found, *others, *events, *map(before_of, events)]
            keys: set[Key] = set()
            async for record in each(known):
                if isinstance(record, Record) and is_in(record, holder.table.name):
                    values = holder.values
                    keys.update(branch.own_keys(values.value(record), values.id(record)))
            records, position = await self._read(
                branch.node, of_others(branch.relation, keys) if keys else None
            )
            others += records
            events += await self._events(upto, position)
            upto = max(upto, position)
        return others, upto

    # -- as it was ---------------------------------------------------------------------------------

    async def _put_back(self, found: Sequence[Record], events: Sequence[Event]) -> None:
        """Set the pools to what the records were before the events."""
        touched: dict[str, tuple[Table, Record | None]] = {}
        for event in events:
            before = before_of(event)
            if event.table is not None and not isinstance(before, UnknownBefore):
                touched.setdefault(event.topic, (event.table, before))
        async for topic, (table, before) in each(list(touched.items())):
            self._pools[table.name].put(topic, before)
        async for record in each(found):
            if record.topic not in touched and record.table is not None:
                self._pools[record.table.name].put(record.topic, record)

    async def _counted_at_start(self, events: Iterable[Event], counts: Counts) -> Counts:
        """Return the counts before the events, from those after them."""
        newest = {event.topic: event for event in events}
        start = [dict(counted) for counted in counts]
        now, then = has_of(counts), has_of(start)
        for branch in self._plan.branches:
            table, counted = branch.node.table.name, start[branch.number]
            if branch.is_selected:
                continue
            pool = self._pools[table]
            written = [topic for topic, event in newest.items() if is_in(event, table)]
            async for topic in each(list(dict.fromkeys([*pool.records, *written]))):
                before = pool.records.get(topic)
                add(counted, branch.led_to(newest.get(topic, before), now), -1)
                add(counted, branch.led_to(before, then), 1)
        return start

    # -- one by one --------------------------------------------------------------------------------

    async def _taken(self, event: Event, counts: Counts) -> Steps | None:
        """Take an event; return the steps that it is, None if it is none."""
        moved: dict[int, set[Key]] = {}
        now = has_of(counts)

        def then(number: int, key: Key) -> bool:
            return now(number, key) is not (key in moved.get(number, ()))

        for branch in self._plan.branches:
            counted, keys = counts[branch.number], set[Key]()
            async for old, new in each(list(self._concerned(branch.node, event, moved))):
                for led, more in ((branch.led_to(old, then), -1), (branch.led_to(new, now), 1)):
                    if branch.is_selected:
                        keys.update(led)
                    else:
                        keys ^= add(counted, led, more)
            moved[branch.number] = keys
        steps = await self._steps(event, moved, then, now)
        return Steps(event.seq, steps) if steps else None

    def _concerned(
        self, node: Node, event: Event, moved: Mapping[int, Iterable[Key]]
    ) -> Iterator[tuple[Record | None, Record]]:
        """Yield the records of a table that an event concerns, as before and after it."""
        pool = self._pools[node.table.name]
        topics: dict[str, None] = {}
        if is_in(event, node.table.name):
            yield pool.records.get(event.topic), event
            topics[event.topic] = None
        for branch in node.branches:
            for topic in list(pool.referring(branch, moved[branch.number])):
                if topic not in topics:
                    topics[topic] = None
                    yield pool.records[topic], pool.records[topic]

    async def _steps(
        self, event: Event, moved: Mapping[int, Iterable[Key]], then: Has, now: Has
    ) -> list[Event]:
        """Return what an event is to the query's table, and put it into the pools."""
        root, selected, made = self._plan.root, self._selected_records, list[Event]()
        concerned: list[tuple[object, Record]] = []
        async for old, new in each(list(self._concerned(root, event, moved))):
            had = old if old is not None and root.holds(old, then) else None
            if new.topic not in self.before:
                seen = None if had is None else root.seen(had)
                self.before[new.topic] = None if seen is None else selected.record(seen)
            concerned.append((ABSENT if had is None else selected.value(had), new))
        if event.table is not None:
            after = None if event.kind == DELETE else event.changed()
            self._pools[event.table.name].put(event.topic, after)
        async for was, new in each(concerned):
            seen = root.seen(new) if root.holds(new, now) else None
            if seen is None:
                made += [as_step(Step.LEAVE, new)] if was is not ABSENT else []
            elif was is ABSENT:
                made.append(as_step(Step.ENTER, selected.record(seen)))
            else:
                same = selected.value(new) == was
                if new is event or not same:
                    made.append(selected.change(seen, same=same))
        return made


async def _moved(branch: Branch, events: Sequence[Event], records: Sequence[Record]) -> set[Key]:
    """Return the keys that may have begun or ceased to lead to a record that matches."""
    found: set[Key] = set()
    async for event in each(events):
        if is_in(event, branch.node.table.name):
            before = before_of(event)
            old = () if isinstance(before, UnknownBefore) else branch.led_to(before, anything)
            new = branch.led_to(event, anything)
            if old != new or branch.is_selected or branch.node.branches:
                found.update(old, new)
    async for record in each(records):
        found.update(branch.led_to(record, anything))
    return found
