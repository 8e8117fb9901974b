"""How a live cursor catches up with the log: where each filter is, and pages that are read for it.

Pages of backfill and of the log are fetched one at a time, in a task that exists only meanwhile.
Why this loses nothing, and gives nothing twice, is at the head of ``subscription.py``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import LOG_PAGE_EVENTS, SUBSCRIPTION_TAKE_BYTES_MAX
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.reads.log_pages import LogPage
from rowcast.subscriptions.backfill import CurrentRecords, Lost, Replay
from rowcast.subscriptions.backfill_queue import BackfillQueue
from rowcast.subscriptions.backlog import Backlog
from rowcast.subscriptions.conflation import superseded
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.skipped_ranges import SkippedRange, current_at, reset
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter, SubscribedFilters

log = logging.getLogger("rowcast.subscription")


class LiveCursor(Protocol):
    """What of the subscription is used."""

    client_id: str
    interests: SubscribedFilters
    queue: EventQueue
    progress: Progress
    losses: LossCounter
    stage: Stage | None
    closed: bool

    @property
    def settled(self) -> int:
        """The position to continue from."""

    def counts(self, event: Event) -> bool:
        """Tell whether the reader is to know of an event that it does not get."""

    def sees(self, event: Event) -> bool:
        """Tell whether the reader may know that there was an event."""

    def page_read(self) -> None:
        """Hear that a page was fetched, or could not be."""


class CatchUp:
    """The reads of one subscription."""

    __slots__ = (
        "_backlog",
        "_cursor",
        "_progress",
        "_reader",
        "_skips_trimmed",
        "_trimmed_told",
        "backfill",
        "failure",
        "interests",
        "task",
    )

    def __init__(
        self, reader: Reader, cursor: LiveCursor, backlog: Backlog | None, *, skips_trimmed: bool
    ) -> None:
        self._reader = reader
        self._cursor = cursor
        self._progress = cursor.progress
        self.interests = cursor.interests
        self._backlog = backlog
        self._skips_trimmed = skips_trimmed
        self._trimmed_told = 0
        """Up to where the reader was told that the log was trimmed."""
        self.backfill = BackfillQueue(reader)
        self.task: asyncio.Task[None] | None = None
        """Fetches a page."""
        self.failure: Error | None = None
        """Why no page can be fetched; then the subscription has ended."""

    @property
    def busy(self) -> bool:
        """Whether something is to be read before the live events."""
        return self.task is not None or bool(self.backfill.waiting)

    def start(self) -> None:
        """Fetch the next page."""
        self.task = asyncio.get_running_loop().create_task(self._fetch())

    def stop(self) -> None:
        """Fetch no more."""
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self.backfill.waiting.clear()

    async def _fetch(self) -> None:
        """Fetch one page: pass over what is skipped, else of the backfill, else of the log."""
        try:
            if self._backlog is not None and await self._skip(self._backlog):
                pass
            elif self.backfill.waiting:
                await self._read_backfill()
            else:
                await self._read_log()
        except Error as error:
            self.failure = error
        except Exception:
            log.exception("a page of the log or of records could not be read")
            self.failure = Error(Code.BUSY, "the store could not be read; try again")
        finally:
            if not self._cursor.closed:
                self.task = None
                self._cursor.page_read()

    # -- filters -----------------------------------------------------------------------------------

    def add(
        self, interest: SubscribedFilter, since: int | None, announced: int, *, current: bool
    ) -> None:
        """Begin a filter after a position, None for now; ``current``: with the current records."""
        start = announced if since is None else since
        interest.sources = self._reader.sources(interest.topics)
        if not self.interests:
            self._begin(start, announced)
        self._join(interest, start, current=current)
        self.put(interest)
        if interest.marks and since is None and not current:
            self._progress.page.append((current_at(start), interest))

    def _begin(self, position: int, announced: int) -> None:
        """Take a place in the log; what was queued for other filters is forgotten."""
        self._progress.begin(position)
        self._progress.behind = position < announced
        self._cursor.queue.clear()

    def put(self, interest: SubscribedFilter) -> None:
        """Read the log for a filter, too, from now on; what is being read is read again."""
        self.interests.put(interest)
        self.interests.generation += 1

    def _join(self, interest: SubscribedFilter, start: int, *, current: bool) -> None:
        """Bring a filter from a position to where all the others are."""
        reached = self._progress.read_to
        if self.interests and not self._reads_on:
            reached = max(reached, self._reader.announced())  # this was not offered for the filter
        interest.floor = max(start, reached) if self.interests else start
        if current:
            interest.current = ""
            self.backfill.waiting.append(CurrentRecords(interest, start))
        if start < interest.floor:
            interest.since = start
            client_id = self._cursor.client_id
            self.backfill.waiting.append(Replay(interest, start, interest.floor, client_id))

    @property
    def _reads_on(self) -> bool:
        """Whether all after ``read_to`` is still to be read from the log, for whoever wants it."""
        progress = self._progress
        return progress.reading or (progress.behind and not self._cursor.queue.has_logged)

    def replace(self, interest: SubscribedFilter, *, current: bool) -> None:
        """Change the options of a filter without losing an event (MQTT-3.8.4-3)."""
        old, progress = self.interests[interest.topics.text], self._progress
        interest.follow(old, self._reader.announced(), current=current)
        self.interests.put(interest)
        renewed = self.interests.renewed
        page, progress.page = progress.page, deque()
        for event, known in page:
            if known is not None and self._is_doubtful(event, interest):
                self._lose_doubted(event)
            else:
                progress.page.append((event, renewed(known, old, interest)))
        self._cursor.queue.replace(old, interest, self.interests)
        self.backfill.replace(old, interest, current=current)

    def _is_doubtful(self, event: Event, interest: SubscribedFilter) -> bool:
        """Tell whether an event of the page may not come again under a filter's new QoS.

        Before a kill it may have been handed over with the QoS of then. With QoS 0, at most once
        (MQTT 5, 4.3.1), it is left out.
        """
        if isinstance(event, Gap) or not 0 < event.seq <= interest.doubt:
            return False
        return self.interests.wanting(event, self._cursor.client_id) is None

    def discard(self, topics: TopicFilter) -> bool:
        """End a filter; return whether there was one."""
        interest = self.interests.pop(topics.text)
        if interest is None:
            return False
        self.backfill.drop((interest,))
        self._progress.discard(topics.text, self.interests)
        self._cursor.queue.discard(topics.text, self.interests)
        if not self.interests:
            self._progress.behind = False
        elif self.interests.only is not None:
            self._progress.forward(self.interests.only.floor)
        return True

    def note_owed(self) -> None:
        """Note in each filter, before the cursor is suspended, what of the log it is owed."""
        owed = {id(backfill.interest) for backfill in self.backfill.waiting}
        owed |= {id(interest) for _, interest in self._progress.page}
        for interest in self.interests:
            if id(interest) not in owed:
                interest.since = None

    def resume(self, position: int, interests: Sequence[SubscribedFilter]) -> None:
        """Go on where another cursor was suspended, with the backfill that is still owed."""
        self._begin(position, self._reader.announced())
        self._progress.doubt = max((interest.doubt for interest in interests), default=0)
        waiting, client_id = self.backfill.waiting, self._cursor.client_id
        for interest in interests:
            interest.sources = self._reader.sources(interest.topics)
            self.put(interest)
            if interest.current is not None:
                waiting.append(CurrentRecords(interest, None))
            if interest.since is not None:
                waiting.append(Replay(interest, interest.since, interest.floor, client_id))

    # -- what is skipped, and backfill -------------------------------------------------------------

    @property
    def skipped(self) -> tuple[SkippedRange, ...]:
        """Parts of the log that the reader is still to pass over."""
        return self._backlog.left(self._cursor.settled) if self._backlog is not None else ()

    async def _skip(self, backlog: Backlog) -> bool:
        """Pass over a part of the log, if that is what comes next."""
        await backlog.count(self)
        if self._cursor.closed:
            return True
        if backlog.next(self.position) is None:
            return False
        self._progress.skip(backlog.skip(self.position))
        return True

    async def _read_backfill(self) -> None:
        try:
            pairs = await self.backfill.read(self.position)
        except Lost as lost:
            self._reset([lost.interest], lost.after, lost.trimmed)
        else:
            self._progress.page.extend(pairs)

    def _reset(self, interests: list[SubscribedFilter], since: int, lost: int = 0) -> None:
        """Start filters anew: one RESET, then the current records (C11)."""
        floor = max(self._reader.announced(), lost)
        token = str(Cursor(self._reader.epoch, since))
        all_of_them = len(interests) == len(self.interests)
        concerned = self.interests.as_one(tuple(interests))  # others may join before it is read
        self._progress.page.append((reset(token, "no longer in the log", floor), concerned))
        self.backfill.drop(interests)
        if all_of_them:
            self._cursor.queue.keep_unlogged()
            self._progress.behind = False
            self._progress.forward(floor)
        for interest in interests:
            self._join(interest, floor, current=True)

    # -- the log -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The number up to which everything logged was handed over."""
        return self._progress.position

    async def log_page(self, after: int, sources: Sequence[LogSource]) -> LogPage:
        """Return a page of the log after a position."""
        return await self._reader.page(after, LOG_PAGE_EVENTS, sources)

    def lost(self, needs: dict[LogSource, int]) -> dict[LogSource, int]:
        """Return the sources of which a part that is needed was trimmed, and up to where."""
        return self._reader.lost(needs)

    def counts(self, event: Event) -> bool:
        """Tell whether the reader is to know of an event that it does not get."""
        return self._cursor.counts(event)

    async def _read_log(self) -> None:
        """Read the next page after the position."""
        progress = self._progress
        start, generation = progress.position, self.interests.generation
        announced = self._reader.announced()
        progress.behind = False
        progress.reading = True
        try:
            needs = self.interests.needs(start)
            page = await self.log_page(start, list(needs))
            lost = self.lost(needs)
        finally:
            progress.reading = False
        if not self.interests:
            return
        if lost and self._skips_trimmed:
            self._skip_trimmed(min(needs.values()), max(lost.values()))
            lost = {}
        if generation != self.interests.generation:
            progress.behind = True  # it was not read for all who want it now
        elif lost and (interests := self.interests.needing(start, lost)):
            self._reset(interests, start, max(lost.values()))
            if len(interests) == len(self.interests):
                return
            progress.behind = True  # the others have all that is theirs
        else:
            self._take_in(page.events)
            if page.upto >= announced:  # what follows was or will be offered
                return
            progress.behind = True
        self._cursor.queue.keep_unlogged()

    def _skip_trimmed(self, after: int, upto: int) -> None:
        """Tell with one GAP that the log was trimmed up to a number, and go on behind it."""
        if upto > self._trimmed_told:
            log.warning("what a reader was still to be given was trimmed, up to %d", upto)
            self._progress.page.append((Gap(GapCause.TRIMMED, None, None, after, upto), None))
            self._trimmed_told = upto

    def take_rows(self, out: list[Pair], limit: int) -> None:
        """Hand over what is queued by way of the page, where one event may be there twice."""
        cursor, progress, taken_bytes = self._cursor, self._progress, 0
        queue = cursor.queue.events
        while queue and not progress.page and len(out) < limit:
            event = queue.popleft()
            taken_bytes += len(event.payload)
            if isinstance(event, Gap):
                progress.page.append((event, event.interest))
            elif not event.seq or event.seq > progress.read_to:
                self._take_in([event])
            progress.take(out, limit, self.interests, cursor.losses)
            if taken_bytes >= SUBSCRIPTION_TAKE_BYTES_MAX:
                break
        cursor.queue.bytes -= taken_bytes

    def _take_in(self, page: Sequence[Event]) -> None:
        """Note what of a page of the log is for this reader, and how far it was read."""
        progress, backlog = self._progress, self._backlog
        part = page if backlog is None else backlog.before_next(page)
        self._sort(part)
        progress.read(part)
        if backlog is not None and len(part) < len(page):
            progress.skip(backlog.skip(progress.position))
            progress.behind = True  # what is beyond the skipped part is read from there
            self._cursor.queue.keep_unlogged()

    def _sort(self, page: Sequence[Event]) -> None:
        """Put events into the page of the reader, each with the filter that it is for."""
        cursor, progress = self._cursor, self._progress
        due, client_id = self.interests.due, cursor.client_id
        compares = cursor.stage is not None and cursor.stage.compares  # each with the one before
        passed_over = superseded(page) if len(page) > 1 and not compares else ()
        for event in page:
            if event.seq in passed_over and cursor.counts(event):
                interest = self.interests.wanting(event, client_id)
                progress.lose(event, interest, GapCause.CONFLATED)
                continue
            pairs = due(event, client_id)
            if pairs:
                progress.page.extend(pairs)
            elif event.seq <= progress.doubt:
                self._lose_doubted(event)

    def _lose_doubted(self, event: Event) -> None:
        """Tell of an event that was perhaps handed over before the server was killed."""
        interest = self.interests.doubted(event)
        if interest is not None and self._cursor.sees(event):
            self._progress.lose(event, interest, GapCause.DOUBTFUL)
