"""A subscription: a live cursor. Its queue is only a cache of the log's head.

The rule: ``position`` is the number up to which everything logged has been handed over. An event
beyond it is in the page, or in the queue, or still to come from the bus, or ``behind`` is set and
it will be read from the log. So a reader whose queue overflows loses nothing that is logged; what
is not logged and did not fit is counted and told with a GAP.

Why there is no gap: ``behind`` is cleared before a page of the log is read. An event after the
position was either committed before that read, and is in the page, or is announced after it, and
is offered to the queue (or finds the queue full, and ``behind`` is set again). When there may be
more than the page, ``behind`` is set and what was queued is forgotten: while it is set, the queue
holds only what follows the position without a hole. Why there is nothing twice: one position,
only forward; and each filter has a ``floor``, the position from which it counts.

A filter that joins others while they read the log reads it with them, and makes void a page that
is being fetched without it. Else it counts from what was announced before it came (its floor),
because the queue holds only what the others wanted; when it begins earlier, it gets the part
between as a History. Current records come as a Snapshot at the position where the filter begins;
Snapshots that wait one behind the other are read together, and each has its own limit all the same.
Whether the log was trimmed is asked after each read, not before: what was complete then was
complete when it was read.

Of an undeclared topic's event, one filter may select the row, and another the event itself. Then
both are in the page, the row first, and the position moves with the event: a reader that is cut off
between the two is given the row again, rather than never the event.

It does no I/O itself: pages come from the Reader, in one task that exists only while a page is
fetched. It knows nothing of protocols: an edge takes (event, interest) pairs when it can send
them.
"""

import asyncio
import logging
from collections import deque

from rowcast.core.clock import PER_SECOND
from rowcast.core.cursors import Cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.limits import LOG_PAGE_EVENTS, SUBSCRIPTION_TAKE_BYTES_MAX
from rowcast.core.topic_tables import Source
from rowcast.kernel.watch.backfill import Lost
from rowcast.kernel.watch.conflation import superseded
from rowcast.kernel.watch.delivery_rate import Pace
from rowcast.kernel.watch.gaps import Gap, Why, mark_for
from rowcast.kernel.watch.joint_backfill import read_first
from rowcast.kernel.watch.skipped_ranges import LOGGED, READ_TO, Hole, read_to, reset, told
from rowcast.kernel.watch.subscribed_filters import Interest, Pair
from rowcast.kernel.watch.subscription_state import Standing
from rowcast.rows.topic_rows import Row

__all__ = ["Interest", "Pair", "Subscription"]

_READ_AGAIN = frozenset({Why.DOUBTFUL, Why.CONFLATED})
"""Gaps that are made anew with their page if they are not handed over."""

log = logging.getLogger("rowcast.subscription")


