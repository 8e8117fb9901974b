"""Reading rows: one by its id, a page of those that a query selects, and how many there are.

The rows of a topic table are read from the log in slices, on a reader thread, and sifted there, so
that neither the loop nor memory knows how many there are. They come in the order of the log, or
newest first; sorting by anything else keeps only what the page needs, of a bounded number of rows.
A listing ends where the log was when it began, so that it ends, and so that whoever goes on from
its position is given every row once. The rows of METRICS are few, and read all at once.

What a caller may not read is left out before anything is counted or skipped (L12).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from heapq import nsmallest
from operator import itemgetter
from typing import Final

from rowcast.core.comparison import Place
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import answer, order_key, page_token, token_values
from rowcast.core.events import Event
from rowcast.core.limits import (
    SCAN_PAGE_RECORDS,
)
from rowcast.core.queries import Query
from rowcast.core.topic_tables import seq_of_message
from rowcast.core.topics import TopicFilter
from rowcast.reads.store_reader import StoreReader
from rowcast.rows.row_ranges import (
    asks_for,
    direction_of,
    place_of,
    range_of,
    token_of,
    topic_of,
)
from rowcast.rows.topic_rows import (
    PAYLOAD,
    LogView,
    MetricsView,
    Row,
    RowFilter,
    View,
    made_of,
    row_of,
)
from rowcast.store.store import Log, Page

Let = Callable[[str, str], bool]
"""Whether a caller may read a row's topic, and the topic that it is about."""

ALL_SYSTEM: Final = TopicFilter.below("$SYS")
Found = tuple[Event, dict[str, object]]
"""An event, and its row as a value."""


class RowReads:
    """Reads rows for one kernel."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader

    async def record(self, view: View, row_id: str) -> Row | None:
        """Return one row."""
        return await find_row(self._reader, view, row_id)

    async def search(self, view: View, query: Query, let: Let | None) -> Page:
        """Return one page of a query's answer; raises INVALID for a sort of too many rows.

        Without a limit, raises TOO_LARGE when there are more than a page may have.
        """
        if isinstance(view, MetricsView):
            return await self._search_metrics(view, query, let)
        direction = direction_of(query.sort)
        listing = _Listing(self._reader, view, query, let)
        page = await (listing.page(direction) if direction else listing.sorted_page())
        if query.limit is None and page.after:
            most = self._reader.row_limits.page_rows
            raise Error(
                Code.TOO_LARGE,
                f"{view.table.name} has more than {most} such rows; ask for them in"
                " pages, with limit(...)",
            )
        return page

    async def count(self, view: View, query: Query, let: Let | None) -> int:
        """Return how many rows a query selects; all of a table at once (B19)."""
        if isinstance(view, MetricsView):
            page = await self._search_metrics(view, Query(query.where), let)
            return len(page.records)
        if query.where is None and let is None:
            known = await self._reader.events_of(view.branch)
            if known is not None:
                return known
        listing = _Listing(self._reader, view, Query(query.where), let)
        return await listing.count()

    async def _search_metrics(self, view: View, query: Query, let: Let | None) -> Page:
        reader, records = self._reader, dict[str, Event]()
        position, after, more = reader.announced(), "", True
        while more:
            page = await reader.scan(None, ALL_SYSTEM, after, SCAN_PAGE_RECORDS)
            more = page.more and bool(page.records)
            for record in page.records:
                after = record.topic
                if let is None or let(view.topic(record), record.topic):
                    records[record.topic] = record
        found = answer(query, ((topic, view.value(item)) for topic, item in records.items()))
        rows = [row_of(view, records[str(topic)]) for topic, _ in found.rows]
        return Page(position, rows, bool(found.after), found.after)


class _Listing:
    """One query's way through the log."""

    def __init__(self, reader: StoreReader, view: View, query: Query, let: Let | None) -> None:
        self._reader = reader
        self._view = view
        self._query = query
        self._let = let
        self._limits = limits = reader.row_limits
        self._most = limits.page_rows if query.limit is None else query.limit
        self._upto = reader.announced()

    async def page(self, direction: int) -> Page:
        """Return a page in the order of the log, or newest first."""
        query, skip = self._query, self._query.offset
        last = None
        if query.after is not None:
            last, upto = place_of(direction, query.after)
            self._upto = min(self._upto, upto)
        found: list[Found] = []
        async for some in self._slices(direction, last):
            found += some[skip:]
            skip = max(0, skip - len(some))
            if len(found) > self._most:
                break
        more, found = len(found) > self._most > 0, found[: self._most]
        after = token_of(direction, found[-1][0].seq, self._upto) if more else ""
        return Page(self._upto, await self._made(found), more, after)

    async def _made(self, found: list[Found]) -> list[Row]:
        """Return rows with their payloads, which take some time to write."""
        view = self._view
        return await self._reader.ask(
            lambda _store: [made_of(view, event, value) for event, value in found]
        )

    async def sorted_page(self) -> Page:
        """Return a page in another order: of all rows, those that come first are kept."""
        query = self._query
        sort = query.sort
        beyond = None
        if query.after is not None:
            beyond = _key_of(query, token_values(sort, query.after))
        wanted = query.offset + self._most + 1
        kept: list[tuple[tuple[Place, ...], Found]] = []
        total = 0
        async for some in self._slices(1, None):
            total += len(some)
            if total > self._limits.sorted_rows:
                raise self._too_many(sort[0].path)
            keyed = [(order_key(sort, value, value["id"]), (event, value)) for event, value in some]
            if beyond is not None:
                keyed = [item for item in keyed if item[0] > beyond]
            kept = nsmallest(wanted, [*kept, *keyed], key=itemgetter(0))
        found = [item for _, item in kept[query.offset : query.offset + self._most]]
        rows = await self._made(found)
        more = bool(rows) and len(kept) == wanted
        after = page_token(sort, found[-1][1], found[-1][1]["id"]) if more else ""
        return Page(self._upto, rows, more, after)

    def _too_many(self, path: tuple[str, ...]) -> Error:
        name, most = self._view.table.name, self._limits.sorted_rows
        return Error(
            Code.INVALID,
            f"sort({'.'.join(path)}) would sort more than {most} rows of {name};"
            " say which are meant, such as timestamp=gt=2026-01-31T12:00:00Z, or sort by id or"
            " timestamp, which the log keeps in order",
        )

    async def count(self) -> int:
        """Return how many rows are selected."""
        return sum([len(some) async for some in self._slices(1, None)])

    async def _slices(self, direction: int, last: int | None) -> AsyncIterator[list[Found]]:
        """Give the rows that are selected and may be read, some at a time, after row ``last``."""
        low, high = await self._bounds()
        if direction > 0:
            low = max(low, last or 0)
        elif last is not None:
            high = min(high, last - 1)
        while low < high:
            found, reached = await self._sift(direction, low, high)
            yield self._readable(found)
            if direction > 0:
                low = reached
            else:
                high = reached - 1

    async def _bounds(self) -> tuple[int, int]:
        """Return the part of the log to read: after one position and up to another."""
        known = range_of(self._query.where)
        reader, branch = self._reader, self._view.branch
        low, high = known.after, min(known.upto, self._upto)
        if known.start and low < high:
            low = max(low, await reader.since(branch, known.start))
        return low, high

    async def _sift(self, direction: int, low: int, high: int) -> tuple[list[Found], int]:
        """Read a slice on a reader thread; return the selected rows, and the position reached."""
        view, where = self._view, self._query.where
        by_outline, most = not asks_for(where, PAYLOAD), self._limits.slice_events

        def sift(store: Log) -> tuple[list[Found], int]:
            events = self._slice(store, direction, low, high)
            found: list[Found] = []
            for event in events:
                if not low < event.seq <= high or not _is_row_of(view, event):
                    continue
                value = view.outline(event) if by_outline else view.value(event)
                if holds(where, value, value["id"]):
                    found.append((event, view.value(event) if by_outline else value))
            end = high if direction > 0 else low + 1
            return found, events[-1].seq if len(events) == most else end

        return await self._reader.ask(sift)

    def _slice(self, store: Log, direction: int, low: int, high: int) -> Sequence[Event]:
        """Return events of the log in the order that is wanted; those of one topic by themselves.

        Where they end before ``slice_events``, there are no more.
        """
        branch, topic = self._view.branch, topic_of(self._query.where)
        most = self._limits.slice_events
        if direction > 0:
            if topic is not None:
                return store.follow(branch, topic, low, most)
            return store.read(low, most, [branch])
        if topic is not None and high == self._upto:
            return store.history(branch, topic, most)[::-1]
        return store.read_back(high + 1, most, [branch])

    def _readable(self, found: list[Found]) -> list[Found]:
        let, topic = self._let, self._view.topic
        if let is None:
            return found
        return [item for item in found if let(topic(item[0]), item[0].topic)]


