"""What subscriptions read with: the store's reads, and what all of them share.

Bounds of their queues, what other owners have besides the store (retained values that a hook keeps,
system rows, rows of topic tables), and counts of what was not passed on. It knows no callers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

from rowcast.core.errors import Error
from rowcast.core.events import Event, Record
from rowcast.core.limits import SCAN_PAGE_BYTES, SCAN_PAGE_RECORDS, SCANS_TOGETHER_MAX
from rowcast.core.shedding import Shedding
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, sources_of
from rowcast.core.topics import TopicFilter
from rowcast.reads.record_cache import RecordCache
from rowcast.reads.store_reader import StoreReader
from rowcast.rows.topic_rows import RowFilter, View
from rowcast.store.store import LogAndRecords
from rowcast.subscriptions.delivery import Acknowledged, Delivered
from rowcast.subscriptions.gaps import LossCounter


class RowViews(Protocol):
    """Which topic tables can be read."""

    def get(self, name: str, /) -> View | None:
        """Return the view of a table's name; None if that is no topic table."""

    def rows(self, topics: TopicFilter, /) -> RowFilter | None:
        """Return what a filter selects of a topic table's rows; None if it names no such table."""


class Reader(StoreReader):
    """Reads for subscriptions, and their common bounds and counts."""

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
    ) -> None:
        super().__init__(store, cache, executor, tables, announced, scan_bytes)
        self.queue_events = queue_events
        """Events that wait in memory for one subscription (D23); 0 is the usual limit."""
        self.queue_bytes = queue_bytes
        """Payload bytes that wait for one subscription; 0 is the usual limit."""
        self.views: RowViews | None = None
        """The topic tables whose rows can be read."""
        self.supply: Callable[[TopicFilter], Awaitable[list[Record] | None]] | None = None
        """Asks whoever has retained values of undeclared topics besides the store."""
        self.supplies: Callable[[], bool] = lambda: self.supply is not None
        """Tells whether there is anybody to ask so."""
        self.live: Callable[[TopicFilter], AsyncIterator[list[Event]]] = _no_rows
        """Gives the system rows that a filter selects, in pages."""
        self.scans_together = scans_together
        """Filters of one subscriber whose current records are read at a time."""
        self.scan_records = SCAN_PAGE_RECORDS
        """Retained messages that are read at a time (``retainer.batch_read_number``, E19)."""
        self.delivery_rate = 0.0
        """Retained messages that one reader is given in a second; 0 is any number (E19)."""
        self.shedding = Shedding()
        """What is refused while memory is short; whoever begins something asks."""
        self.losses = LossCounter()
        """What all subscriptions together were not passed on."""
        self.delivered: list[Delivered] = []
        """Hear what subscriptions are handed."""
        self.acknowledged: list[Acknowledged] = []
        """Hear what clients acknowledge."""

    def rows(self, topics: TopicFilter) -> RowFilter | None:
        """Return what a filter selects of a topic table's rows; None if it names no such table."""
        return self.views.rows(topics) if self.views is not None else None

    def seeing(self, topics: TopicFilter) -> Callable[[Event], Event | None]:
        """Return what tells what an event is to a filter: itself, a row, or nothing."""
        rows = self.rows(topics)
        if rows is not None:
            return rows.row
        return lambda event: event if topics.matches(event.topic) else None

    def sources(self, topics: TopicFilter) -> list[LogSource]:
        """Return what the filter can reach: tables, and branches or all undeclared topics."""
        rows = self.rows(topics)
        if rows is not None:
            return [rows.view.branch]
        return sources_of(topics, self._tables)

    async def supplied(self, topics: TopicFilter) -> list[Record] | None:
        """Return the records that a filter selects and somebody else keeps; None: nobody does."""
        if self.supply is None:
            return None
        try:
            return await self.supply(topics)
        except Error:  # it is in the log; the store's own records are there all the same
            return None


async def _no_rows(_topics: TopicFilter) -> AsyncIterator[list[Event]]:
    """Give nothing."""
    return
    yield []
