"""A live query of rows of ``$SYS``, for all who read the same (M3, M11).

Such rows are in no table and no log: their owner reports each change. So the view holds the rows
that match, as of the newest report, and there is no past of them: a reader that was away, or slow,
gets them again. A row is compared as a list of REST compares it, with the rights of its readers.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.conditions import Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import order_key, project
from rowcast.core.events import PUT, Event, Record
from rowcast.core.queries import Query
from rowcast.core.query_limits import (
    LIVE_ROWS_BYTES_MAX,
    LIVE_ROWS_MAX,
    WINDOW_BYTES_MAX,
    WINDOW_LOADS_MAX,
)
from rowcast.core.query_windows import Extent
from rowcast.core.tables import Table
from rowcast.features.live_queries.shared_view import RecordBudget, SharedView
from rowcast.features.live_queries.window_order import Entry, Key, WindowOrder, WindowStep
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS
from rowcast.routes.live_rows import is_topic
from rowcast.routes.system_rows import SystemRows
from rowcast.subscriptions.live_query import PARTS, UNLOGGED, Step, Unknown, as_step
from rowcast.subscriptions.reader import Reader

QOS: Final = 1


@dataclass(frozen=True, slots=True)
class RowQuery:
    """What a view is about."""

    name: str
    """The filter that names it."""
    key: str
    """The same text for readers that see the same."""
    path: str
    query: Query
    """With conditions as rows are compared (``system_rows.loosened``)."""
    extent: Extent | None
    caller: Caller
    """One of the readers, or the server for all who see everything."""


class RowSet:
    """All rows that match, without an order."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {record.topic: record for record in records}
        self._bytes = sum(len(record.payload) for record in records)

    @property
    def fits(self) -> bool:
        """Whether the payloads are within their bound."""
        return self._bytes <= LIVE_ROWS_BYTES_MAX

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> Sequence[Record]:
        """Return the rows."""
        return list(self._records.values())

    @property
    def topics(self) -> list[str]:
        """Return the topics of the rows."""
        return list(self._records)

    def has(self, topic: str) -> bool:
        """Whether a row is known."""
        return topic in self._records

    def drop(self, topics: Iterable[str]) -> list[WindowStep]:
        """Let rows go by their topics; return the steps."""
        return [step for topic in topics for step in self.take(topic, None)]

    def take(self, topic: str, entry: Entry | None) -> list[WindowStep]:
        """Take a row as it is now, None if it does not match; return the steps."""
        before = self._records.pop(topic, None)
        self._bytes -= 0 if before is None else len(before.payload)
        if entry is None:
            return [] if before is None else [WindowStep(Step.LEAVE, before)]
        self._records[topic] = record = entry.record
        self._bytes += len(record.payload)
        if before is None:
            return [WindowStep(Step.ENTER, record)]
        return [] if before.payload == record.payload else [WindowStep(Step.CHANGE, record)]


class OrderedRows:
    """The first of all rows that match, in an order."""

    def __init__(self, order: WindowOrder) -> None:
        self._order = order

    @property
    def fits(self) -> bool:
        """Whether the payloads are within their bound."""
        return self._order.fits

    def __len__(self) -> int:
        return len(self._order)

    @property
    def records(self) -> Sequence[Record]:
        """Return the rows of the window, in order."""
        return [entry.record for entry in self._order.window]

    @property
    def topics(self) -> list[str]:
        """Return the topics of the rows that are known, those behind the window too."""
        return self._order.topics

    def has(self, topic: str) -> bool:
        """Whether a row is known."""
        return self._order.has(topic)

    def drop(self, topics: Iterable[str]) -> list[WindowStep] | None:
        """Let rows go by their topics; return the steps; None: too few are known to tell."""
        old = self._order.window
        for topic in topics:
            self._order.put(topic, None)
        return self._order.steps_since(old)

    def take(self, topic: str, entry: Entry | None) -> list[WindowStep] | None:
        """Take a row as it is now, None if it does not match; return the steps.

        None: too few are known to tell.
        """
        return self._order.take(topic, entry) if self._order.fits else None


