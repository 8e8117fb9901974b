"""A subscription: a live cursor on the log. Its queue is only a cache of the log's head.

**Nothing is lost.** ``position`` is the number up to which everything logged was handed over. An
event after it is in the page, or in the queue, or still to come from the bus; or ``behind`` is set,
and the event will be read from the log. So a reader whose queue overflows loses nothing that is
logged. What is not logged and has no room is lost; it is counted, and a GAP tells of it.

**No gap.** ``behind`` is cleared before a page of the log is read. An event after the position was
either committed before that read, and is in the page, or it is announced after the read began, and
is offered to the queue (or the queue is full, and ``behind`` is set again). When there may be more
than one page, ``behind`` is set and the logged events in the queue are dropped: while ``behind`` is
set, the queue holds only events that follow the position without a hole.

**Nothing twice.** There is one position, and it moves forward only. Each filter has a ``floor``,
the position after which logged events count for it.

**A filter that joins others.** While the others read the log, it reads the log with them; a page
that was requested without it is thrown away and requested again. Otherwise it counts from what was
announced before it came (its floor), because the queue holds only what the other filters wanted; if
it begins earlier, a Replay gives it the part between. Current records come from a CurrentRecords
backfill, as of the position where the filter begins; those of several filters are read together,
and each has its own limit all the same. Whether the log was trimmed is asked after each read, not
before: what was complete then was complete when it was read.

**Rows of undeclared topics.** Of one event, one filter may select the row and another the event
itself. Then both are in the page, the row first, and the position moves with the event: a reader
that is cut off between the two is given the row again, rather than never the event.

A subscription does no I/O itself: pages come from the Reader, in one task that exists only while a
page is fetched. It knows nothing of protocols: a door takes (event, filter) pairs when it can send
them.
"""

import asyncio
from collections.abc import Callable

from rowcast.core.callers import SERVER
from rowcast.core.events import Event
from rowcast.core.limits import SUBSCRIPTION_TAKE_BYTES_MAX
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import RowFilter
from rowcast.subscriptions.backlog import Backlog
from rowcast.subscriptions.catch_up import CatchUp
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.skipped_ranges import SkippedRange, reset
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter, SubscribedFilters

__all__ = ["Pair", "SubscribedFilter", "Subscription"]


