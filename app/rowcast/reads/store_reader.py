"""Reads of the store on reader threads, and the record cache in front of them.

Nothing here blocks the event loop. It knows topics, tables and positions; it knows nothing of
callers or subscriptions: who may read is decided before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event, Record
from rowcast.core.grouping import Grouping, GroupRow
from rowcast.core.limits import SCAN_PAGE_BYTES, SERVERS_OWN_RECORDS_MAX
from rowcast.core.queries import Query
from rowcast.core.query_index import is_helped
from rowcast.core.read_limits import QUERY_GROUPS_MAX
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, TopicRoot
from rowcast.core.topics import TopicFilter
from rowcast.reads.batched_scans import BatchedScans
from rowcast.reads.before_image import find_befores
from rowcast.reads.log_pages import LogPage, Pages
from rowcast.reads.read_queue import ReadLane, ReadQueue, current_read_caller
from rowcast.reads.record_cache import RecordCache, Unknown
from rowcast.reads.row_limits import USUAL, RowLimits
from rowcast.reads.shared_reads import SharedReads, query_key, scans_key
from rowcast.store.records import Layout
from rowcast.store.store import Lag, LogAndRecords, Page, Records, Scan

T = TypeVar("T")

_SERVERS_OWN: Final = TopicFilter.below("$SYS")


async def _is_reached(_number: int) -> None:
    """Have all that there is, where the log is this process's own."""


