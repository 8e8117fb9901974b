"""A live window: the first records of a query in an order, for all who read the same (M3).

It is known as of the newest event. While somebody reads it, an event that concerns its conditions
changes it in memory, and its readers get what that means to them as steps. When a burst of writes
has used up the spare records, its steps are not known at once: its records are read from the store
again, and each reader goes on by a replay of its own (``window_replay.py``), as one does who was
slow, or returns with a cursor.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.conditions import Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import order_key
from rowcast.core.event_fields import EventField
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
from rowcast.features.live_queries.table_values import TableValues
from rowcast.features.live_queries.window_order import Entry, WindowOrder, WindowStep
from rowcast.kernel.query_points import QueryReader
from rowcast.kernel.visibility import Visibility
from rowcast.subscriptions.live_query import Step, as_step, numbered
from rowcast.subscriptions.reader import Reader

_Steps = dict["Window", list[Event] | None]

_STEPS: Final[EventField[_Steps]] = EventField("steps of windows")


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


class Window:
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
        self.query = query
        self.reader = reader
        self.values = values
        self.readers: dict[QueryReader, None] = {}
        self._visibility = visibility
        self._load_events_max = load_events_max
        self._loads_max = loads_max
        self._read_max = read_max
        self._order: WindowOrder | None = None
        """What is known; None: nothing is, until somebody asks."""
        self._applied = 0
        """The number of the last event that is in it."""
        self._held: list[Event] | None = None
        """Events since its records began to be read from the store; None: they are not."""
        self._loading: asyncio.Task[None] | None = None

    # -- events ------------------------------------------------------------------------------------

    def take(self, event: Event) -> Iterable[QueryReader]:
        """Take an event that concerns its conditions; return the readers to whom it matters."""
        steps = self._take(event)
        kept = _STEPS.of(event, None)
        if kept is None:
            kept = _STEPS.put(event, {})
        kept[self] = None if steps is None else self.told(steps, event.seq)
        return () if steps == [] else self.readers

    def _take(self, event: Event) -> list[WindowStep] | None:
        if self._held is not None and len(self._held) <= self._load_events_max:
            self._held.append(event)
        if self._order is None or event.seq <= self._applied:
            return None  # it was read from the store before the bus had it
        self._applied = event.seq
        steps = self._order.take(event.topic, self.entry(event))
        if steps is None:
            self._order = None
        return steps

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        self._order = self._held = None

    def steps(self, event: Event) -> list[Event] | None:
        """Return what an event of the bus means to its readers; None if that is not known."""
        kept = _STEPS.of(event, None)
        return None if kept is None else kept.get(self)

    def told(self, steps: list[WindowStep], position: int) -> list[Event]:
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
                return order, max(self._applied, self.reader.announced())
            if self._loading is None:
                self._loading = asyncio.get_running_loop().create_task(self._load(least))
            await asyncio.shield(self._loading)
        raise Error(
            Code.BUSY,
            "the records of this window change faster than they can be read; try again",
            retry_after_seconds=1,
        )

    async def _load(self, least: int) -> None:
        """Read the records from the store, and take what has happened meanwhile."""
        most = max(self.query.extent.known, least)
        try:
            self._held = []
            await self.reader.caught_up()
            order, position = await self._read(most)
            held = self._held
            if held is None or len(held) > self._load_events_max:
                return
            for event in held:
                if event.seq > position:
                    position = event.seq
                    if order.take(event.topic, self.entry(event)) is None:
                        return
            self._order, self._applied = order, position
        finally:
            self._held = self._loading = None

    async def _read(self, most: int) -> tuple[WindowOrder, int]:
        """Return the first records, and their position."""
        query, extent = self.query.readable, self.query.extent
        if query is None:
            return WindowOrder(extent, (), None, most), self.reader.announced()
        table, asked = self.query.table, most
        while True:
            page = await self.reader.search(table, replace(query, limit=asked, offset=0))
            found = [self.entry(record) for record in page.records]
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


Make = Callable[[], Window]


class Windows:
    """The windows that are read now, by their keys; ``records_max`` bounds their records."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._windows: dict[str, Window] = {}
        self._records = 0

    def __len__(self) -> int:
        return len(self._windows)

    def get(self, key: str) -> Window | None:
        """Return a window that somebody reads."""
        return self._windows.get(key)

    def enter(self, key: str, reader: QueryReader, make: Make) -> Window:
        """Return the window of a reader, for the first one a new one; raises BUSY."""
        window = self._windows.get(key)
        if window is None:
            window = make()
            records = window.query.extent.known
            if self._records + records > self._records_max:
                raise Error(
                    Code.BUSY,
                    f"this server holds {self._records_max} records of live windows, and may hold "
                    "no more; ask for a smaller limit, or later",
                )
            self._records += records
            self._windows[key] = window
        window.readers[reader] = None
        return window

    def leave(self, key: str, reader: QueryReader) -> Window | None:
        """Let a reader go; return the window if it was its last one."""
        window = self._windows[key]
        del window.readers[reader]
        if window.readers:
            return None
        del self._windows[key]
        self._records -= window.query.extent.known
        return window