class HeldView(SharedView):
    """One query whose rows are held, as of the newest report.

    ``left`` is called after its last reader. ``rows_max`` bounds the rows that it holds, beside
    what ``budget`` has.
    """

    def __init__(
        self,
        query: RowQuery,
        reader: Reader,
        budget: RecordBudget,
        left: Callable[["HeldView"], None],
        rows_max: int = LIVE_ROWS_MAX,
    ) -> None:
        super().__init__(reader)
        self._query = query
        self._budget = budget
        self._left = left
        self._rows_max = rows_max
        self._known: RowSet | OrderedRows | None = None
        self._held_rows = 0
        """As many as are counted in the budget."""

    @property
    def query(self) -> RowQuery:
        """What it is about."""
        return self._query

    @property
    def is_known(self) -> bool:
        """Whether it knows its rows."""
        return self._known is not None

    def concerned(self, _table: Table) -> Where | None:
        """Return its conditions."""
        return self.query.query.where

    def begin(self) -> None:
        """Read the rows, so that readers who ask for none before are told of changes."""
        self._loading = asyncio.get_running_loop().create_task(self._loaded(self._load()))
        self._loading.add_done_callback(_retrieved)

    def close(self) -> None:
        """Forget the rows, after the last reader."""
        if self._loading is not None:
            self._loading.cancel()
        super().close()
        self._left(self)

    def forget(self) -> None:
        """Know nothing any more: there are events that it is not given."""
        super().forget()
        self._know(None)

    # -- what is known -----------------------------------------------------------------------------

    def _events_of(self, steps: list[WindowStep] | None) -> list[Event] | None:
        """Return what was made of what is known, as steps; None, and forget it, if it is not."""
        known = self._known
        fits = known is not None and known.fits and len(known) <= self._rows_max
        if known is None or steps is None or not fits or not self._count(known):
            self._know(None)
            return None
        return [as_step(step, record) for step, record in steps]

    def _know(self, known: RowSet | OrderedRows | None) -> None:
        self._known = known
        if known is None:
            self._budget.leave(self._held_rows)
            self._held_rows = 0

    def _count(self, known: RowSet | OrderedRows) -> bool:
        """Count the rows that are held; return whether there is room for them."""
        try:
            self._budget.enter(len(known) - self._held_rows)
        except Error:
            return False
        self._held_rows = len(known)
        return True

    async def known(self) -> RowSet | OrderedRows:
        """Return what is known; raises TOO_LARGE, and BUSY."""
        for _ in range(WINDOW_LOADS_MAX):
            if self._known is not None:
                return self._known
            await self._load_once(self._load)
        raise Error(
            Code.BUSY,
            f"rows of {self.query.path} change faster than they can be read, or this server holds "
            "as many rows of live queries as it may; narrow the query, or try again",
            retry_after_seconds=1,
        )

    @abstractmethod
    async def _load(self) -> None:
        """Read the rows, and take what has been reported meanwhile."""

    def _too_many(self) -> Error:
        return Error(
            Code.TOO_LARGE,
            f"a live query holds {self._rows_max} rows of {self.query.path} at most, and more "
            "match; narrow its conditions",
        )

    def _made(self, entries: Iterable[Entry], horizon: Key | None = None) -> RowSet | OrderedRows:
        """Return the rows that are read; those of a window, of which none before is missing."""
        extent = self.query.extent
        known: RowSet | OrderedRows
        if extent is None:
            known = RowSet([entry.record for entry in entries])
        else:
            inorder = sorted(entries, key=lambda entry: entry.key)
            known = OrderedRows(WindowOrder(extent, inorder, horizon, self._rows_max))
        if not known.fits:
            bytes_max = LIVE_ROWS_BYTES_MAX if extent is None else WINDOW_BYTES_MAX
            raise Error(
                Code.TOO_LARGE,
                f"the rows of this live query have more than {bytes_max} bytes; ask for fewer, by "
                "conditions or a smaller limit",
            )
        return known

    # -- readers -----------------------------------------------------------------------------------

    async def replay(self, since: int | None) -> "RowReplay":
        """Begin with the rows as they are; raises Unknown for the past, TOO_LARGE, and BUSY."""
        if since is not None:
            raise Unknown(UNLOGGED)
        known = await self.known()
        return RowReplay(known.records, self.reader.announced())