class Subscription:
    """A live cursor: filters, a position, a bounded queue, and backfill.

    ``on_ready`` is called when ``take`` may have something again; ``on_full`` when an event has no
    room, so that a reader that can send now makes some; ``on_offer`` for each event that the bus
    offers: if it returns False, a logged one is not queued but read from the log. ``backlog``
    limits what of the log waits for a reader that was away. ``skips_trimmed``: where the log was
    trimmed, go on behind it with one GAP, instead of starting anew with a RESET.
    ``queue_events_max``: so many events are the most that are ever queued; 0 is the reader's.
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
        self._event = asyncio.Event()
        self.on_ready = on_ready or self._event.set
        self._on_full = on_full
        self._on_offer = on_offer
        self.interests = SubscribedFilters()
        """Its filters."""
        most = queue_events_max or reader.queue_events
        self.queue = EventQueue(most, reader.queue_bytes, queue_events_max)
        self.progress = Progress()
        self._catch_up = CatchUp(reader, self, backlog, skips_trimmed=skips_trimmed)
        self.ready = False
        """Whether ``take`` may have something: if not, ``on_ready`` will be called first."""
        self.closed = False
        self.owner: object = self
        """Who subscribes, as topic tables count it: itself, or what outlives it."""
        self.caller = SERVER
        """Who reads: whoever watched last."""
        self.stage: Stage | None = None
        """Decides what the reader is shown; nothing, nearly always."""
        self._delivered = reader.delivered
        self._announced = reader.announced
        self.joined = reader.announced()
        """The log's head when the reader came, or its last filter."""
        self.held_since = 0.0
        """From when on it could not take what waits, in seconds since 1970; 0 when it could."""
        self.losses = LossCounter(reader.losses)
        """What was not passed on, ever."""
        self.fallbacks = 0
        """Times the queue overflowed and the log was read instead."""

    # -- the bus's side ----------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Take an event from the bus. A logged one may be refused: it is read back later."""
        if self._on_offer is not None and not self._on_offer(event) and event.seq:
            self.progress.behind = True
            self.signal()
            return
        if self.progress.behind and event.seq:
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

    def _has_room(self, event: Event) -> bool:
        """Ask the reader to make room; note what is refused if it does not."""
        if self._on_full is not None:
            self._on_full()  # a reader that can send now makes room at once
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

    # -- the reader's side -------------------------------------------------------------------------

    def take(self, limit: int) -> list[Pair]:
        """Return what can be handed over now, in order; at most ``limit`` pairs.

        An empty list means: wait for ``on_ready``. The payloads of one call stay near a bound in
        bytes. Raises the Error that ended the subscription.
        """
        if not self.ready:
            return []
        progress, catch_up = self.progress, self._catch_up
        out: list[Pair] = []
        reads = progress.page or progress.behind or catch_up.task or catch_up.backfill.waiting
        if reads or catch_up.failure or self.interests.rows or self.closed:
            self._take_read(out, limit)
        else:
            self._take_queue(out, limit)
        if out and self.stage is not None:
            out = self.stage.pass_on(out)
            if self.ready and not out:  # there may be more, but this turn had its share
                self.ready = False
                self._event.clear()
                asyncio.get_running_loop().call_soon(self.signal)
        if out:
            for feature in self._delivered:
                feature.delivered(self, out)
        return out

    def _take_read(self, out: list[Pair], limit: int) -> None:
        """Take of the page that was read, then of the queue; begin to read what follows them."""
        progress, catch_up = self.progress, self._catch_up
        if progress.page:
            progress.take(out, limit, self.interests, self.losses)
        if catch_up.failure is not None:  # what is queued may lie beyond a hole now
            if not out:
                raise catch_up.failure
            return
        if catch_up.task or progress.page or self.closed:
            pass  # it is told when the page is there
        elif catch_up.backfill.waiting:
            catch_up.start()
        else:
            take = catch_up.take_rows if self.interests.rows else self._take_queue
            take(out, limit)
            if progress.behind and not (self.queue.events or progress.page) and len(out) < limit:
                catch_up.start()
        if self._drained:
            progress.forward(self._announced())
        elif out:
            return
        self.ready = False
        self._event.clear()

    def _take_queue(self, out: list[Pair], limit: int) -> None:
        """Take what is queued: the way of nearly every event, so it is written out."""
        queue, interests, progress = self.queue, self.interests, self.progress
        events, only, position = queue.events, interests.only, progress.position
        plain = only is not None and not only.no_local
        taken_bytes, room = 0, limit - len(out)
        while events and room and taken_bytes < SUBSCRIPTION_TAKE_BYTES_MAX:
            event = events.popleft()
            taken_bytes += len(event.payload)
            seq = event.seq
            if seq:
                if seq <= position:
                    continue
                position = seq
            elif not event.topic and isinstance(event, Gap):
                out.append((event, event.interest))
                room -= 1
                continue
            interest = only if plain else interests.wanting(event, self.client_id)
            if interest is not None:
                out.append((event, interest))
                room -= 1
        queue.bytes -= taken_bytes
        if not (events or progress.behind):  # all that was announced was handed over
            position = max(position, self._announced())
            self.ready = False
            self._event.clear()
        progress.position = position
        progress.read_to = max(progress.read_to, position)

    async def batch(self, limit: int) -> list[Pair]:
        """Wait for something to hand over; an empty list means that the subscription is closed."""
        while not self.closed:
            pairs = self.take(limit)
            if pairs:
                return pairs
            await self._event.wait()
        return []

    def signal(self) -> None:
        """Tell the reader that ``take`` may have something, unless it knows."""
        if not self.ready:
            self.ready = True
            self.on_ready()

    def page_read(self) -> None:
        """Hear that a page was fetched, or could not be."""
        self.ready = False
        self.signal()

    # -- filters -----------------------------------------------------------------------------------

    def add(self, interest: SubscribedFilter, since: int | None, *, current: bool) -> None:
        """Begin a filter that was put on the bus just now.

        ``since`` is the position to continue from, None for now. ``current``: begin with the
        records as they are. The kernel calls it in the turn in which it asked the bus.
        """
        self.join()
        self._catch_up.add(interest, since, self.joined, current=current)
        if self._catch_up.backfill.waiting or self.progress.behind or self.progress.page:
            self.signal()

    def changed(self, interest: SubscribedFilter, rows: RowFilter | None) -> None:
        """Hear that a filter begins to select rows, or does no more: their table came or went."""
        interest.rows = rows
        interest.sources = self._reader.sources(interest.topics)
        self._catch_up.put(interest)

    def replace(self, interest: SubscribedFilter, *, current: bool) -> None:
        """Change the options of a filter without losing an event (MQTT-3.8.4-3)."""
        self._catch_up.replace(interest, current=current)
        if current:
            self.signal()

    def discard(self, topics: TopicFilter) -> bool:
        """End a filter; return whether there was one."""
        return self._catch_up.discard(topics)

    def counts(self, event: Event) -> bool:
        """Tell whether the reader is to know of an event that it does not get."""
        return self.interests.wanting(event, self.client_id) is not None and self.sees(event)

    def sees(self, event: Event) -> bool:
        """Tell whether the reader may know that there was an event."""
        return self.stage is None or self.stage.counts(event)

    def hold_at_most(self, events: int, size: int) -> None:
        """Change how much may wait, 0 as usual; what is too much is read back, or lost (K9)."""
        queue = self.queue
        queue.limit(events, size)
        if queue.fits:
            return
        if queue.has_logged:  # what comes is refused until it is read back
            self.progress.behind = True
        queue.keep_unlogged()
        if dropped := queue.shed(self.counts):
            self.losses.add(GapCause.SLOW, dropped)
        self.signal()

    # -- from one connection to the next -----------------------------------------------------------

    def restart(self, reason: str, token: str, interest: SubscribedFilter | None = None) -> None:
        """Tell with a RESET that the cursor that a client brought cannot be continued."""
        self.progress.page.append((reset(token, reason, self._announced()), interest))
        self.signal()

    def untold(self) -> list[Gap]:
        """Return, before ``suspend``, the gaps to tell when the reader is back."""
        marks = self.progress.untold()
        marks += (event for event in self.queue.events if isinstance(event, Gap))
        queued = (event for event in self.queue.events if not isinstance(event, Gap))
        lost = sum(not event.seq and self.counts(event) for event in queued)
        if lost:
            self.losses.add(GapCause.AWAY, lost)
            marks.append(Gap(GapCause.AWAY, lost))
        return marks

    def owe(self, marks: list[Gap]) -> None:
        """Tell first of all, before ``resume``, what was not passed on while nobody was here."""
        self.progress.page.extend((mark, mark.interest) for mark in marks)
        if marks:
            self.signal()

    def join(self) -> None:
        """Note that the reader wants something from now on: what was before is not late."""
        self.joined = self._announced()

    def hold(self) -> None:
        """Hear that the reader cannot take what waits for it now."""
        if self._delivered and not self.held_since and self.waiting:
            for feature in self._delivered:
                feature.held(self)

    def suspend(self) -> tuple[int, list[SubscribedFilter]]:
        """End it; return what ``resume`` takes: the position, and the filters.

        What was not handed over is read again then. Unlogged events are lost with the reader.
        """
        self._catch_up.note_owed()
        position, interests = self.settled, list(self.interests)
        self.close()
        return position, interests

    def resume(self, position: int, interests: list[SubscribedFilter]) -> None:
        """Go on where ``suspend`` left off; the caller has put the filters on the bus just now.

        A position that the log no longer reaches back to gives a RESET, as always.
        """
        self._catch_up.resume(position, interests)
        if self._catch_up.backfill.waiting or self.progress.behind:
            self.signal()

    def close(self) -> None:
        """End it: what waits is forgotten, readers see the end."""
        self.closed = True
        self._catch_up.stop()
        self.queue.events.clear()
        self.progress.page.clear()
        self.signal()

    # -- how far it is -----------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The number up to which everything logged was handed over."""
        return self.progress.position

    @property
    def skipped(self) -> tuple[SkippedRange, ...]:
        """Parts of the log that the reader is to pass over."""
        return self._catch_up.skipped

    @property
    def from_memory(self) -> bool:
        """Whether what comes next is in memory, and not to be read from the log."""
        return not (self.progress.behind or self.progress.page or self._catch_up.busy)

    @property
    def waiting(self) -> int:
        """How many events are in memory for the reader."""
        return len(self.queue.events) + len(self.progress.page)

    @property
    def settled(self) -> int:
        """The position to continue from: the log's head when everything was handed over."""
        if self._drained:
            return max(self.position, self._announced())
        return self.position

    @property
    def _drained(self) -> bool:
        progress, catch_up = self.progress, self._catch_up
        return not (
            self.queue.events
            or progress.page
            or progress.behind
            or catch_up.backfill.waiting
            or catch_up.task is not None
            or catch_up.failure is not None
        )
