"""Deadlines: a record that is not written in time becomes stale, and fresh when written (M4).

It listens on the bus like any subscriber. Each record is in a heap once: a write only stores its
time, and lateness is checked in the heap's turn. So a write costs a dictionary entry, and each
record one check per deadline. A stale record gets a record at ``$stale/<topic>``, which is deleted
when it is written again: these are ordinary logged events, so that returning and new readers get
the correct state on every door; there are at most two for each missed deadline.

At start, the state is computed from stored records, page by page, during concurrent writes.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush

from rowcast.bus.subscriber import Subscriber
from rowcast.codecs import JSON, encode
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, PUT, RETAINED, Event
from rowcast.core.freshness import STALE_PREFIX, seen_at
from rowcast.core.limits import (
    DEADLINE_LOOKS_PER_TURN,
    DEADLINE_RECORDS_MAX,
    DEADLINE_RETRY_SECONDS,
    DEADLINE_TIMER_SECONDS_MAX,
    LOG_PAGE_EVENTS,
    SCAN_PAGE_RECORDS,
)
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.kernel.feature import Background
from rowcast.kernel.kernel import Kernel
from rowcast.writes.write import Outcome

log = logging.getLogger("rowcast.deadlines")

_WRITER = Caller(user="$server", grants=ALL)
_GONE = 0.0


class Deadlines(Subscriber):
    """The records of tables with a deadline: last writes, and stale ones."""

    retry_seconds = DEADLINE_RETRY_SECONDS
    _timer_at = 0.0  # uvloop's handle of a call that is due at once cannot say when

    def __init__(
        self,
        kernel: Kernel,
        tables: Sequence[Table],
        now: WallClock,
        looks_per_turn: int = DEADLINE_LOOKS_PER_TURN,
    ) -> None:
        self._kernel = kernel
        self._looks_per_turn = looks_per_turn
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._tables = [item for item in tables if item.deadline_seconds and item.path is not None]
        self._derived = {item.path for item in tables if item.derived is not None}
        """Tables whose own staleness their jobs tell."""
        self._seen: dict[str, float] = {}
        """The last write of each record in the heap, in seconds since 1970."""
        self._due: list[tuple[float, str, float]] = []
        """A heap of check times, topics, and deadlines in seconds."""
        self._stale: set[str] = set()
        self._returned: list[str] = []
        """Fresh records to report at the end of this turn."""
        self._timer: asyncio.Handle | None = None
        self._looking = False
        """Whether due entries remain: ``_look`` runs again."""
        self._starting = True
        self._full = False
        self.behind = Background()
        self._met: list[set[str]] = []  # topics of what is offered, for each that reads meanwhile
        for table in self._tables:
            kernel.bus.add(TopicFilter.below(table.path or ""), self)

    def stop(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()
        for table in self._tables:
            topics = TopicFilter.below(table.path or "")
            self._kernel.bus.remove(topics, self)
        self._tables.clear()

    # -- the bus's side ----------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Note that a record was written or deleted."""
        table = event.table
        if table is None or not table.deadline_seconds or event.kind not in RETAINED:
            return
        for met in self._met:
            met.add(event.topic)
        self._take(event, table.deadline_seconds)

    def fall_behind(self, event: Event) -> None:
        """Read from the log what is not offered."""
        if event.table is not None and event.table.deadline_seconds:
            self._met.append(set())
            self.behind.run(self._follow(event.table, event.seq - 1, self._met[-1]))

    async def _follow(self, table: Table, after: int, met: set[str]) -> None:
        """Take the events of a table after a position, but those that were offered meanwhile."""
        upto = self._kernel.committer.announced
        try:
            while after < upto:
                try:
                    page = await self._kernel.reader.page(after, LOG_PAGE_EVENTS, [table])
                except Error as error:
                    await self._pause(error)
                    continue
                for event in page.events:
                    if event.topic not in met and event.kind in RETAINED:
                        self._take(event, table.deadline_seconds)
                after = page.upto
        finally:
            self._met = [one for one in self._met if one is not met]

    async def _pause(self, error: Error) -> None:
        """Wait after a read that failed, such as BUSY of a disk that is slow for a moment."""
        log.warning("deadlines are worked out later: %s", error.message)
        await asyncio.sleep(self.retry_seconds)

    def _take(self, event: Event, after: float) -> None:
        if event.kind == DELETE:
            self._remove(event.topic, after)
        else:
            self._write(event.topic, seen_at(event.version), after)

    def _remove(self, topic: str, after: float) -> None:
        if topic in self._stale:
            self._return(topic)
        if topic not in self._seen and self._starting:  # it may be in a page that is being read
            heappush(self._due, (self._now() + after, topic, after))
            self._seen[topic] = _GONE
        elif topic in self._seen:
            self._seen[topic] = _GONE

    def _write(self, topic: str, seen: float, after: float) -> None:
        if topic in self._stale:
            self._return(topic)
        if topic in self._seen:
            self._seen[topic] = seen
        elif len(self._seen) >= DEADLINE_RECORDS_MAX:
            self._overflow()
        else:
            self._seen[topic] = seen
            heappush(self._due, (seen + after, topic, after))
            self._arm()

    def _overflow(self) -> None:
        if not self._full:
            self._full = True
            log.error("more than %d records have a deadline; not all are told of", len(self._seen))

    def _return(self, topic: str) -> None:
        """Report a fresh record at the end of the turn, because the bus is announcing now."""
        self._stale.discard(topic)
        if not self._returned:
            self._loop.call_soon(self._report_returned)
        self._returned.append(topic)

    def _report_returned(self) -> None:
        returned, self._returned = self._returned, []
        for topic in returned:
            if topic not in self._stale:
                self._report_fresh(topic)

    # -- time --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set the timer for the next due record."""
        if self._looking or not self._due:
            return
        seconds = min(max(0.0, self._due[0][0] - self._now()), DEADLINE_TIMER_SECONDS_MAX)
        when = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """Check due records, bounded per turn, and not while the disk is behind."""
        self._timer = None
        now, due = self._now(), self._due
        self._looking = True
        if self._kernel.committer.crowded:
            self._kernel.committer.when_relieved(self._look)
            return
        for _ in range(self._looks_per_turn):
            if not due or due[0][0] > now:
                self._looking = False
                self._arm()
                return
            _, topic, after = heappop(due)
            seen = self._seen[topic]
            if seen == _GONE:
                del self._seen[topic]
            elif seen + after > now:
                heappush(due, (seen + after, topic, after))
            else:
                del self._seen[topic]
                self._stale.add(topic)
                self._report_stale(topic, seen, after)
        self._loop.call_soon(self._look)

    # -- what is told ------------------------------------------------------------------------------

    def _report_stale(self, topic: str, seen: float, after: float) -> None:
        last_seen = datetime.fromtimestamp(seen, UTC).isoformat(timespec="milliseconds")
        facts = {"last_seen": last_seen.replace("+00:00", "Z"), "deadline_seconds": after}

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, Error) and topic in self._stale:
                self._stale.discard(topic)
                self._seen[topic] = seen
                heappush(self._due, (self._now() + DEADLINE_RETRY_SECONDS, topic, after))
                self._arm()

        event = Event(STALE_PREFIX + topic, PUT, encode(facts, JSON), JSON, 1, True)
        self._kernel.submit(event, _WRITER, done)

    def _report_fresh(self, topic: str) -> None:
        def done(outcome: Outcome) -> None:
            if isinstance(outcome, Error):
                self._loop.call_later(DEADLINE_RETRY_SECONDS, self._return, topic)

        event = Event(STALE_PREFIX + topic, DELETE, b"", None, 1, True)
        self._kernel.submit(event, _WRITER, done)

    # -- the start ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Compute stale records from stored ones, and correct ``$stale/``."""
        while self._starting:
            try:
                await self._work_out()
            except Error as error:
                await self._pause(error)

    async def _work_out(self) -> None:
        """Do that; it can be repeated from the beginning."""
        reported = await self._reported_topics()
        for table in self._tables:
            await self._read(table, reported)
        for topic in (
            reported - self._stale - self._derived
        ):  # deleted, fresh, or without a deadline now
            self._return(topic)
        self._starting = False

    async def _reported_topics(self) -> set[str]:
        """Return the topics reported as stale."""
        topics, after = TopicFilter(STALE_PREFIX + "#"), ""
        reported: set[str] = set()
        while True:
            page = await self._kernel.reader.scan(None, topics, after, SCAN_PAGE_RECORDS)
            reported.update(record.topic.removeprefix(STALE_PREFIX) for record in page.records)
            if not page.more or not page.records:
                return reported
            after = page.records[-1].topic

    async def _read(self, table: Table, reported: set[str]) -> None:
        """Read the last writes of a table's records; reported stale ones stay stale."""
        topics, after = TopicFilter.below(table.path or ""), ""
        while True:
            page = await self._kernel.reader.scan(table, topics, after, SCAN_PAGE_RECORDS)
            now = self._now()
            for record in page.records:
                if record.topic in self._seen or record.topic in self._stale:  # written meanwhile
                    continue
                seen = seen_at(record.version)
                if record.topic in reported and seen + table.deadline_seconds <= now:
                    reported.discard(record.topic)
                    self._stale.add(record.topic)
                else:
                    self._write(record.topic, seen, table.deadline_seconds)
            if not page.more or not page.records:
                return
            after = page.records[-1].topic