class StoreReader:
    """Asynchronous reads of the store."""

    shared: SharedReads
    """Pages of current records, which many clients that join at a time ask for."""
    row_limits: RowLimits = USUAL
    """Limits of reading rows of topic tables."""
    groups_max = QUERY_GROUPS_MAX
    """Groups that one query returns."""
    unstored: Callable[[], asyncio.Future[None] | None] = staticmethod(lambda: None)
    """Returns what is done when everything announced is stored; None if it is."""
    is_old: Callable[[int, Sequence[LogSource]], bool] | None = None
    """Whether a read of the log after a position begins in an archive, which is slower."""
    until_reached: Callable[[int], Awaitable[None]] = staticmethod(_is_reached)
    """Waits until this process can judge a cursor beyond its end of the log. Raises BUSY."""

    def __init__(
        self,
        store: LogAndRecords,
        cache: RecordCache,
        executor: Executor,
        tables: Sequence[Table],
        announced: Callable[[], int],
        scan_bytes: int = SCAN_PAGE_BYTES,
    ) -> None:
        self._store, self._cache = store, cache
        self.recall = cache.recall
        """Returns a record that memory has, in the store's form; None says nothing."""
        self.queue = ReadQueue(store, executor)
        """The queue in which reads wait for a thread."""
        self.shared, self._tables = SharedReads(), tables
        self._batched = BatchedScans(store, self._run)
        self._layouts, self._undeclared = {it.name: Layout(it) for it in tables}, Layout(None)
        self._ruled = frozenset(table.name for table in tables if table.ruled)
        """Tables whose events have their before image (``remember_before``)."""
        self.scan_bytes = scan_bytes
        """Payload bytes of current records that are read at a time for one subscriber."""
        self.retains = True
        """Whether the current records of undeclared topics are shown (``retainer.enabled``)."""
        self._pages = Pages()
        self._flying: dict[tuple[str, int], asyncio.Future[None]] = {}
        """Pages that are being read, by part of the log and position."""
        self.announced = announced
        """The position up to which everything logged has been offered to the bus."""
        self.reach: Callable[[], int] = store.head
        """The greatest number that a cursor of this log can have."""

    def remember_before(self, table: Table) -> None:
        """Give events of a table, that are read from the log from now on, their before image."""
        if table.name not in self._ruled:
            self._ruled |= {table.name}
            self._pages.clear()

    def remembers(self, table: Table | None) -> bool:
        """Whether events of a table have their before image."""
        return table is not None and table.name in self._ruled

    @property
    def epoch(self) -> str:
        """The name of the log."""
        return self._store.epoch

    async def ask(self, call: Callable[[LogAndRecords], T]) -> T:
        """Have a reader thread ask the store something that takes several steps."""
        await self._stored()
        return await self._run(lambda: call(self._store), ReadLane.INDEXED)

    def head(self) -> int:
        """Return the greatest number in the log, which may not be announced yet."""
        return self._store.head()

    def lag(self) -> Lag:
        """Return how far queries, which read the tables, are behind the log."""
        return self._store.lag()

    async def caught_up(self) -> None:
        """Wait until the tables have everything that is announced now."""
        await self._stored()
        if self._store.lag().events:
            await self._run(self._store.caught_up)

    async def events_of(self, branch: TopicRoot) -> int | None:
        """Return how many events of a branch the log has; None if that must be counted."""
        await self.caught_up()
        store, sources = self._store, [branch]
        if store.figures(branch).archived:
            return None
        if store.place(0, sources) != store.place(self.announced(), sources):
            return None  # there are some from before it had a table, among those of others
        return store.figures(branch).events

    async def _stored(self) -> None:
        """Wait until the log has everything that is announced: reads of it are complete then.

        Raises BUSY when the disk takes longer than a query may.
        """
        waiting = self.unstored()
        if waiting is None:
            return
        done, _ = await asyncio.wait((waiting,), timeout=self.queue.query_seconds or None)
        if not done:
            why = "the disk does not take what was announced; try again"
            raise Error(Code.BUSY, why, retry_after_seconds=1)

    async def _run(self, call: Callable[[], T], lane: ReadLane = ReadLane.KEYED) -> T:
        """Read on a reader thread; the default lane is for reads by a key or a position."""
        return await self.queue.read(call, lane)

    async def _events(
        self, read: Callable[[], list[Event]], lane: ReadLane = ReadLane.KEYED
    ) -> list[Event]:
        """Read events of the log; those of tables with row rules have their before image."""
        await self._stored()
        if not self._ruled:
            return await self._run(read, lane)

        def and_befores() -> list[Event]:
            events = read()
            find_befores(self._store, self._ruled, events)
            return events

        return await self._run(and_befores, lane)

    def release_memory(self) -> None:
        """Hold no more in memory than is needed: it is short, and the store has all of it."""
        self._cache.clear()
        self._pages.clear()

    def peek(self, topic: str) -> Record | Unknown | None:
        """Return the record if memory knows, UNKNOWN if ``get`` must be asked."""
        known = self._cache.get(topic)
        if known is None or isinstance(known, Unknown) or not self._cache.as_written(topic):
            return known
        return self._settled(known)

    def _settled(self, written: Record) -> Record:
        """Return a record as the store gives it back: the same bytes after a restart."""
        table = written.table
        layout = self._layouts[table.name] if table is not None else self._undeclared
        plain = written.kind == PUT and not layout.keeps_value(written)
        stored = written if plain else layout.record(written)
        self._cache.settle(written.topic, written, stored)
        return stored

    async def get(self, table: Table | None, topic: str) -> Record | None:
        """Return the current record at a topic."""
        known = self.peek(topic)
        if not isinstance(known, Unknown):
            return known
        if table is None and self._is_hidden(topic):
            return None
        evictions = self._cache.evictions
        record = await self._run(lambda: self._store.get(table, topic))
        self._cache.fill(topic, record, evictions)
        return record

    def _is_hidden(self, text: str) -> bool:
        """Whether retained messages are hidden; the server's own never are."""
        return not self.retains and text[0] != "$"

    async def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return a page of the records that the filter selects."""
        if table is None and self._is_hidden(topics.text):
            return Page(self.announced(), [])
        if topics.exact:
            record = await self.get(table, topics.text) if not after else None  # it was given
            return Page(self.announced(), [record] if record is not None else [])
        call = partial(self._store.scan, table, topics, after, limit)
        return await self._run(call, ReadLane.INDEXED)

    async def scan_all(self, scans: Sequence[Scan], limit: int) -> list[Page]:
        """Return the first pages of several scans, in order, as far as they fit in one page.

        Where memory knows the answers of all of them, no thread is asked.
        """
        known = [self._known(item) for item in scans]
        asked = [item for item, page in zip(scans, known, strict=True) if page is None]
        found: list[Page] = []
        if asked:
            evictions = self._cache.evictions
            lane = ReadLane.KEYED if all(item.topics.exact for item in asked) else ReadLane.INDEXED
            found = await self._scanned(asked, limit, lane)
            for item, page in zip(asked, found, strict=False):
                if item.topics.exact and not item.after:
                    record = page.records[0] if page.records else None
                    self._cache.fill(item.topics.text, record, evictions)
        pages: list[Page] = []
        answers = iter(found)
        for remembered in known:
            found_page = remembered or next(answers, None)
            if found_page is None:  # there was no room for it
                break
            pages.append(found_page)
        return pages

    async def _scanned(self, scans: list[Scan], limit: int, lane: ReadLane) -> list[Page]:
        """Return pages from the store; those of a pattern, or of topics, with all who ask now."""
        if lane is ReadLane.KEYED and len(scans) <= limit and not current_read_caller().name:
            return await self._batched.read(scans, self.scan_bytes)
        scan, key = (
            partial(self._store.scan_all, scans, limit, self.scan_bytes),
            scans_key(scans, limit),
        )
        return await self.shared.read(key, scan, lambda call: self._run(call, lane))

    async def selected(self, table: Table, query: Query) -> Page:
        """Return one page of a query's answer, with all who ask for the same now."""
        search, lane = partial(self._store.search, table, query), _lane(table, query)
        return await self.shared.read(
            query_key(table, query), search, lambda call: self._run(call, lane)
        )

    def _known(self, scan: Scan) -> Page | None:
        """Return the page of a scan if memory knows it."""
        topics = scan.topics
        if scan.table is None and self._is_hidden(topics.text):
            return Page(self.announced(), [])
        if not topics.exact:
            return None
        record = self.peek(topics.text) if not scan.after else None  # it was given
        if isinstance(record, Unknown):
            return None
        return Page(self.announced(), [record] if record is not None else [])

    async def read(self, after: int, limit: int, sources: Sequence[LogSource]) -> list[Event]:
        """Return a page of the log after a position; without sources, of the whole log."""
        lane = self._lane_of(after, sources)
        return await self._events(lambda: self._store.read(after, limit, sources or None), lane)

    async def read_back(self, before: int, limit: int, sources: Sequence[LogSource]) -> list[Event]:
        """Return a page of the log before a position, newest first."""
        lane = self._lane_of(0, sources)
        return await self._events(lambda: self._store.read_back(before, limit, sources), lane)

    def _lane_of(self, after: int, sources: Sequence[LogSource]) -> ReadLane:
        """Return the lane of a read of the log: none waits for what an archive has to find."""
        old = self.is_old is not None and self.is_old(after, sources)
        return ReadLane.SEARCH if old else ReadLane.KEYED

    async def page(
        self, after: int, limit: int, sources: Sequence[LogSource], until: int = 0
    ) -> LogPage:
        """Return a page of the log after a position, maybe one that another reader has read.

        It holds something, or it is complete up to what is announced now, and up to ``until``,
        which is durable.
        """
        until = max(until, self.announced())
        flying, part = self._flying, ""
        for _ in range(2):  # the second flight began after this call: it has what is needed
            part = self._store.place(after, sources or None)
            known = self._pages.find(part, after, until)
            if known is not None:
                return known
            flight = flying.get((part, after))
            if flight is None:
                break
            await asyncio.wait((flight,))  # not cancelled with one of those who wait for it
        flight = flying[part, after] = asyncio.get_running_loop().create_future()
        upto, ruled = max(after, until, self.announced()), self._ruled
        try:
            events = await self.read(after, limit, sources)
        finally:
            flight.set_result(None)
            if flying.get((part, after)) is flight:
                del flying[part, after]
        if len(events) == limit:
            upto = events[-1].seq
        elif events:
            upto = max(upto, events[-1].seq)
        if part == self._store.place(after, sources or None) and ruled is self._ruled:
            self._pages.keep(part, after, events, upto)
        return LogPage(events, upto)

    async def pick(
        self, seqs: Sequence[int], sources: Sequence[LogSource] = ()
    ) -> dict[int, Event]:
        """Return single events of the log by their numbers; those that are gone are left out.

        Where their ``sources`` are known, only these are looked at.
        """

        def read() -> list[Event]:
            pages = (self._store.read(seq - 1, 1, sources or None) for seq in seqs)
            return [event for page in pages for event in page]

        lane = self._lane_of(min(seqs, default=0), sources)
        found = await self._events(read, lane)
        return {event.seq: event for event in found}

    def trimmed(self, sources: Iterable[LogSource]) -> int:
        """Return the greatest number that was trimmed from any of these sources."""
        return max(map(self._store.trimmed, sources), default=0)

    def lost(self, needs: dict[LogSource, int]) -> dict[LogSource, int]:
        """Return the sources of which a part that is needed was trimmed, and up to where."""
        trimmed = {source: self._store.trimmed(source) for source in needs}
        return {source: trimmed[source] for source, need in needs.items() if trimmed[source] > need}

    async def search(self, table: Table, query: Query) -> Page:
        """Return one page of a query's answer."""
        return await self._run(lambda: self._store.search(table, query), _lane(table, query))

    async def matching(self, table: Table, query: Query) -> int:
        """Return how many records a query selects."""
        return await self._run(lambda: self._store.matching(table, query), _lane(table, query))

    async def grouped(self, table: Table, query: Query, grouping: Grouping) -> list[GroupRow]:
        """Return the groups of what a query selects; raises INVALID when there are too many."""
        call = partial(self._store.grouped, table, query, grouping, self.groups_max)
        return await self._run(call, _lane(table, query))

    async def count(self, source: LogSource) -> int:
        """Return how many records a source has."""
        return await self._run(lambda: self._store.count(source))

    async def retained(self) -> int:
        """Return how many records undeclared topics have, without the server's own."""
        return await self._run(lambda: self._store.count(None) - count_server_records(self._store))

    async def history(
        self, source: LogSource, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last events at a topic, perhaps of those before a position."""
        call = partial(self._store.history, source, topic, limit, before)
        return await self._events(call, ReadLane.SEARCH)

    async def follow(self, source: LogSource, topic: str, after: int, limit: int) -> list[Event]:
        """Return a page of the events at one topic after a position."""
        call = partial(self._store.follow, source, topic, after, limit)
        return await self._events(call, ReadLane.SEARCH)

    async def change(self, source: LogSource, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position."""
        await self._stored()
        return await self._run(lambda: self._store.change(source, topic, until), ReadLane.SEARCH)

    async def since(self, source: LogSource, version: int) -> int:
        """Return the position just before the source's first event of at least this version."""
        await self._stored()
        lane = self._lane_of(0, [source])
        return await self._run(lambda: self._store.since(source, version), lane)

    async def expired(self, now: float, limit: int, behind: tuple[float, int]) -> list[Record]:
        """Return records behind a place whose time is over."""
        return await self._run(lambda: self._store.expired(now, limit, behind))

    async def next_expiry(self) -> float | None:
        """Return when the next record's time is over, None when none's ever is."""
        return await self._run(self._store.next_expiry)


def _lane(table: Table, query: Query) -> ReadLane:
    return ReadLane.INDEXED if is_helped(table, query) else ReadLane.SEARCH


def count_server_records(store: Records) -> int:
    """Return how many of the records of undeclared topics the server keeps for itself."""
    return len(store.scan(None, _SERVERS_OWN, "", SERVERS_OWN_RECORDS_MAX).records)
