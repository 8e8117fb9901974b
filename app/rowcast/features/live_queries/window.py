"""A live window: the first records of a query in an order, for all who read the same (M3).

It is known as of the newest event. While somebody reads it, an event that concerns its conditions
changes it in memory, and its readers get what that means to them as steps. When a burst of writes
has used up the spare records, its steps are not known at once: its records are read from the store
again, and each reader goes on by a replay of its own (``window_replay.py``), as one does who was
slow, or returns with a cursor.
"""

from dataclasses import dataclass, replace
from functools import partial

from rowcast.core.callers import Caller
from rowcast.core.conditions import Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import order_key
from rowcast.core.events import DELETE, Event, Record
from rowcast.core.queries import Query
from rowcast.core.query_limits import (
    WINDOW_BYTES_MAX,
    WINDOW_LOAD_EVENTS_MAX,
    WINDOW_LOADS_MAX,
    WINDOW_READ_MAX,
)
from rowcast.core.query_windows import Extent
from rowcast.core.tables import Table
from rowcast.features.live_queries.shared_view import SharedView
from rowcast.features.live_queries.table_values import TableValues
from rowcast.features.live_queries.window_order import Entry, WindowOrder, WindowStep
from rowcast.reads.loop_turns import each
from rowcast.seams.visibility import Visibility
from rowcast.subscriptions.live_query import Step, as_step, numbered
from rowcast.subscriptions.reader import Reader


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """What a window is about, and for whom."""

    name: str
    """The filter that names it."""
    key: str
    """The same text for readers that see the same."""
    table: Table
    where: Where | None
    """The conditions as they were asked."""
    readable: Query | None
    """Conditions and order within the rights of its readers; None if they may read nothing."""
    caller: Caller
    """One of them."""
    extent: Extent


class Window(SharedView):
    """One window, as of the newest event."""

    def __init__(
        self,
        query: WindowQuery,
        reader: Reader,
        visibility: Visibility,
        values: TableValues,
        load_events_max: int = WINDOW_LOAD_EVENTS_MAX,
        loads_max: int = WINDOW_LOADS_MAX,
        read_max: int = WINDOW_READ_MAX,
    ) -> None:
        super().__init__(reader, load_events_max)
        self._query = query
        self.values = values
        self._visibility = visibility
        self._loads_max = loads_max
        self._read_max = read_max
        self._order: WindowOrder | None = None
        """What is known; None: nothing is, until somebody asks."""

    @property
    def query(self) -> WindowQuery:
        """What it is about."""
        return self._query

    @property
    def records(self) -> int:
        """How many records it holds, with spare ones."""
        return self.query.extent.known

    def concerned(self, _table: Table) -> Where | None:
        """Return its conditions."""
        return self.query.where

    # -- events ------------------------------------------------------------------------------------

    def _take(self, event: Event) -> list[Event] | None:
        if self._order is None or event.seq <= self._applied:
            return None  # it was read from the store before the bus had it
        self._applied = event.seq
        steps = self._order.take(event.topic, self.entry(event))
        if steps is None:
            self._order = None
            return None
        return self.events_of(steps, event.seq)

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        super().forget()
        self._order = None

    def events_of(self, steps: list[WindowStep], position: int) -> list[Event]:
        """Return the steps of one event as its readers are told them."""
        made: list[Event] = []
        for step, record in steps:
            seen = record if step is Step.LEAVE else self.seen(record)
            if seen is not None:
                made.append(as_step(step, seen))
        return numbered(made, position)

    def entry(self, record: Record | None) -> Entry | None:
        """Return a record at its place; None if it does not match, or may not be read."""
        if record is None or record.kind == DELETE or self.query.readable is None:
            return None
        value, record_id = self.values.value(record), self.values.id(record)
        if not holds(self.query.where, value, record_id) or self.seen(record) is None:
            return None
        kept = record.changed()  # its own caches alone: those of an event lead to other records
        return Entry(order_key(self.query.readable.sort, value, record_id), kept)

    def seen(self, record: Record) -> Record | None:
        """Return a record as readers of the window see it; None if they may not."""
        return next(iter(self._visibility.records(self.query.caller, [record])), None)

    # -- what is known -----------------------------------------------------------------------------

    async def known(self, least: int = 0) -> tuple[WindowOrder, int]:
        """Return what is known, if possible so many records, and its position; raises BUSY."""
        for number in range(self._loads_max):
            order = self._order
            if order is not None and (number or order.reaches(least)):
                return order, self._position
            await self._load_once(partial(self._load, least))
        raise Error(
            Code.BUSY,
            "the records of this window change faster than they can be read; try again",
            retry_after_seconds=1,
        )

    async def _load(self, least: int) -> None:
        """Read the records from the store, and take what has happened meanwhile."""
        order, position = await self._read(max(self.query.extent.known, least))
        if not self._has_all:
            return
        for event in self._held or ():
            if event.seq > position:
                position = event.seq
                if order.take(event.topic, self.entry(event)) is None:
                    return
        self._order, self._applied = order, position

    async def _read(self, most: int) -> tuple[WindowOrder, int]:
        """Return the first records, and their position."""
        query, extent = self.query.readable, self.query.extent
        await self.reader.caught_up()
        if query is None:
            return WindowOrder(extent, (), None, most), self.reader.announced()
        table, asked = self.query.table, most
        while True:
            page = await self.reader.search(table, replace(query, limit=asked, offset=0))
            found = [self.entry(record) async for record in each(page.records)]
            entries = [entry for entry in found if entry is not None]
            if not page.after or len(entries) >= most or not found:
                break
            if asked > self._read_max:
                raise Error(Code.BUSY, "too many records of this window are withheld from you")
            asked *= 2  # some were withheld: one read, since two would be of different times
        horizon = entries[-1].key if page.after and entries else None
        order = WindowOrder(extent, entries, horizon, 2 * most)
        if not order.fits:
            raise Error(
                Code.TOO_LARGE,
                f"the records of this window have more than {WINDOW_BYTES_MAX} bytes; ask for a "
                "smaller limit",
            )
        return order, page.position
