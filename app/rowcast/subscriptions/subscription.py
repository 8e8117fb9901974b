"""A subscription: a live cursor on the log. Its queue is only a cache of the log's head.

**Nothing is lost.** ``position`` is the position up to which all logged events were delivered. An
event after it is in the page, or in the queue, or will be offered by the bus; or ``behind`` is set,
and the event will be read from the log. So a reader whose queue overflows loses no logged event. An
unlogged event that does not fit is lost, counted, and reported by a GAP.

**No gap.** ``behind`` is cleared before a page of the log is read. An event after the position was
either committed before that read, and is in the page, or it is announced after the read began, and
is offered to the queue (or the queue is full, and ``behind`` is set again). When there may be more
than one page, ``behind`` is set and the logged events in the queue are dropped: while ``behind`` is
set, the queue contains only events that follow the position without a gap.

**No duplicate.** The one position only increases. A filter's ``floor`` is where it begins.

A subscription does no I/O itself: pages come from the Reader, in a task that exists only meanwhile.
It knows no protocols: a door takes (event, filter) pairs when it can send them.
"""

import asyncio
from collections.abc import Callable, Sequence

from rowcast.core.callers import SERVER
from rowcast.core.events import Event
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import RowFilter
from rowcast.subscriptions.addressed import Addressed
from rowcast.subscriptions.backlog import Backlog
from rowcast.subscriptions.catch_up import CatchUp
from rowcast.subscriptions.commit_marks import CommitMarks, mark_from
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter
from rowcast.subscriptions.pacing import Pacing, pace
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.skipped_ranges import SkippedRange, reset
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter, SubscribedFilters

__all__ = ["Pair", "SubscribedFilter", "Subscription"]


