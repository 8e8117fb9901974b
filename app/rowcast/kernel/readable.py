"""Reads of records through hooks, which may supply values or withhold records.

Without such hooks it only calls the reader. A hook may supply a retained value of an undeclared
topic (G10, X20): it has no number, and queries do not find it. Records that a hook withholds (G6)
are left out of lists and counts, one by one. It knows no grants, which the kernel has checked
before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock, version_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record, local_id
from rowcast.core.freshness import bound
from rowcast.core.grouping import Grouping, GroupRow, Groups
from rowcast.core.queries import Query, Sort
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_tables import PREFIX, name_of_branch
from rowcast.core.topics import TopicFilter
from rowcast.core.values import parse_id
from rowcast.reads.row_reads import Let, RowReads
from rowcast.reads.unknown_names import Names
from rowcast.routes.registry import Entry, Route
from rowcast.rows.topic_rows import View
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.visibility import Visibility
from rowcast.store.store import Page
from rowcast.subscriptions.reader import Reader


def not_found(route: Route, entries: Iterable[Entry] = ()) -> Error:
    """Return the NOT_FOUND Error of a topic, with hints.

    Common causes: an MQTT publish without the retain flag, a topic table without messages or with
    another name than is usual, or a misspelt table of ``entries``.
    """
    topic = route.topic
    message = f"there is no record at {topic!r}"
    if route.entry is None and topic[:1] != "$":
        table, slash, _ = topic.partition("/")
        entries = tuple(entries)  # which are looked at twice
        if renamed := _renamed(table, entries):
            message += renamed
        elif near := did_you_mean(table, _declared(entries)):
            message += near
        elif slash and topic.startswith(PREFIX):
            message += (
                f"; a topic table {table} is there from the first message or subscription to one "
                "of its topics, and $SYS/topic_tables/ lists those that are"
            )
        else:
            message += "; messages that were not retained are in its history, such as ?last=10"
    return Error(Code.NOT_FOUND, message)


def _renamed(name: str, entries: Iterable[Entry]) -> str:
    """Return a hint at the topic table that has another name, because this one was in use."""
    for entry in entries if name.startswith(PREFIX) else ():
        view = entry.view
        if view is not None and view.table.name != name and name_of_branch(view.branch) == name:
            return (
                f"; the messages below {view.branch.level}/ are rows of {view.table.name}, because "
                f"there were topics below {name}/ before they had a table"
            )
    return ""


def _declared(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry.shape is not None and entry.view is None and not entry.shape.table.hidden_from:
            yield entry.path


class RecordReads:
    """The reads of one kernel."""

    def __init__(
        self,
        reader: Reader,
        visibility: Visibility,
        now: WallClock,
        transcoder: Transcoder,
    ) -> None:
        self._reader = reader
        self._visibility = visibility
        self._now = now
        self._rows = RowReads(reader)
        self._transcoder = transcoder
        self._names = Names(transcoder, reader.count)

    async def record(self, route: Route, topic: str, caller: Caller) -> Record | None:
        """Return a hook's value for a topic, else the record or row."""
        if route.view is not None:
            row = await self._rows.record(route.view, route.record_id)
            return row if row is not None and self._visibility.passes_event(caller, row) else None
        supply = self._reader.supply
        if supply is None or route.entry is not None or not self._reader.supplies():
            return await self._reader.get(route.table, topic)
        kept = await supply(TopicFilter(topic))
        if kept is None:  # only the store has it
            return await self._reader.get(None, topic)
        for record in kept:
            record.version = record.version or version_of(int(self._now() * 1_000))
        return next(iter(kept), None)

    async def search(self, table: Table, query: Query, caller: Caller) -> Page:
        """Return one page of a query's result, without records withheld from the caller.

        Raises INVALID for a certainly misspelt name in the query.
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
        """Raise INVALID for a misspelt name in a query; ``records`` is its first page."""
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
        """Return a page of records that are filtered one by one.

        It is as full as if withheld records did not exist (L12).
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
        """Whether a caller may see any record of a query."""
        part = replace(query, limit=self._reader.table_scan_records)
        while True:
            page = await self._reader.search(table, part)
            if self._visibility.records(caller, page.records):
                return True
            if not page.after:
                return False
            part = replace(part, after=page.after)

    def _timed(self, table: Table, query: Query) -> Query:
        """Set the query's staleness bound to now, if it tests staleness."""
        if query.stale is None:
            return query
        return replace(query, stale_below=bound(table, self._now()))

    async def count(self, table: Table, query: Query, caller: Caller) -> int:
        """Return the number of a query's records that the caller may see.

        If a hook decides, records are counted page by page, one by one.
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
            most = self._reader.table_scan_records
            part = Query(query.where, None, (), most, 0, after, query.stale)
            page = await self._search(table, part, caller)
            count += len(page.records)
            after = page.after
            if not after:
                return count

    async def grouped(self, table: Table, query: Query, caller: Caller) -> list[GroupRow]:
        """Return the groups of a query's records that the caller may see.

        If a hook decides, or they are rows, they are read page by page and added up one by one.
        Raises INVALID for attributes that it may not compare, as in an order.
        """
        grouping = query.group or Grouping(())
        used = tuple(map(Sort, grouping.used))
        query = self._timed(table, replace(query, sort=used, group=None))
        if self._view(table) is None and not self._visibility.sifts(caller, table):
            asked = self._visibility.narrowed(caller, table, query)
            if asked is None:
                return Groups(grouping, 1).rows()
            rows = await self._reader.grouped(table, replace(asked, sort=()), grouping)
            await self.check_names(table, query, (), caller)
            return rows
        self._visibility.narrowed(caller, table, query)
        return await self._added_up(table, replace(query, sort=()), grouping, caller)

    async def _added_up(
        self, table: Table, query: Query, grouping: Grouping, caller: Caller
    ) -> list[GroupRow]:
        groups, after = Groups(grouping, self._reader.groups_max), query.after
        while True:
            part = replace(query, limit=self._reader.table_scan_records, after=after)
            page = await self.search(table, part, caller)
            for record in page.records:
                record_id = parse_id(table, local_id(table, record.topic))
                groups.add(self._transcoder.value(record), record_id)
            after = page.after
            if not after:
                return groups.rows()

    def _view(self, table: Table) -> View | None:
        """Return the view of a topic table; None for a declared table."""
        views = self._reader.views
        view = views.get(table.name) if views is not None else None
        return view if view is not None and view.table == table else None

    def _let(self, caller: Caller) -> Let | None:
        """Return the filter on rows for the caller; None if there is none."""
        if not self._visibility.filtered:
            return None
        may_read = self._visibility.may_read
        return lambda topic, about: may_read(caller, about) and may_read(caller, topic)
