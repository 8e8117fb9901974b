"""Backfill: the events of one filter before its live events, read page by page.

There are two kinds: the current records (CurrentRecords), and the part of the log between a
filter's start and the position that its subscription has already reached (Replay). Both only call
the Reader, without a lock or a long transaction, because a concurrent change has a number beyond
the end of the backfill and follows as an event. A page of records is also bounded in bytes; current
records of many filters are read together (``backfill_queue.py``). The subscription decides when a
page is fetched; this module knows neither queues nor readers.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final

from rowcast.core.evaluation import page_token
from rowcast.core.events import CURRENT, SNAPSHOT, Event, Record, local_id
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import LogSource, owner_of
from rowcast.core.values import parse_id
from rowcast.reads.row_reads import current_rows
from rowcast.rows.topic_rows import Row
from rowcast.store.store import Page, Scan
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.live_query import LiveQuery
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter

TRIMMED: Final = "no longer in the log"

"""Why a reader begins anew whose part of the log is gone."""


class Lost(Exception):  # noqa: N818 - not a mistake: an answer that the page cannot give
    """The log that ``interest`` needs ``after`` a position was trimmed up to ``trimmed``."""

    def __init__(
        self, interest: SubscribedFilter, after: int, trimmed: int, reason: str = TRIMMED
    ) -> None:
        super().__init__(after, trimmed)
        self.reason = reason
        self.interest = interest
        self.after = after
        self.trimmed = trimmed


class CurrentRecords:
    """The current records of an interest, then the mark CURRENT.

    ``limit`` is their position: a record with a later number is left out, because its event
    follows. None means the subscription's position when the backfill begins, but not before
    ``least``. It continues after ``interest.current``, where an earlier backfill was interrupted.
    """

    __slots__ = (
        "_after",
        "_least",
        "_live",
        "_past",
        "_sent",
        "_supplied",
        "_tables",
        "done",
        "interest",
        "limit",
    )

    def __init__(self, interest: SubscribedFilter, limit: int | None, least: int = 0) -> None:
        self.interest = interest
        self._past, interest.past = interest.past, None  # once: who begins anew gets everything
        self._sent = 0
        """How many of the past's kept events and deletions were looked at."""
        self.limit = limit
        self._least = least
        self.done = False
        self._after = interest.current or ""
        self._supplied: frozenset[str] | None = None
        """Topics with records outside the store; None until queried."""
        self._live: AsyncIterator[list[Event]] | None = None
        """The matching system rows; None until queried."""
        self._tables: deque[Table | None] = deque(_tables(interest.sources))
        if self._after and interest.rows is None:
            self._skip()

    def _skip(self) -> None:
        """Skip the tables already read; start over if the interrupted table was dropped."""
        owner = owner_of(self._after, [table for table in self._tables if table is not None])
        if owner not in self._tables:
            self._after = ""
            return
        while self._tables[0] is not owner:
            self._tables.popleft()

    async def read(self, reader: Reader, position: int) -> list[Pair]:
        """Return the next page."""
        interest = self.interest
        self.begin(position)
        if self._owes_ends:
            return self._ends(reader)
        pairs = await self._live_rows(reader)
        if pairs:
            return pairs
        wants_rows = interest.rows is not None
        if self._tables and self._tables[0] is None and self._supplied is None and not wants_rows:
            pairs = await self._first(reader)
        if self._tables and not pairs:
            pairs = self.taken([await self._scan(reader)])
        return self.ended(pairs)

    def asks(self, reader: Reader) -> list[Scan] | None:
        """Return the remaining scans of the store; None if there may be other sources."""
        interest = self.interest
        if interest.rows is not None or interest.topics.text[0] == "$" or self._owes_ends:
            return None
        if self._supplied is None and None in self._tables and reader.supplies():
            return None
        scans = [Scan(table, interest.topics, "") for table in self._tables]
        if scans:
            scans[0] = scans[0]._replace(after=self._after)
        return scans

    def begin(self, position: int) -> None:
        """Set the position of the records, when the first page is read."""
        if self.limit is None:
            self.limit = max(position, self.interest.floor, self._least)

    def taken(self, pages: Iterable[Page]) -> list[Pair]:
        """Return the records of the next pages that the reader wants."""
        interest = self.interest  # may have been replaced meanwhile
        pairs: list[Pair] = []
        limit, query = self.limit or 0, interest.query
        after = -1 if self._past is None else self._past.after
        for page in pages:
            pairs += [
                (snapshot_of(record), interest)
                for record in page.records
                if after < record.seq <= limit and record.topic not in (self._supplied or ())
            ]
            if query is not None:
                query.lack(record.topic for record in page.records if record.seq > limit)
            if page.more and page.records:
                self._after = page.records[-1].topic
            else:
                self._tables.popleft()
                self._after = ""
        return pairs

    def ended(self, pairs: list[Pair]) -> list[Pair]:
        """Return a page, with the mark CURRENT if it is the last one."""
        if not self._tables:
            self.done = True
            if (past := self._past) is not None:
                gap = Gap(GapCause.COMPACTED, None, self.interest, past.after, past.upto)
                pairs.append((gap, self.interest))
            pairs.append((Event("", CURRENT, b"", seq=self.limit or 0), self.interest))
        return pairs

    @property
    def _owes_ends(self) -> bool:
        """Whether something of a compacted past is still to be delivered.

        They come first, and without numbers: a reader that is cut off gets all of it again, and a
        record that was written again since follows its deletion.
        """
        return self._past is not None and self._sent < self._past.count

    def _ends(self, reader: Reader) -> list[Pair]:
        if self._past is None:
            return []
        begin, self._sent = self._sent, self._sent + page_records(reader, self._past.table)
        return [(event, self.interest) for event in self._past.events(begin, self._sent)]

    async def _scan(self, reader: Reader) -> Page:
        """Return the next page of current records, or of rows."""
        interest, after = self.interest, self._after
        if interest.rows is not None:
            return await current_rows(reader, interest.rows, after, reader.scan_records)
        table = self._tables[0]
        if interest.query is not None:
            return await _selected(reader, interest.query, after)
        scans = [Scan(table, interest.topics, after)]
        return (await reader.scan_all(scans, page_records(reader, table)))[0]

    async def _live_rows(self, reader: Reader) -> list[Pair]:
        """Return the next page of system rows, which are not in the store."""
        if self.interest.query is not None:
            return []
        if self._live is None:
            self._live = reader.live(self.interest.topics)
        nothing: list[Event] = []
        page = await anext(self._live, nothing)
        return [(snapshot_of(row), self.interest) for row in page]

    async def _first(self, reader: Reader) -> list[Pair]:
        """Return records of undeclared topics from other sources; they precede the store's."""
        records = None if self._after else await reader.supplied(self.interest.topics)
        self._supplied = frozenset(record.topic for record in records or ())
        if records is not None and self.interest.topics.exact:
            self._tables.popleft()
        return [(snapshot_of(record), self.interest) for record in records or ()]


