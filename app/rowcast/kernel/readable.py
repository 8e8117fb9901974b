"""Records as hooks let them be read: some keep values of their own, some keep others' back.

Without such hooks it only asks the reader. What a hook keeps (G10, X20) is a retained
value of an undeclared topic: it has no number, and no query finds it. What a caller may not be
given (G6) is left out of lists and counts, record by record. It knows no grants: the kernel has
asked for those before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock, version_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.freshness import bound
from rowcast.core.limits import SCAN_PAGE_RECORDS
from rowcast.core.queries import Query
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_tables import PREFIX
from rowcast.core.topics import TopicFilter
from rowcast.kernel.registry import Entry, Route
from rowcast.kernel.visibility import Visibility
from rowcast.reads.row_reads import Let, RowReads
from rowcast.reads.unknown_names import Names
from rowcast.rows.topic_rows import View
from rowcast.rows.transcoder import Transcoder
from rowcast.store.store import Page
from rowcast.subscriptions.reader import Reader


def nothing_at(route: Route, entries: Iterable[Entry] = ()) -> Error:
    """Return that there is nothing to be read, and where else it may be.

    Who comes with an MQTT client has often sent it without the retain flag, or asks for the rows of
    topics to which nothing was sent yet; others have misspelt one of the tables in ``entries``.
    """
    topic = route.topic
    message = f"there is no record at {topic!r}"
    if route.entry is None and topic[:1] != "$":
        table, slash, _ = topic.partition("/")
        if near := did_you_mean(table, _declared(entries)):
            message += near
        elif slash and topic.startswith(PREFIX):
            message += (
                f"; a topic table {table} is there from the first message or subscription to one "
                "of its topics, and $SYS/topic_tables/ lists those that are"
            )
        else:
            message += "; messages that were not retained are in its history, such as ?last=10"
    return Error(Code.NOT_FOUND, message)


def _declared(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.shape is not None and entry.view is None and not entry.shape.table.hidden_from:
            yield entry.path


class Supply(Protocol):
    """Who keeps retained values besides the store: hooks."""

    @property
    def supplying(self) -> bool:
        """Whether anybody keeps such values."""

    async def supply(self, topics: TopicFilter) -> list[Record] | None:
        """Return those that a filter selects; None if nobody has them."""


class Readable:
    """The reads of one kernel."""

    def __init__(
        self,
        reader: Reader,
        hooks: Supply,
        visibility: Visibility,
        now: WallClock,
        transcoder: Transcoder,
    ) -> None:
        self._reader = reader
        self._hooks = hooks
        self._visibility = visibility
        self._now = now
        self._rows = RowReads(reader)
        self._names = Names(transcoder, reader.count)
        reader.supply = hooks.supply
        reader.supplies = lambda: hooks.supplying

    async def record(self, route: Route, topic: str, caller: Caller) -> Record | None:
        """Return the value that a hook keeps for a topic, else the record or the row there."""
        if route.view is not None:
            row = await self._rows.record(route.view, route.record_id)
            return row if row is not None and self._visibility.passes_event(caller, row) else None
        if not self._hooks.supplying or route.entry is not None:
            return await self._reader.get(route.table, topic)
        kept = await self._hooks.supply(TopicFilter(topic))
        if kept is None:  # it is nobody's but the store's
            return await self._reader.get(None, topic)
        for record in kept:
            record.version = record.version or version_of(int(self._now() * 1_000))
        return next(iter(kept), None)

    async def search(self, table: Table, query: Query, caller: Caller) -> Page:
        """Return one page of a query's answer, without what is kept from the caller.

        Raises INVALID for a misspelt name in the query, where that is certain.
        """
        view = self._view(table)
        if view is not None:
            return await self._rows.search(view, query, self._let(caller))
        page = await self._search(table, query, caller)
        await self.check_names(table, query, page.records, caller)
        return page

    async def check_names(
        self, table: Table, query: Query, records: Sequence[Record], caller: Caller
    ) -> None:
        """Raise INVALID for a misspelt name in a query, if ``records`` begin its answer."""
        if not self._visibility.sifts(caller, table):
            await self._names.check(
                table, query, records, lambda table, query: self._search(table, query, caller)
            )

    async def _search(self, table: Table, query: Query, caller: Caller) -> Page:
        asked = self._visibility.narrowed(caller, table, self._timed(table, query))
        if asked is None:
            return Page(self._reader.announced(), [])
        if self._visibility.sifts(caller, table):
            return await self._sifted(table, asked, caller)
        page = await self._reader.search(table, asked)
        if not self._visibility.limits(caller, table):
            return page
        return replace(page, records=self._visibility.records(caller, page.records))

    async def _sifted(self, table: Table, query: Query, caller: Caller) -> Page:
        """Return a page of those records of which each has to be asked about.

        It is as full as if the others were not there, and ends where they end (L12).
        """
        left = None if query.limit is None else query.offset + query.limit
        found: list[Record] = []
        part = replace(query, limit=left, offset=0)
        while True:
            page = await self._reader.search(table, part)
            found += self._visibility.records(caller, page.records)
            if left is None or not page.after or left == 0:
                return replace(page, records=found[query.offset :])
            if len(found) == left:
                more = await self._any(table, replace(part, after=page.after), caller)
                after = page.after if more else ""
                return replace(page, records=found[query.offset :], more=more, after=after)
            part = replace(part, limit=left - len(found), after=page.after)

    async def _any(self, table: Table, query: Query, caller: Caller) -> bool:
        """Tell whether a caller is given any of the records that a query selects."""
        part = replace(query, limit=SCAN_PAGE_RECORDS)
        while True:
            page = await self._reader.search(table, part)
            if self._visibility.records(caller, page.records):
                return True
            if not page.after:
                return False
            part = replace(part, after=page.after)

    def _timed(self, table: Table, query: Query) -> Query:
        """Return a query that knows what is stale now, if it asks."""
        if query.stale is None:
            return query
        return replace(query, stale_below=bound(table, self._now()))

    async def count(self, table: Table, query: Query, caller: Caller) -> int:
        """Return how many records of a query's answer the caller is given.

        Where a hook decides, that is found out a page at a time: it is asked about each record.
        """
        view = self._view(table)
        if view is not None:
            return await self._rows.count(view, query, self._let(caller))
        if not self._visibility.sifts(caller, table):
            asked = self._visibility.narrowed(caller, table, self._timed(table, query))
            if asked is None:
                return 0
            if asked.where is None and asked.stale is None:
                return await self._reader.count(table)
            count = await self._reader.matching(table, asked)
            if not count:
                await self.check_names(table, replace(query, sort=(), select=None), (), caller)
            return count
        count, after = 0, query.after
        while True:
            part = Query(query.where, None, (), SCAN_PAGE_RECORDS, 0, after, query.stale)
            page = await self._search(table, part, caller)
            count += len(page.records)
            after = page.after
            if not after:
                return count

    def _view(self, table: Table) -> View | None:
        """Return what shows a topic table's rows; None for a declared table."""
        views = self._reader.views
        view = views.get(table.name) if views is not None else None
        return view if view is not None and view.table == table else None

    def _let(self, caller: Caller) -> Let | None:
        """Return who says which rows the caller is given; None where nobody has a say."""
        if not self._visibility.filtered:
            return None
        may_read = self._visibility.may_read
        return lambda topic, about: may_read(caller, about) and may_read(caller, topic)