class Subscription(Standing):
    """A live cursor: how events come in, from the bus and the log, and go out to the reader."""

    # -- the bus's side ----------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Take an event from the bus. A logged one may be refused: it is read back later."""
        if self._behind and event.seq:
            return
        if (
            len(self._queue) >= self._queue_events_max
            or self._queued_bytes >= self._queue_bytes_max
        ) and not self._has_room(event):
            return
        self._queue.append(event)
        self._queued_bytes += len(event.payload)
        if not self._signalled:
            self._signalled = True
            self.on_ready()

    def _has_room(self, event: Event) -> bool:
        """Ask the reader to make room; note what is refused if it does not."""
        if self._on_full is not None:
            self._on_full()  # a reader that can send now makes room at once
        if self.closed or (self._behind and event.seq):
            return False
        if len(self._queue) < self._queue_events_max and self._queued_bytes < self._queue_bytes_max:
            return True
        if event.seq:
            self._behind = True
            self.fallbacks += 1
        elif self.counts(event):
            self._miss(event)
        return False

    def _miss(self, event: Event) -> None:
        """Count an event for which there was no room, at its place in the queue."""
        self.account.add(Why.SLOW)
        interest = self.interests.wanting(event, self.client_id)
        mark = mark_for(reversed(self._queue), interest)
        if mark is None:
            mark = Gap(Why.SLOW, 0, interest)
            self._queue.append(mark)
        mark.count = (mark.count or 0) + 1

    # -- the reader's side -------------------------------------------------------------------------

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Parts of the log that the reader is to pass over."""
        return ()

    @property
    def paging(self) -> bool:
        """Whether a page waits: what is in it is for the interests as they were."""
        return bool(self._page)

    def take(self, limit: int) -> list[Pair]:
        """Return what can be handed over now, in order; at most ``limit`` pairs.

        An empty list means: wait for ``on_ready``. The payloads of one call stay near a bound in
        bytes. Raises the Error that ended the subscription.
        """
        out = self._take(limit)
        if not out:
            return out
        slow = self._slow
        if self.gate is None:
            if slow is not None and (
                self.held_since
                or (
                    (version := out[0][0].version)
                    and slow.now() * PER_SECOND - version >= slow.limit
                )
            ):
                slow.written(self, out)
            return out
        through = self.gate.let(out)
        if through and slow is not None:
            slow.written(self, through)
        if not through and self._signalled:  # there may be more, but this turn had its share
            self._signalled = False
            asyncio.get_running_loop().call_soon(self._signal)
        return through

    def _take(self, limit: int) -> list[Pair]:
        out: list[Pair] = []
        if self._page:
            self._take_page(out, limit)
        if self._failure is not None:  # what is queued may lie beyond a hole now
            if out:
                return out
            raise self._failure
        if self._task is None and not self._page and not self.closed:
            if self._preludes:
                self._fetch()
            else:
                self._take_live(out, limit)
        if not out or self._drained:
            self._signalled = False
            self._event.clear()
            self._forward(self.settled)
        return out

    @property
    def ready(self) -> bool:
        """Whether ``take`` may have something: if not, ``on_ready`` will be called first."""
        return self._signalled

    def _take_live(self, out: list[Pair], limit: int) -> None:
        """Take what is queued; when that is empty, begin to read what the queue had no room for."""
        if self._queue:
            self._take_queue(out, limit)
        if not self._queue and not self._page and len(out) < limit and self._behind:
            self._fetch()

    async def batch(self, limit: int) -> list[Pair]:
        """Wait for something to hand over; an empty list means that the subscription is closed."""
        while not self.closed:
            pairs = self.take(limit)
            if pairs:
                return pairs
            await self._event.wait()
        return []

    def _take_page(self, out: list[Pair], limit: int) -> None:
        page = self._page
        taken_bytes = 0
        while page and len(out) < limit and taken_bytes < SUBSCRIPTION_TAKE_BYTES_MAX:
            pair = page.popleft()
            event = pair[0]
            taken_bytes += len(event.payload)
            if isinstance(event, Row) and event.leads:
                self.interests.had(pair[1], event.seq)  # the position follows with the event itself
            elif event.kind in LOGGED and self.position < event.seq <= self._read_to:
                self.position = event.seq  # a History may run ahead: it is for one filter alone
            if event.kind != READ_TO and told(pair):
                out.append(pair)
                if isinstance(event, Gap) and event.why in _READ_AGAIN:
                    self.account.add(event.why, event.count or 0)
                    self.position = max(self.position, event.last)  # it is not read again

    def _take_rows(self, out: list[Pair], limit: int) -> None:
        """Take what is queued by way of the page, where one event may be there twice."""
        queue, taken_bytes = self._queue, 0
        while queue and not self._page and len(out) < limit:
            event = queue.popleft()
            taken_bytes += len(event.payload)
            if isinstance(event, Gap):
                self._page.append((event, event.interest))
            elif not event.seq or event.seq > self._read_to:
                self._take_in([event])
            self._take_page(out, limit)
            if taken_bytes >= SUBSCRIPTION_TAKE_BYTES_MAX:
                break
        self._queued_bytes -= taken_bytes

    def _take_queue(self, out: list[Pair], limit: int) -> None:
        if self.interests.rows:
            self._take_rows(out, limit)
            return
        queue, only, position = self._queue, self.interests.only, self.position
        plain = only is not None and not only.no_local
        taken_bytes, room = 0, limit - len(out)
        while queue and room and taken_bytes < SUBSCRIPTION_TAKE_BYTES_MAX:
            event = queue.popleft()
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
            interest = only if plain else self.interests.wanting(event, self.client_id)
            if interest is not None:
                out.append((event, interest))
                room -= 1
        self._queued_bytes -= taken_bytes
        self._forward(position)

    # -- pages -------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._fetch_page())

    async def _fetch_page(self) -> None:
        """Fetch one page: of the first prelude, else of the log."""
        try:
            if self._preludes:
                await self._run_preludes()
            else:
                await self._read_log()
        except Error as error:
            self._failure = error
        except Exception:
            log.exception("a page of the log or of records could not be read")
            self._failure = Error(Code.BUSY, "the store could not be read; try again")
        finally:
            if not self.closed:
                self._task = None
                self._signalled = False
                self._signal()

    async def _run_preludes(self) -> None:
        """Fetch a page of the first prelude, or of several that can be read together."""
        if self._pace is None and self._reader.delivery_rate:
            self._pace = Pace(self._reader.delivery_rate)
        if self._pace is not None:
            await self._pace.keep()
        if not self._preludes:  # their interests were discarded meanwhile
            return
        first = self._preludes[0]
        try:
            read = await read_first(self._preludes, self._reader, self.position)
        except Lost as lost:
            if first in self._preludes:
                self._reset([first.interest], lost.after, lost.trimmed)
            return
        for prelude, pairs in read:
            if prelude not in self._preludes:  # its interest was discarded meanwhile
                continue
            self._page.extend(pairs)
            if self._pace is not None:
                self._pace.count(pairs)
            if prelude.done:
                self._preludes.remove(prelude)

    async def _read_log(self) -> None:
        """Read the next page after the position. See the header for why nothing is lost."""
        start, generation = self.position, self._generation
        announced = self._reader.announced()
        self._behind = False
        self._reading = True
        try:
            needs = self.interests.needs(start)
            page = await self._reader.page(start, LOG_PAGE_EVENTS, list(needs))
            lost = self._lost(needs)
        finally:
            self._reading = False
        if not self.interests:
            return
        if generation != self._generation:
            self._behind = True  # it was not read for all who want it now
        elif lost and (interests := self.interests.needing(start, lost)):
            self._reset(interests, start, max(lost.values()))
            if len(interests) == len(self.interests):
                return
            self._behind = True  # the others have all that is theirs
        else:
            self._take_in(page.events)
            if page.upto >= announced:  # what follows was or will be offered
                return
            self._behind = True
        self._requeue(event for event in self._queue if not event.seq)

    def _lost(self, needs: dict[Source, int]) -> dict[Source, int]:
        """Return the tables of which a part that is needed was trimmed, and up to where."""
        return self._reader.lost(needs)

    def _take_in(self, page: list[Event]) -> None:
        """Note what of a page of the log is for this reader, and how far it was read."""
        due, client_id = self.interests.due, self.client_id
        judges = self.gate is not None and self.gate.judges  # each says what the one before was
        passed_over = superseded(page) if len(page) > 1 and not judges else ()
        for event in page:
            if event.seq in passed_over and self.counts(event):
                interest = self.interests.wanting(event, client_id)
                self._miss_logged(event, interest, Why.CONFLATED)
                continue
            pairs = due(event, client_id)
            if pairs:
                self._page.extend(pairs)
            elif event.seq <= self._doubt:
                self._miss_doubted(event)
        if page and page[-1].seq:
            self._read_to = max(self._read_to, page[-1].seq)
            self._page.append((read_to(page[-1].seq), None))

    def _miss_doubted(self, event: Event) -> None:
        """Tell of an event that was perhaps handed over before the server was killed."""
        interest = self.interests.doubted(event)
        if interest is not None and (self.gate is None or self.gate.may(event)):
            self._miss_logged(event, interest, Why.DOUBTFUL)

    def _miss_logged(self, event: Event, interest: Interest | None, why: Why) -> None:
        """Count an event of a page that is not handed over; those together are one gap."""
        last = self._page[-1][0] if self._page else None
        if not isinstance(last, Gap) or last.why is not why:
            last = Gap(why, 0, interest, event.seq - 1)
            self._page.append((last, interest))
        elif last.interest is not interest:
            last.interest = None
            self._page[-1] = last, None
        last.count, last.last = (last.count or 0) + 1, event.seq

    def _reset(self, interests: list[Interest], since: int, lost: int = 0) -> None:
        """Start anew: one RESET, then the current records (C11)."""
        floor = max(self._reader.announced(), lost)
        token = str(Cursor(self._reader.epoch, since))
        all_of_them = len(interests) == len(self.interests)
        concerned = self.interests.as_one(tuple(interests))  # others may join before it is read
        self._page.append((reset(token, "no longer in the log", floor), concerned))
        self._preludes = deque(item for item in self._preludes if item.interest not in interests)
        if all_of_them:
            self._requeue(event for event in self._queue if not event.seq)
            self._behind = False
            self._forward(floor)
        for interest in interests:
            self._join(interest, floor, current=True)