class Subscription:
    """A live cursor: filters, a position, a bounded queue, and backfill.

    ``on_ready`` is called when ``take`` may return events again; ``on_full`` when the queue is
    full, so that a reader that can send drains it; ``on_offer`` for each event that the bus offers:
    if it returns False, a logged one is not queued but read from the log later. ``backlog`` limits
    the log that a returning reader reads. ``skips_trimmed``: go on after a trim of the log with one
    GAP, not with a RESET. ``queue_events_max`` bounds the queue; 0 is the reader's default.
    """

    def __init__(
        self,
        reader: Reader,
        client_id: str = "",
        on_ready: Callable[[], None] | None = None,
        on_full: Callable[[], None] | None = None,
        *,
        on_offer: Callable[[Event], bool] | None = None,
        backlog: Backlog | None = None,
        skips_trimmed: bool = False,
        queue_events_max: int = 0,
    ) -> None:
        self._reader = reader
        self.client_id = client_id
        self._waiter: asyncio.Future[None] | None = None  # of ``batch``
        self.on_ready = on_ready or self._wake
        self._on_full = on_full
        self._on_offer = on_offer
        self.interests = SubscribedFilters(reader.topics_cached)
        most = queue_events_max or reader.queue_events
        self.queue = EventQueue(most, reader.queue_bytes, queue_events_max)
        self.progress = Progress(reader.take_bytes)
        self._catch_up = CatchUp(reader, self, backlog, skips_trimmed=skips_trimmed)
        self.ready = self.closed = False
        """Whether ``take`` may return events; if not, ``on_ready`` will be called first."""
        self.owner: object = self
        """The subscriber counted by topic tables: itself, or a session that outlives it."""
        self.caller = SERVER
        """The caller of the last ``watch``."""
        self.stage: Stage | None = None
        """The stage before the reader; usually None."""
        self.commits: CommitMarks | None = None  # marks after transactions, if asked for
        self.pacing: Pacing | None = None  # of a reader that asked for fewer values of a record
        self._delivered, self._announced = reader.delivered, reader.announced
        self.joined = reader.announced()
        """The log's head when the reader connected, or added its last filter."""
        self.blocked_since = 0.0
        """The time since when it has been blocked, in seconds since 1970; 0 if it is not."""
        self.losses = LossCounter(reader.losses)
        self.fallbacks = 0  # queue overflows after which the log was read instead

    def offer(self, event: Event) -> None:
        """Queue an event of the bus. A logged one may be refused: it is read from the log later."""
        if self._on_offer is not None and not self._on_offer(event) and event.seq:
            self.fall_behind(event)
            return
        if self.progress.behind and event.seq:
            self.progress.unqueued = event.seq
            return
        queue = self.queue
        if (len(queue.events) >= queue.events_max or queue.bytes >= queue.bytes_max) and not (
            self._has_room(event)
        ):
            return
        queue.events.append(event)
        queue.bytes += len(event.payload)
        if not self.ready:
            self.ready = True
            self.on_ready()

    def offer_run(self, events: list[Event], size: int) -> None:
        """Queue events of one topic, whose payloads have ``size`` bytes together."""
        plain = self._on_offer is None and not self.progress.behind
        if plain and self.queue.extend(events, size):
            self.signal()
            return
        for event in events:
            self.offer(event)

    def fall_behind(self, event: Event) -> None:
        """Read from the log what is not offered."""
        self.progress.unqueued, self.progress.behind = event.seq, True
        self.signal()

    def _has_room(self, event: Event) -> bool:
        """Let the reader drain the queue; record the refused event if it does not."""
        if self._on_full is not None:
            self._on_full()  # a reader that can send now drains it at once
        self.progress.unqueued = event.seq or self.progress.unqueued  # if there is no room
        if self.closed or (self.progress.behind and event.seq):
            return False
        if not self.queue.full:
            return True
        if event.seq:
            self.progress.behind = True
            self.fallbacks += 1
        elif self.counts(event):
            self.losses.add(GapCause.SLOW)
            self.queue.count_lost(self.interests.wanting(event, self.client_id))
        return False

    def take(self, limit: int) -> list[Pair]:
        """Return the pairs that can be delivered now, in order; none: wait for ``on_ready``.

        At most ``limit``, near a bound in bytes. Raises the Error that closed the subscription.
        """
        if not self.ready:
            return []
        progress, catch_up, out = self.progress, self._catch_up, list[Pair]()
        if self.pacing is not None:
            self.pacing.release()
        reads = progress.page or progress.behind or catch_up.task or catch_up.backfill.waiting
        if reads or self.pacing or catch_up.failure or self.interests.rows or self.closed:
            self._take_read(out, limit)
        else:
            self._take_queue(out, limit)
        if self.commits is not None or (out and self.stage is not None):
            out = self._shown(out, limit)
        for feature in self._delivered if out else ():
            feature.delivered(self, out)
        return out

    def _shown(self, out: list[Pair], limit: int) -> list[Pair]:
        """Return what the reader is shown of taken pairs, and keep what is beyond the limit."""
        if self.commits is not None:
            out = self.commits.marked(out)
        if out and self.stage is not None:
            out = self.stage.pass_on(out)
        self.ready |= self.progress.put_back(out, limit)
        if self.commits is not None:
            out = self.commits.addressed(out)
        if self.ready and not out:  # there may be more, but not in this turn
            self.ready = False
            asyncio.get_running_loop().call_soon(self.signal)
        return out

    def _take_read(self, out: list[Pair], limit: int) -> None:
        """Take pairs of the page, then of the queue; start the next read."""
        progress, catch_up = self.progress, self._catch_up
        if progress.page:
            progress.take(out, limit, self.interests, self.losses)
        if catch_up.failure is not None:  # queued events may be after a gap now
            if not out:
                raise catch_up.failure
            return
        if catch_up.task or progress.page or self.closed:
            pass  # ``on_ready`` follows with the page
        elif catch_up.backfill.waiting:
            catch_up.start()
        else:
            if self.pacing is None:  # else the page has all that may be taken
                take = catch_up.take_rows if self.interests.rows else self._take_queue
                take(out, limit)
            if progress.behind and not (self.queue.events or progress.page) and len(out) < limit:
                catch_up.start()
        if self._drained:
            progress.forward(self._announced())
        elif out:
            return
        self.ready = False

    def _take_queue(self, out: list[Pair], limit: int) -> None:
        """Take queued events; the hot path, therefore inlined."""
        queue, interests, progress = self.queue, self.interests, self.progress
        events, only, position = queue.events, interests.only, progress.position
        plain = only is not None and not only.no_local
        taken, taken_bytes, most, matches = 0, 0, progress.take_bytes, progress.take_matches
        for event in events:
            if len(out) >= limit or taken_bytes >= most or matches < 0:
                break
            taken += 1
            taken_bytes += len(event.payload)
            seq = event.seq
            if seq:
                if seq <= position:
                    continue
                position = seq
            elif not event.topic and isinstance(event, Addressed):
                out.append((event, event.interest))
                continue
            interest = only if plain else interests.wanting(event, self.client_id)
            if interest is not None:
                out.append((event, interest))
                matches -= len(interest.merged)
        del events[:taken]
        queue.bytes -= taken_bytes
        if not (events or progress.behind):  # all announced events were delivered
            position = max(position, self._announced())
            self.ready = False
        progress.position = position
        progress.read_to = max(progress.read_to, position)

    def _wake(self) -> None:
        """Have ``batch`` go on."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batch(self, limit: int) -> list[Pair]:
        """Wait for pairs to deliver; an empty list means that the subscription is closed."""
        while not self.closed:
            pairs = self.take(limit)
            if pairs:
                return pairs
            if not self.ready:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        return []

    def signal(self) -> None:
        """Notify the reader that ``take`` may return events, unless already notified."""
        if not self.ready:
            self.ready = True
            self.on_ready()

    def page_read(self) -> None:
        """Callback: a page was fetched, or failed."""
        self.ready = False
        self.signal()

    def add(self, interest: SubscribedFilter, since: int | None, *, current: bool) -> None:
        """Start a filter that was just added to the bus.

        ``since`` is the position to continue from, None for now; ``current``: with records first.
        """
        self.join()
        self._catch_up.add(interest, since, self.joined, current=current)
        if self._catch_up.backfill.waiting or self.progress.behind or self.progress.page:
            self.signal()
        self._attend(self.joined if since is None else since, interest)

    def _attend(self, position: int, *interests: SubscribedFilter) -> None:
        mark_from(self, self._catch_up.backfill, self._reader, interests, position)
        pace(self, self._catch_up, interests)

    def changed(self, interest: SubscribedFilter, rows: RowFilter | None) -> None:
        """Change the row filter of an interest, after its topic table was created or dropped."""
        interest.rows = rows
        interest.sources = self._reader.sources(interest.topics)
        self._catch_up.put(interest)

    def replace(self, interest: SubscribedFilter, *, current: bool) -> None:
        """Change the options of a filter without losing an event (MQTT-3.8.4-3)."""
        self._catch_up.replace(interest, current=current)
        self._attend(self.position, interest)
        if current:
            self.signal()

    def discard(self, topics: TopicFilter) -> bool:
        """Remove a filter; return whether it existed."""
        return self._catch_up.discard(topics)

    def counts(self, event: Event) -> bool:
        """Whether a skipped event counts as a gap for the reader."""
        return self.interests.wanting(event, self.client_id) is not None and self.sees(event)

    def sees(self, event: Event) -> bool:
        """Whether the reader may learn that an event existed."""
        return self.stage is None or self.stage.counts(event)

    def limit_queue(self, events: int, size: int) -> None:
        """Change the queue's limits, 0: default; excess events are read again, or lost (K9)."""
        self.queue.limit(events, size)
        if self.queue.fits:
            return
        self.progress.behind |= self.queue.has_logged  # others are refused until they are read
        if dropped := self.queue.shed(self.counts):
            self.losses.add(GapCause.SLOW, dropped)
        self.signal()

    def begin_anew(self, interests: list[SubscribedFilter], reason: str) -> None:
        """Send some filters a RESET, and then the current records."""
        self._catch_up.begin_anew(interests, self.position, reason)
        self.signal()

    def go_on_after(self, window: SubscribedFilter, position: int) -> None:
        """Send what happened to a window after a position, which was not offered."""
        self._catch_up.backfill.follow(window, position, self._announced(), current=False)
        self.signal()

    def restart(self, reason: str, token: str, interest: SubscribedFilter | None = None) -> None:
        """Send a RESET: the client's cursor cannot be resumed."""
        self.progress.page.append((reset(token, reason, self._announced()), interest))
        self.signal()

    def unreported_gaps(self) -> list[Gap]:
        """Return, before ``suspend``, the gaps to report after the reconnect."""
        return self.progress.unreported() + self.queue.unreported(self.counts, self.losses)

    def queue_gaps(self, marks: Sequence[Gap]) -> None:
        """Before ``resume``, queue the gaps of the time while disconnected, ahead of events."""
        self.progress.page.extend((mark, mark.interest) for mark in marks)
        if marks:
            self.signal()

    def join(self) -> None:
        """Set ``joined`` to now: earlier events do not count as late."""
        self.joined = self._announced()

    def note_blocked(self) -> None:
        """Note that the reader is blocked."""
        if self.waiting and not self.blocked_since:
            for feature in self._delivered:
                feature.blocked(self)

    def suspend(self) -> tuple[int, list[SubscribedFilter]]:
        """Close it; return the arguments of ``resume``: the position, and the filters.

        Undelivered logged events are read again after that. Unlogged events are lost, and replays.
        """
        self._catch_up.note_owed()
        left = self.settled, [item for item in self.interests if item.replay is None]
        self.close()
        return left

    def resume(self, position: int, interests: list[SubscribedFilter]) -> None:
        """Continue after ``suspend``, with filters just added to the bus; RESET if trimmed."""
        self._catch_up.resume(position, interests)
        self._attend(position, *interests)
        if self._catch_up.backfill.waiting or self.progress.behind:
            self.signal()

    def close(self) -> None:
        """Close it: queued events are dropped, and readers see the end."""
        self.closed, self._on_full = True, None
        self._catch_up.stop()
        self.queue.close()
        self.progress.page.clear()
        self.signal()

    @property
    def position(self) -> int:
        """The position up to which all logged events were delivered."""
        return self.progress.position

    @property
    def skipped(self) -> tuple[SkippedRange, ...]:
        """Ranges of the log that the reader will skip."""
        return self._catch_up.skipped

    @property
    def from_memory(self) -> bool:
        """Whether the next events are in memory, without a read of the log."""
        return not (self.progress.behind or self.progress.page or self._catch_up.busy)

    @property
    def waiting(self) -> int:
        """The number of events in memory for the reader."""
        return len(self.queue.events) + len(self.progress.page)

    @property
    def settled(self) -> int:
        """The position to resume from: the log's head when everything was delivered."""
        return max(self.position, self._announced()) if self._drained else self.position

    @property
    def _drained(self) -> bool:
        reads = self.progress.behind or self._catch_up.busy or self._catch_up.failure
        return not (self.waiting or reads)