class RowView(HeldView):
    """One query of rows of ``$SYS``; ``rows`` makes a row as its readers see it.

    ``loaded`` is called with the topics of its rows when they are known.
    """

    def __init__(
        self,
        query: RowQuery,
        reader: Reader,
        rows: Callable[[str], SystemRows],
        budget: RecordBudget,
        loaded: Callable[["RowView", Iterable[str]], None],
        left: Callable[[HeldView], None],
        rows_max: int = LIVE_ROWS_MAX,
    ) -> None:
        super().__init__(query, reader, budget, left, rows_max)
        self._rows = rows
        self._tell_loaded = loaded

    def has(self, topic: str) -> bool:
        """Whether it has a row."""
        return self._known is not None and self._known.has(topic)

    def _take(self, event: Event) -> list[Event] | None:
        if self._known is None:
            return None
        return self._events_of(self._known.take(event.topic, self.entry(event.topic)))

    def entry(self, topic: str) -> Entry | None:
        """Return a row at its place as it is now; None if it does not match, or may not be read."""
        name = topic[len(self.query.path) + 1 :]
        rows, query = self._rows(name), self.query.query
        row = rows.row(name, whole=False) if rows.may_list(name) else None
        if row is None or not holds(query.where, row, name):
            return None
        record = row_event(topic, encode(project(query.select, row, name), JSON))
        return Entry(order_key(query.sort, row, name), record)

    async def _load(self) -> None:
        """Read the rows in slices, and take what has been reported meanwhile."""
        rows = self._rows("")
        await rows.refresh()
        entries: dict[str, Entry] = {}
        async for name in self.reader.row_turns.each(list(rows.names())):
            topic = f"{self.query.path}/{name}"
            if is_topic(topic):
                self._put(entries, topic)
        if not self._has_all:
            return
        for event in self._held or ():
            self._put(entries, event.topic)
        known = self._made(entries.values())
        if self._count(known):
            self._know(known)
            self._tell_loaded(self, entries)

    def _put(self, entries: dict[str, Entry], topic: str) -> None:
        entry = self.entry(topic)
        if entry is None:
            entries.pop(topic, None)
            return
        entries[topic] = entry
        if len(entries) > self._rows_max:
            raise self._too_many()


def row_event(topic: str, payload: bytes) -> Event:
    """Return a row as readers are told it."""
    record = Event(topic, PUT, payload, JSON, QOS, True)
    PARTS.put(record, True)  # its bytes are in no log
    return record


class RowReplay:
    """The rows of a view as they were when it began; what is reported since follows."""

    def __init__(self, records: Sequence[Record], position: int) -> None:
        self.position = position
        self.done = True
        self.complete = not records
        self.left_out: Sequence[str] = ()
        self._records = records
        self._at = 0

    async def read(self) -> list[Event]:
        """Return no steps: there is no past."""
        return []

    async def current(self) -> Sequence[Record]:
        """Return the next rows: as many as one turn of the loop delivers."""
        at, self._at = self._at, self._at + LOOP_TURN_ITEMS
        if at:
            await asyncio.sleep(0)
        self.complete = self._at >= len(self._records)
        return self._records[at : self._at]


def _retrieved(task: asyncio.Task[None]) -> None:
    """Take note of an error that nobody waits for."""
    if not task.cancelled():
        task.exception()