def _key_of(query: Query, values: tuple[object, ...]) -> tuple[Place, ...]:
    """Return the ``order_key`` of the row that a page token names."""
    *keys, row_id = values
    value: dict[str, object] = {}
    sort = tuple(replace(item, path=(str(number),)) for number, item in enumerate(query.sort))
    for number, key in enumerate(keys):
        value[str(number)] = key
    return order_key(sort, value, row_id)


def _is_row_of(view: View, event: Event) -> bool:
    """Whether an event of the log is a row of this view: the general part has those of others."""
    return event.table is None and view.branch.has(event.topic)


async def find_row(reader: StoreReader, view: View, row_id: str) -> Row | None:
    """Return one row by its id."""
    if isinstance(view, MetricsView):
        if not ALL_SYSTEM.matches(row_id) or row_id == "$SYS":
            return None
        record = await reader.get(None, row_id)
        return row_of(view, record) if record is not None else None
    seq = seq_of_message(row_id)
    if not seq:
        return None
    found = await reader.ask(lambda store: store.read(seq - 1, 1, [view.branch]))
    for event in found:
        if event.seq == seq and _is_row_of(view, event):
            row = row_of(view, event)
            return row if row.topic == f"{view.table.name}/{row_id}" else None
    return None


async def current_rows(reader: StoreReader, rows: RowFilter, after: str, limit: int) -> Page:
    """Return a page of the rows with which a subscription begins.

    A topic table is a log, so nothing is current in it but the one row that a filter names.
    """
    view, position = rows.view, reader.announced()
    if rows.source is None or (isinstance(view, LogView) and not rows.exact):
        return Page(position, [])
    if isinstance(view, LogView):
        row = None if after else await find_row(reader, view, rows.row_id)
        return Page(position, [row] if row is not None else [])
    prefix = f"{view.table.name}/"
    page = await reader.scan(None, rows.source, after.removeprefix(prefix), limit)
    records = [row_of(view, record) for record in page.records]
    return Page(page.position, records, page.more)
