"""The reader of subscriptions: reads of the store, and state shared by all subscriptions.

It has the bounds of their queues, further sources of records (retained values of a hook, system
rows, rows of topic tables), and the counters of losses. It knows no callers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import Protocol

from rowcast.core.errors import Error
from rowcast.core.events import Event, Record
from rowcast.core.fairness_limits import READ_TURN_EVENTS_MIN, READ_TURN_SCANS_MIN
from rowcast.core.limits import (
    LOG_PAGE_EVENTS,
    SCAN_PAGE_BYTES,
    SCAN_PAGE_RECORDS,
    SCANS_TOGETHER_MAX,
    SUBSCRIPTION_TAKE_BYTES_MAX,
    SUBSCRIPTION_TOPICS_CACHED_MAX,
)
from rowcast.core.shedding import Shedding
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, sources_of
from rowcast.core.topics import TopicFilter
from rowcast.reads.log_pages import LogPage
from rowcast.reads.loop_turns import JoinedTurns, LoopTurns
from rowcast.reads.read_queue import ReadLane
from rowcast.reads.record_cache import RecordCache
from rowcast.reads.row_limits import USUAL, RowLimits
from rowcast.reads.source_heads import SourceHeads
from rowcast.reads.store_reader import StoreReader
from rowcast.rows.topic_rows import RowFilter, View
from rowcast.store.store import LogAndRecords, Page, Scan
from rowcast.subscriptions.delivery import Acknowledged, Delivered
from rowcast.subscriptions.gaps import LossCounter
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


class RowViews(Protocol):
    """The readable topic tables."""

    def get(self, name: str, /) -> View | None:
        """Return the view of a table's name; None if that is no topic table."""

    def rows(self, topics: TopicFilter, /) -> RowFilter | None:
        """Return a filter's row filter for a topic table; None if it names no such table."""


