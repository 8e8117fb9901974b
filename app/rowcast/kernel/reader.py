"""The read side: the store's reads on reader threads, and the record cache in front of them.

Nothing here blocks the event loop. It knows topics, tables and positions; it knows nothing of
callers: the engine has asked before it comes here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, TypeVar

from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event, Record
from rowcast.core.limits import SCAN_PAGE_BYTES, SCAN_PAGE_RECORDS, SCANS_TOGETHER_MAX
from rowcast.core.queries import Query
from rowcast.core.query_index import is_helped
from rowcast.core.tables import Table
from rowcast.core.topic_tables import Branch, Source, branch_of, branches_of
from rowcast.core.topics import TopicFilter
from rowcast.features.retained.retaining import servers_own
from rowcast.features.slow_subscribers.slow_subscribers import SlowSubscriptions
from rowcast.kernel.before_image import find_befores
from rowcast.kernel.cache import RecordCache, Unknown
from rowcast.kernel.pages import LogPage, Pages
from rowcast.kernel.read_queue import Lane, ReadQueue
from rowcast.kernel.shedding import Shedding
from rowcast.kernel.watch.gaps import Account
from rowcast.rows.topic_rows import RowFilter
from rowcast.store.records import Layout
from rowcast.store.store import Page, Scan, Store

if TYPE_CHECKING:
    from rowcast.kernel.row_views import Views

T = TypeVar("T")


class Reader:
    """Asynchronous reads of the store."""

    def __init__(
        self,
        store: Store,
        cache: RecordCache,
        executor: Executor,
        tables: Sequence[Table],
        announced: Callable[[], int],
        queue_events: int = 0,
        queue_bytes: int = 0,
        scan_bytes: int = SCAN_PAGE_BYTES,
        scans_together: int = SCANS_TOGETHER_MAX,
    ) -> None:
        self._store = store
        self._cache = cache
        self.queue = ReadQueue(store, executor)
        """Who reads next, and for how long."""
        self._tables = tables
        self._layouts = {table.name: Layout(table) for table in tables}
        self._undeclared = Layout(None)
        self._ruled = frozenset(table.name for table in tables if table.ruled)
        """Tables of whose events it must be known what was before."""
        self.queue_events = queue_events
        """Events that wait in memory for one subscription (D23); 0 is the usual limit."""
        self.queue_bytes = queue_bytes
        """Payload bytes that wait for one subscription; 0 is the usual limit."""
        self.views: Views | None = None
        """The topic tables whose rows can be read."""
        self.supply: Callable[[TopicFilter], Awaitable[list[Record] | None]] | None = None
        """Asks whoever has retained values of undeclared topics besides the store."""
        self.supplies: Callable[[], bool] = lambda: self.supply is not None
        """Tells whether there is anybody to ask so."""
        self.live: Callable[[TopicFilter], AsyncIterator[list[Event]]] = _no_rows
        """Gives the system rows that a filter selects, in pages."""
        self.scan_bytes = scan_bytes
        """Payload bytes of current records that are read at a time for one subscriber."""
        self.scans_together = scans_together
        """Filters of one subscriber whose current records are read at a time."""
        self.scan_records = SCAN_PAGE_RECORDS
        """Retained messages that are read at a time (``retainer.batch_read_number``, E19)."""
        self.delivery_rate = 0.0
        """Retained messages that one reader is given in a second; 0 is any number (E19)."""
        self.retains = True
        """Whether the current records of undeclared topics are shown (``retainer.enabled``)."""
        self.shedding = Shedding()
        """What is refused while memory is short; whoever begins something asks."""
        self._pages = Pages()
        self.account = Account()
        """What all subscriptions together were not passed on."""
        self.slow: SlowSubscriptions | None = None
        """Hears how late subscriptions are given something, if anybody wants to know."""
        self._flying: dict[tuple[str, int], asyncio.Future[None]] = {}
        """Pages that are being read, by part of the log and position."""
        self.announced = announced
        """The position up to which everything logged has been offered to the bus."""

    @property
    def epoch(self) -> str:
        """The name of the log."""
        return self._store.epoch

    async def ask(self, call: Callable[[Store], T]) -> T:
        """Have a reader thread ask the store something that takes several steps."""
        return await self._run(lambda: call(self._store), Lane.INDEXED)

    def events_of(self, branch: Branch) -> int | None:
        """Return how many events of a branch the log has; None if that must be counted."""
        store, sources = self._store, [branch]
        if store.place(0, sources) != store.place(self.announced(), sources):
            return None  # there are some from before it had a table, among those of others
        return store.figures(branch).events

    def committed(self) -> int:
        """Return the greatest number on the disk: what a read may tell before it is announced."""
        return self._store.head()

    async def _run(self, call: Callable[[], T], lane: Lane = Lane.KEYED) -> T:
        """Read on a reader thread; without a lane, what is found by a key or a position."""
        return await self.queue.read(call, lane)

    async def _events(
        self, read: Callable[[], list[Event]], lane: Lane = Lane.KEYED
    ) -> list[Event]:
        """Read events of the log; of tables whose rules look at records, with what was before."""
        if not self._ruled:
            return await self._run(read, lane)

        def and_befores() -> list[Event]:
            events = read()
            find_befores(self._store, self._ruled, events)
            return events

        return await self._run(and_befores, lane)

    def give_back(self) -> None:
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

    def rows(self, topics: TopicFilter) -> RowFilter | None:
        """Return what a filter selects of a topic table's rows; None if it names no such table."""
        return self.views.rows(topics) if self.views is not None else None

    def seeing(self, topics: TopicFilter) -> Callable[[Event], Event | None]:
        """Return what tells what an event is to a filter: itself, a row, or nothing."""
        rows = self.rows(topics)
        if rows is not None:
            return rows.row
        return lambda event: event if topics.matches(event.topic) else None

    def sources(self, topics: TopicFilter) -> list[Source]:
        """Return what the filter can reach: tables, and branches or all undeclared topics."""
        rows = self.rows(topics)
        if rows is not None:
            return [rows.view.branch]
        if topics.exact:
            return [owner_of(topics.text, self._tables) or branch_of(topics.text)]
        found: list[Source] = [item for item in self._tables if _reaches(topics, item)]
        prefix = topics.prefix + "/"
        if not any(item.path and prefix.startswith(item.path + "/") for item in self._tables):
            found.extend(branches_of(topics) or [None])
        return found

    def _is_hidden(self, text: str) -> bool:
        """Tell whether retained messages are not to be seen; the server's own always are."""
        return not self.retains and text[0] != "$"

    async def scan(self, table: Table | None, topics: TopicFilter, after: str, limit: int) -> Page:
        """Return a page of the records that the filter selects."""
        if table is None and self._is_hidden(topics.text):
            return Page(self.announced(), [])
        if topics.exact:
            record = await self.get(table, topics.text) if not after else None  # it was given
            return Page(self.announced(), [record] if record is not None else [])
        return await self._run(lambda: self._store.scan(table, topics, after, limit), Lane.INDEXED)

    async def scan_all(self, scans: Sequence[Scan], limit: int) -> list[Page]:
        """Return the first pages of several scans, in order, as far as they fit in one page.

        Where memory knows the answers of all of them, no thread is asked.
        """
        known = [self._known(item) for item in scans]
        asked = [item for item, page in zip(scans, known, strict=True) if page is None]
        found: list[Page] = []
        if asked:
            evictions = self._cache.evictions
            lane = Lane.KEYED if all(item.topics.exact for item in asked) else Lane.INDEXED
            found = await self._run(
                lambda: self._store.scan_all(asked, limit, self.scan_bytes), lane
            )
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

    async def supplied(self, topics: TopicFilter) -> list[Record] | None:
        """Return the records that a filter selects and somebody else keeps; None: nobody does."""
        if self.supply is None:
            return None
        try:
            return await self.supply(topics)
        except Error:  # it is in the log; the store's own records are there all the same
            return None

    async def read(self, after: int, limit: int, sources: Sequence[Source]) -> list[Event]:
        """Return a page of the log after a position; without sources, of the whole log."""
        return await self._events(lambda: self._store.read(after, limit, sources or None))

    async def read_back(self, before: int, limit: int, sources: Sequence[Source]) -> list[Event]:
        """Return a page of the log before a position, newest first."""
        return await self._events(lambda: self._store.read_back(before, limit, sources))

    async def page(
        self, after: int, limit: int, sources: Sequence[Source], until: int = 0
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
        upto = max(after, until, self.announced())
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
        if part == self._store.place(after, sources or None):
            self._pages.keep(part, after, events, upto)
        return LogPage(events, upto)

    async def pick(self, seqs: Sequence[int]) -> dict[int, Event]:
        """Return single events of the log by their numbers; those that are gone are left out."""

        def read() -> list[Event]:
            pages = (self._store.read(seq - 1, 1) for seq in seqs)
            return [event for page in pages for event in page]

        return {event.seq: event for event in await self._events(read)}

    def trimmed(self, sources: Iterable[Source]) -> int:
        """Return the greatest number that was trimmed from any of these sources."""
        return max(map(self._store.trimmed, sources), default=0)

    def lost(self, needs: dict[Source, int]) -> dict[Source, int]:
        """Return the sources of which a part that is needed was trimmed, and up to where."""
        trimmed = {source: self._store.trimmed(source) for source in needs}
        return {source: trimmed[source] for source, need in needs.items() if trimmed[source] > need}

    async def search(self, table: Table, query: Query) -> Page:
        """Return one page of a query's answer."""
        return await self._run(lambda: self._store.search(table, query), _lane(table, query))

    async def matching(self, table: Table, query: Query) -> int:
        """Return how many records a query selects."""
        return await self._run(lambda: self._store.matching(table, query), _lane(table, query))

    async def count(self, source: Source) -> int:
        """Return how many records a source has."""
        return await self._run(lambda: self._store.count(source))

    async def retained(self) -> int:
        """Return how many records undeclared topics have, without the server's own."""
        return await self._run(lambda: self._store.count(None) - servers_own(self._store))

    async def history(
        self, source: Source, topic: str, limit: int, before: int | None = None
    ) -> list[Event]:
        """Return the last events at a topic, perhaps of those before a position."""
        return await self._events(
            lambda: self._store.history(source, topic, limit, before), Lane.SEARCH
        )

    async def follow(self, source: Source, topic: str, after: int, limit: int) -> list[Event]:
        """Return a page of the events at one topic after a position."""
        return await self._events(
            lambda: self._store.follow(source, topic, after, limit), Lane.SEARCH
        )

    async def change(self, source: Source, topic: str, until: int) -> Event | None:
        """Return the last put, patch or delete at a topic up to a position."""
        return await self._run(lambda: self._store.change(source, topic, until), Lane.SEARCH)

    async def since(self, source: Source, version: int) -> int:
        """Return the position just before the source's first event of at least this version."""
        return await self._run(lambda: self._store.since(source, version))

    async def expired(self, now_seconds: float, limit: int) -> list[Record]:
        """Return records whose time is over."""
        return await self._run(lambda: self._store.expired(now_seconds, limit))

    async def next_expiry(self) -> float | None:
        """Return when the next record's time is over, None when none's ever is."""
        return await self._run(self._store.next_expiry)


def _lane(table: Table, query: Query) -> Lane:
    return Lane.INDEXED if is_helped(table, query) else Lane.SEARCH


async def _no_rows(_topics: TopicFilter) -> AsyncIterator[list[Event]]:
    """Give nothing."""
    return
    yield []


def owner_of(topic: str, tables: Sequence[Table]) -> Table | None:
    """Return the table that a topic belongs to: the longest path wins (A7)."""
    best: Table | None = None
    for table in tables:
        path = table.path
        if path is None or not (not path or topic == path or topic.startswith(path + "/")):
            continue
        if best is None or len(path) > len(best.path or ""):
            best = table
    return best


def _reaches(topics: TopicFilter, table: Table) -> bool:
    """Tell whether the filter may select a topic of the table: level by level along its path."""
    if table.path is None:
        return False
    if not table.path:
        return True
    path = table.path.split("/")
    for position, level in enumerate(path):
        if position == len(topics.levels):
            return False
        wanted = topics.levels[position]
        if wanted == "#":
            return True
        if wanted not in {"+", level}:
            return False
    return True
