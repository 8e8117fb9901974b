"""Catch-up of a live cursor: the position of each filter, and reads of pages.

Pages of backfill and of the log are fetched one at a time, in a task that exists only meanwhile.
The docstring of ``subscription.py`` argues why no event is lost or delivered twice.
"""

import asyncio
import logging
from collections.abc import Sequence

from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.reads.log_pages import LogPage
from rowcast.subscriptions.addressed import Addressed
from rowcast.subscriptions.backfill import TRIMMED, CurrentRecords, Lost, Replay
from rowcast.subscriptions.backfill_queue import BackfillQueue
from rowcast.subscriptions.backlog import Backlog
from rowcast.subscriptions.conflation import Conflated, delivers_latest, superseded
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.live_cursor import LiveCursor
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.skipped_ranges import SkippedRange, current_at, reset
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter

log = logging.getLogger("rowcast.subscription")


class CatchUp:
    """The reads of one subscription."""

    __slots__ = (
        "_backlog",
        "_cursor",
        "_progress",
        "_reader",
        "_skips_trimmed",
        "_trimmed_reported",
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
        self._trimmed_reported = 0
        """The position up to which a trim of the log was reported."""
        self.backfill = BackfillQueue(reader)
        self.task: asyncio.Task[None] | None = None
        """The task that fetches a page."""
        self.failure: Error | None = None
        """The error of a failed fetch, which closed the subscription."""

    @property
    def busy(self) -> bool:
        """Whether a page must be read before live events."""
        return self.task is not None or bool(self.backfill.waiting)

    def start(self) -> None:
        """Fetch the next page, unless it is known that there is none."""
        if not self._is_complete():
            self.task = asyncio.get_running_loop().create_task(self._fetch())

    def _is_complete(self) -> bool:
        """Go on with what the bus offers if the log is known to have nothing more.

        So it is for most sessions of a crowd that comes back. An event that is being announced may
        have been offered already, and its source is not noted yet.
        """
        progress, backlog = self._progress, self._backlog
        skips = backlog is not None and backlog.skips
        if self.backfill.waiting or skips or progress.unqueued > self._reader.announced():
            return False
        start = progress.next_after
        progress.behind = not self._reader.has_none(start, self.interests.needs(start))
        return not progress.behind

    def stop(self) -> None:
        """Stop fetching."""
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self.backfill.waiting.clear()

    async def _fetch(self) -> None:
        """Fetch one page: a skipped range, else backfill, else the log."""
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
        """Start a filter after a position, None for now; ``current``: with the current records."""
        live = interest.replay is None
        if not live:  # which brings its events by itself
            since, current = None, False
        elif interest.past is not None:
            since, current = interest.past.upto, True
        start = announced if since is None else since
        interest.sources = self._reader.sources_of(interest)
        if not self.interests:
            self._begin(start, announced)
        self._join(interest, start, current=current)
        self.put(interest)
        if interest.marks and since is None and not current and live:
            self._progress.page.append((current_at(start), interest))

    def _begin(self, position: int, announced: int) -> None:
        """Set the position in the log; events queued for other filters are dropped."""
        self._progress.begin(position)
        self._progress.behind = position < announced
        self._cursor.queue.clear()

    def put(self, interest: SubscribedFilter) -> None:
        """Include a filter in reads of the log from now on; a running read is repeated."""
        self.interests.put(interest)
        self.interests.generation += 1

    def _join(self, interest: SubscribedFilter, start: int, *, current: bool) -> None:
        """Bring a filter from its position to that of all others."""
        if interest.is_window:
            self.backfill.follow(interest, start, self._reader.announced(), current=current)
            return
        reached = self._progress.read_to
        if self.interests and not self._reads_on:
            reached = max(reached, self._reader.announced())  # not offered for the filter
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
        """Whether all events after ``read_to`` will be read from the log, for every filter."""
        progress = self._progress
        return progress.reading or (progress.behind and not self._cursor.queue.has_logged)

    def replace(self, interest: SubscribedFilter, *, current: bool) -> None:
        """Change the options of a filter without losing an event (MQTT-3.8.4-3)."""
        old, progress = self.interests[interest.topics.text], self._progress
        interest.follow(old, self._reader.announced(), current=current)
        self.interests.put(interest)
        renewed = self.interests.renewed
        page, progress.page = progress.page, []
        for event, known in page:
            if known is not None and self._is_doubtful(event, interest):
                self._lose_doubted(event)
            else:
                progress.page.append((event, renewed(known, old, interest)))
        self._cursor.queue.replace(old, interest, self.interests)
        self.backfill.replace(old, interest, current=current)

    def _is_doubtful(self, event: Event, interest: SubscribedFilter) -> bool:
        """Whether an event of the page must not be repeated under a filter's new QoS.

        Before a kill it may have been delivered with the QoS of that time. With QoS 0, at most once
        (MQTT 5, 4.3.1), it is left out.
        """
        if isinstance(event, Gap) or not event.topic or not 0 < event.seq <= interest.doubt:
            return False
        return self.interests.wanting(event, self._cursor.client_id) is None

    def discard(self, topics: TopicFilter) -> bool:
        """Remove a filter; return whether it existed."""
        interest = self.interests.pop(topics.text)
        if interest is None:
            return False
        self.backfill.drop((interest,))
        self._progress.discard(topics.text, self.interests)
        self._cursor.queue.discard(interest, self.interests)
        if not self.interests:
            self._progress.behind = False
        elif self.interests.only is not None:
            self._progress.forward(self.interests.only.floor)
        return True

    def note_owed(self) -> None:
        """Before ``suspend``, record in each filter its pending replay."""
        pending = {id(backfill.interest) for backfill in self.backfill.waiting}
        pending |= {id(interest) for _, interest in self._progress.page}
        for interest in self.interests:
            if id(interest) not in pending:
                interest.since = None

    def resume(self, position: int, interests: Sequence[SubscribedFilter]) -> None:
        """Continue a suspended cursor, with its pending backfill."""
        self._begin(position, self._reader.announced())
        self._progress.doubt = max((interest.doubt for interest in interests), default=0)
        waiting, client_id = self.backfill.waiting, self._cursor.client_id
        for interest in interests:
            interest.sources = interest.sources or self._reader.sources_of(interest)
        self.interests.put_all(interests)
        self.interests.generation += 1
        for interest in interests:
            if interest.is_window:
                self.backfill.go_on(interest, position, self._reader.announced())
                continue
            if interest.current is not None:
                waiting.append(CurrentRecords(interest, None))
            if interest.since is not None:
                waiting.append(Replay(interest, interest.since, interest.floor, client_id))

    # -- skipped ranges and backfill ---------------------------------------------------------------

    @property
    def skipped(self) -> tuple[SkippedRange, ...]:
        """Skipped ranges that the reader has not reached yet."""
        return self._backlog.left(self._cursor.settled) if self._backlog is not None else ()

    async def _skip(self, backlog: Backlog) -> bool:
        """Skip the next range of the log, if it begins here."""
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
            self.begin_anew([lost.interest], lost.after, lost.reason, lost=lost.trimmed)
        else:
            self._progress.page.extend(pairs)

    def begin_anew(
        self,
        interests: list[SubscribedFilter],
        since: int,
        reason: str = TRIMMED,
        lost: int = 0,
    ) -> None:
        """Restart filters, and their streams: one RESET, then the current records (C11)."""
        interests = self.interests.whole_streams(interests)
        floor = max(self._reader.announced(), lost)
        token = str(Cursor(self._reader.epoch, since))
        all_of_them = len(interests) == len(self.interests)
        concerned = self.interests.as_one(tuple(interests))  # others may join before it is read
        self._progress.page.append((reset(token, reason, floor), concerned))
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
        """The position up to which all logged events were delivered."""
        return self._progress.position

    async def log_page(self, after: int, sources: Sequence[LogSource]) -> LogPage:
        """Return a page of the log after a position."""
        return await self._reader.page(after, self._reader.log_page_events, sources)

    def lost(self, needs: dict[LogSource, int]) -> dict[LogSource, int]:
        """Return the sources with a needed part that was trimmed, and the position of the trim."""
        return self._reader.lost(needs)

    def counts(self, event: Event) -> bool:
        """Whether a skipped event counts as a gap for the reader."""
        return self._cursor.counts(event)

    async def _read_log(self) -> None:
        """Read the next page after the position."""
        progress = self._progress
        start, generation = progress.next_after, self.interests.generation
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
            progress.behind = True  # it was read for fewer filters than there are now
        elif lost and (interests := self.interests.needing(start, lost)):
            self.begin_anew(interests, start, lost=max(lost.values()))
            if len(interests) == len(self.interests):
                return
            progress.behind = True  # the other filters are complete
        else:
            self.take_in(page.events)
            if page.upto >= announced:  # the bus has offered or will offer later events
                return
            progress.behind = True
        self._cursor.queue.keep_unlogged()

    def _skip_trimmed(self, after: int, upto: int) -> None:
        """Report a trim of the log with one GAP, and continue after it."""
        if upto > self._trimmed_reported:
            log.warning("what a reader was still to be given was trimmed, up to %d", upto)
            self._progress.page.append((Gap(GapCause.TRIMMED, None, None, after, upto), None))
            self._trimmed_reported = upto

    def take_rows(self, out: list[Pair], limit: int) -> None:
        """Hand over what is queued by way of the page, where one event may be there twice."""
        cursor, progress, taken_bytes = self._cursor, self._progress, 0
        queue, taken = cursor.queue.events, 0
        for event in queue:
            if progress.page or len(out) >= limit:
                break
            taken += 1
            taken_bytes += len(event.payload)
            if isinstance(event, Addressed):
                progress.page.append((event, event.interest))
            elif not event.seq or event.seq > progress.read_to:
                self.take_in([event])
            progress.take(out, limit, self.interests, cursor.losses)
            if taken_bytes >= self._reader.take_bytes:
                break
        del queue[:taken]
        cursor.queue.bytes -= taken_bytes

    def take_in(self, page: Sequence[Event], conflated: Conflated = delivers_latest) -> None:
        """Note what of a page of the log is for this reader, and how far it was read."""
        progress, backlog = self._progress, self._backlog
        part = page if backlog is None else backlog.before_next(page)
        self._sort(part, conflated)
        progress.read(part)
        if backlog is not None and len(part) < len(page):
            progress.skip(backlog.skip(progress.position))
            progress.behind = True  # what is beyond the skipped part is read from there
            self._cursor.queue.keep_unlogged()

    def _sort(self, page: Sequence[Event], conflated: Conflated) -> None:
        """Put events into the page of the reader, each with the filter that it is for."""
        cursor, progress = self._cursor, self._progress
        due, client_id = self.interests.due, cursor.client_id
        compares = cursor.stage is not None and cursor.stage.compares  # each with the one before
        passed_over = superseded(page, conflated) if len(page) > 1 and not compares else ()
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