class Reader(StoreReader):
    """Reads for subscriptions, and their common bounds and counts."""

    turn_scans = READ_TURN_SCANS_MIN
    """Filters that one read has the current records of, from which such reads are in single
    file."""
    delivery_rate = 0.0
    """Retained messages to one reader per second; 0: unlimited (E19)."""

    def __init__(
        self,
        store: LogAndRecords,
        cache: RecordCache,
        executor: Executor,
        tables: Sequence[Table],
        announced: Callable[[], int],
        queue_events: int = 0,
        queue_bytes: int = 0,
        scan_bytes: int = SCAN_PAGE_BYTES,
        scans_together: int = SCANS_TOGETHER_MAX,
        *,
        row_limits: RowLimits = USUAL,
        scan_records: int = SCAN_PAGE_RECORDS,
        table_scan_records: int = SCAN_PAGE_RECORDS,
        log_page_events: int = LOG_PAGE_EVENTS,
        take_bytes: int = SUBSCRIPTION_TAKE_BYTES_MAX,
        topics_cached: int = SUBSCRIPTION_TOPICS_CACHED_MAX,
        turn_events: int = READ_TURN_EVENTS_MIN,
    ) -> None:
        super().__init__(store, cache, executor, tables, announced, scan_bytes)
        self.row_limits = row_limits
        self.queue_events, self.queue_bytes = queue_events, queue_bytes
        """Bounds of one subscription's queue, in events (D23) and payload bytes; 0: the default."""
        self.views: RowViews | None = None
        """The readable topic tables."""
        self.supply: Callable[[TopicFilter], Awaitable[list[Record] | None]] | None = None
        """Returns retained values of undeclared topics from outside the store."""
        self.supplies: Callable[[], bool] = lambda: self.supply is not None
        """Returns whether there is such a source."""
        self.live: Callable[[TopicFilter], AsyncIterator[list[Event]]] = _no_rows
        """Yields the system rows that a filter matches, in pages."""
        self.scans_together = scans_together
        """Filters of one subscriber whose current records are read at a time."""
        self.log_page_events = log_page_events
        """Page size of reads of the log."""
        self.take_bytes = take_bytes
        """Payload bytes after which ``Subscription.take`` returns."""
        self.topics_cached = topics_cached
        """Cached topics of one subscription."""
        self.scan_records = scan_records
        """Page size of retained messages (``retainer.batch_read_number``, E19)."""
        self.table_scan_records = table_scan_records
        """Page size of records of a declared table."""
        self.turns = LoopTurns()
        """Of the loop, for long work of any client, such as a page of ``turn_events`` or more."""
        self.turn_events = turn_events
        self._many_scans = asyncio.Semaphore(1)  # one for each subscriber waits at most
        self.shedding = Shedding()
        """The level of load shedding, checked before new work."""
        self.heads = SourceHeads([])
        """What is known of the newest events of sources."""
        self._first_reads = dict[tuple[LogSource, ...], asyncio.Future[None]]()  # others wait
        self.losses = LossCounter()
        """The losses of all subscriptions."""
        self.delivered: list[Delivered] = []
        """Listeners for deliveries."""
        self.acknowledged: list[Acknowledged] = []
        """Listeners for acknowledgements."""

    @cached_property
    def row_turns(self) -> LoopTurns:
        """Of live queries that read rows of ``$SYS``: one client may begin a thousand of them."""
        return JoinedTurns(self.turns)

    def rows(self, topics: TopicFilter) -> RowFilter | None:
        """Return a filter's row filter for a topic table; None if it names no such table."""
        return self.views.rows(topics) if self.views is not None else None

    def seeing(self, topics: TopicFilter) -> Callable[[Event], Event | None]:
        """Return the function that maps an event to a filter's view: itself, a row, or None."""
        rows = self.rows(topics)
        if rows is not None:
            return rows.row
        return lambda event: event if topics.matches(event.topic) else None

    def sources_of(self, interest: SubscribedFilter) -> list[LogSource]:
        """Return the sources of an interest: of a live query, its tables; of a replay, none."""
        query = interest.query
        if interest.replay is not None:
            return []
        return self.sources(interest.topics) if query is None else list(query.tables)

    def sources(self, topics: TopicFilter) -> list[LogSource]:
        """Return the sources that a filter can match: tables, branches or all undeclared topics."""
        rows = self.rows(topics)
        if rows is not None:
            return [rows.view.branch]
        return sources_of(topics, self._tables)

    async def page(
        self, after: int, limit: int, sources: Sequence[LogSource], until: int = 0
    ) -> LogPage:
        """Return a page of the log after a position; see ``StoreReader``.

        Of many who ask at once about the same sources one reads, and most of the others then know
        that there is nothing for them.
        """
        asked = tuple(sources)
        first = self._first_reads.get(asked)
        if first is not None:
            await asyncio.wait((first,))  # not cancelled with one of those who wait for it
        if sources and not until and self.heads.has_none(after, self.announced(), sources):
            return LogPage([], self.announced())
        if first is None and self._lane_of(after, sources) is ReadLane.KEYED:
            first = self._first_reads[asked] = asyncio.get_running_loop().create_future()
            try:
                found = await self._page(after, limit, sources, until)
            finally:
                del self._first_reads[asked]
                first.set_result(None)
        else:
            found = await self._page(after, limit, sources, until)
        if len(found.events) >= self.turn_events:
            await self.turns.take()
        return found

    async def _page(
        self, after: int, limit: int, sources: Sequence[LogSource], until: int
    ) -> LogPage:
        found = await super().page(after, limit, sources, until)
        newest = found.events[-1].seq if found.events else after
        self.heads.learn(sources, newest, found.upto, self.announced())
        return found

    def has_none(self, after: int, needs: dict[LogSource, int]) -> bool:
        """Whether it is known without a read that sources have nothing after a position.

        ``needs`` has the position from which each of them is needed.
        """
        known = self.heads.has_none(after, self.announced(), [*needs])
        return known and not self.lost(needs)

    async def scan_all(self, scans: Sequence[Scan], limit: int) -> list[Page]:
        """Return pages of current records, one for each scan; see ``StoreReader``."""
        if len(scans) < self.turn_scans:
            found = await super().scan_all(scans, limit)
        else:
            async with self._many_scans:
                await self.turns.take()
                found = await super().scan_all(scans, limit)
        if sum([len(page.records) for page in found]) >= self.turn_events:
            await self.turns.take()
        return found

    async def supplied(self, topics: TopicFilter) -> list[Record] | None:
        """Return a filter's records from outside the store; None if there is no such source."""
        if self.supply is None:
            return None
        try:
            return await self.supply(topics)
        except Error:  # it was logged; the store's own records are still returned
            return None


async def _no_rows(_topics: TopicFilter) -> AsyncIterator[list[Event]]:
    """Yield nothing."""
    return
    yield []