class Replay:
    """The log for one interest, after its own position and up to ``until``."""

    __slots__ = ("_after", "_client_id", "_until", "done", "interest")

    def __init__(self, interest: SubscribedFilter, after: int, until: int, client_id: str) -> None:
        self.interest = interest
        self.done = False
        self._client_id = client_id
        self._after = after
        self._until = until

    async def read(self, reader: Reader, _position: int) -> list[Pair]:
        """Return the next page; raises Lost when the log was trimmed beyond it."""
        after, until = self._after, self._until
        page = await reader.page(after, reader.log_page_events, self.interest.sources, until)
        trimmed = reader.trimmed(self.interest.sources)  # checked after the read: it only grows
        if trimmed > after:
            raise Lost(self.interest, after, trimmed)
        interest = self.interest
        self.done = page.upto >= until
        self._after = page.upto
        own = self._client_id if interest.no_local else ""
        return [
            (seen, interest)
            for event in page.events
            if event.seq <= until and (seen := interest.seen(event)) is not None
            if not own or event.client != own  # MQTT-3.8.3-3
        ]


async def _selected(reader: Reader, query: LiveQuery, after: str) -> Page:
    """Return the next page of the records that a live query selects, in the order of their ids."""
    table, wanted = query.table, query.readable
    if wanted is None:
        return Page(reader.announced(), [])
    last = page_token((), None, parse_id(table, local_id(table, after))) if after else None
    return await reader.selected(
        table, Query(wanted.where, limit=page_records(reader, table), after=last)
    )


def page_records(reader: Reader, table: Table | None) -> int:
    """Return the page size in records; for undeclared topics it is a setting."""
    return reader.table_scan_records if table is not None else reader.scan_records


def _tables(sources: Iterable[LogSource]) -> list[Table | None]:
    """Return the tables of sources; all undeclared topics share one."""
    return list(dict.fromkeys(s if isinstance(s, Table) else None for s in sources))


def snapshot_of(record: Record) -> Event:
    """Return a record as a SNAPSHOT event; caches are shared."""
    if record.encodings is None:
        record.encodings = {}
    if isinstance(record, Row):
        row = record.changed(kind=SNAPSHOT)
        row.encodings = record.encodings
        return row
    event = Event(
        record.topic,
        SNAPSHOT,
        record.payload,
        record.content_type,
        record.qos,
        True,
        record.table,
        record.client,
        record.properties,
        record.expires_at,
        record.seq,
        record.version,
        record.decoded,
    )
    event.encodings = record.encodings
    return event
