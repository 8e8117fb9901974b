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
between as a History. Current records come as a Snapshot at the position where the filter begins.
Whether the log was trimmed is asked after each read, not before: what was complete then was
complete when it was read.

It does no I/O itself: pages come from the Reader, in one task that exists only while a page is
fetched. It knows nothing of protocols: an edge takes (event, interest) pairs when it can send
them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from app.core.callers import SERVER
from app.core.cursors import Cursor
from app.core.errors import Code, Error
from app.core.events import Event
from app.core.limits import (
    LOG_PAGE_EVENTS,
    SUBSCRIPTION_QUEUE_BYTES_MAX,
    SUBSCRIPTION_QUEUE_EVENTS_MAX,
    SUBSCRIPTION_TAKE_BYTES_MAX,
)
from app.core.tables import Table
from app.core.topics import TopicFilter
from app.engine.gate import Gate
from app.engine.interests import Interest, Interests
from app.engine.marks import LOGGED, READ_TO, Hole, current_at, gap, read_to, reset, told
from app.engine.preludes import History, Lost, Pair, Prelude, Snapshot
from app.engine.reader import Reader

__all__ = ["Interest", "Pair", "Subscription"]

log = logging.getLogger("rowcast.subscription")


class Subscription:
    """Filters, a position and a bounded queue."""

    def __init__(
        self,
        reader: Reader,
        client_id: str = "",
        on_ready: Callable[[], None] | None = None,
        on_full: Callable[[], None] | None = None,
    ) -> None:
        self._reader = reader
        self.client_id = client_id
        self._event = asyncio.Event()
        self.on_ready = on_ready or self._event.set
        self._on_full = on_full
        self.interests = Interests()
        self._queue: deque[Event] = deque()
        self._queue_events_max = reader.queue_events or SUBSCRIPTION_QUEUE_EVENTS_MAX
        self._queue_bytes_max = reader.queue_bytes or SUBSCRIPTION_QUEUE_BYTES_MAX
        self._queued_bytes = 0
        self._page: deque[Pair] = deque()
        self._preludes: deque[Prelude] = deque()
        self._task: asyncio.Task[None] | None = None
        self._signalled = False
        self._behind = False
        self._reading = False
        self._dropped = 0
        self._failure: Error | None = None
        self._generation = 0
        self.closed = False
        self.caller = SERVER
        """Who reads: whoever watched last."""
        self.gate: Gate | None = None
        """What hooks have between this and its reader; nothing, nearly always."""
        self.position = 0
        self._read_to = 0
        """The position when the page has been handed over."""
        self.dropped = 0
        """Unlogged events that did not fit, ever."""
        self.fallbacks = 0
        """Times the queue overflowed and the log was read instead."""

    # -- interests ---------------------------------------------------------------------------------

    def add(self, interest: Interest, since: int | None, *, current: bool) -> None:
        """Begin an interest that was put on the bus just now.

        ``since`` is the position to continue from, None for now. ``current``: begin with the
        records as they are. The caller of this is the engine, in the same turn in which it asked
        the bus.
        """
        announced = self._reader.announced()
        start = announced if since is None else since
        interest.tables = self._reader.tables(interest.topics)
        if not self.interests:
            self._begin(start)
            self._behind = start < announced
        self._join(interest, start, current=current)
        self.interests.put(interest)
        self._generation += 1
        if interest.marks and since is None and not current:
            self._page.append((current_at(start), interest))
        if self._preludes or self._behind or self._page:
            self._signal()

    def _begin(self, position: int) -> None:
        """Take a place in the log; what was queued for other interests is forgotten."""
        self.position = self._read_to = position
        self._queue.clear()
        self._queued_bytes = 0

    def _join(self, interest: Interest, start: int, *, current: bool) -> None:
        """Bring an interest from a position to where all the others are."""
        reached = self._read_to
        if self.interests and not self._reads_on:
            reached = max(reached, self._reader.announced())  # this was not offered for the filter
        interest.floor = max(start, reached) if self.interests else start
        if current:
            interest.current = ""
            self._preludes.append(Snapshot(interest, start))
        if start < interest.floor:
            interest.since = start
            self._preludes.append(History(interest, start, interest.floor, self.client_id))

    @property
    def _reads_on(self) -> bool:
        """Whether all after ``_read_to`` is still to be read from the log, for whoever wants it."""
        return self._reading or (self._behind and not any(event.seq for event in self._queue))

    def replace(self, interest: Interest, *, current: bool) -> None:
        """Change the options of an interest without losing an event (MQTT-3.8.4-3)."""
        old = self.interests[interest.topics.text]
        interest.floor, interest.doubt, interest.tables = old.floor, old.doubt, old.tables
        interest.current, interest.since = "" if current else old.current, old.since
        interest.local_floor = old.local_floor if old.no_local else self._reader.announced()
        self.interests.put(interest)
        renewed = self.interests.renewed
        self._page = deque((event, renewed(known, old, interest)) for event, known in self._page)
        for item in list(self._preludes):
            if item.interest is old:
                if current and isinstance(item, Snapshot):
                    self._preludes.remove(item)
                else:
                    item.interest = interest
        if current:
            self._preludes.append(Snapshot(interest, None))
            self._signal()

    def discard(self, topics: TopicFilter) -> bool:
        """End an interest; return whether there was one."""
        interest = self.interests.pop(topics.text)
        if interest is None:
            return False
        self._preludes = deque(item for item in self._preludes if item.interest is not interest)
        self._page = deque(self._remaining(topics.text))
        self._requeue(event for event in self._queue if self.interests.matching(event.topic))
        if not self.interests:
            self._behind = False
        elif self.interests.only is not None:
            self._forward(self.interests.only.floor)
        return True

    def _remaining(self, text: str) -> Iterator[Pair]:
        """Give what of the page is not only for the filter that is gone."""
        for event, interest in self._page:
            if interest is None:
                yield event, None
            elif (still := self.interests.without(interest, text)) is not None:
                yield event, still

    def _forward(self, position: int) -> None:
        self.position = max(self.position, position)
        self._read_to = max(self._read_to, position)

    def _requeue(self, events: Iterator[Event]) -> None:
        self._queue = deque(events)
        self._queued_bytes = sum(len(event.payload) for event in self._queue)

    def restart(self, reason: str, token: str, interest: Interest | None = None) -> None:
        """Tell with a RESET that the cursor that a client brought cannot be continued."""
        self._page.append((reset(token, reason, self._reader.announced()), interest))
        self._signal()

    def suspend(self) -> tuple[int, list[Interest]]:
        """End it; return what it takes to go on another time: the position, and the interests.

        What was not handed over is read again then. Unlogged events are lost with the reader.
        """
        owed = {id(prelude.interest) for prelude in self._preludes}
        owed |= {id(interest) for _, interest in self._page}
        for interest in self.interests:
            if id(interest) not in owed:
                interest.since = None
        position, interests = self.settled, list(self.interests)
        self.close()
        return position, interests

    def resume(self, position: int, interests: list[Interest]) -> None:
        """Go on where ``suspend`` left off; the caller has put the interests on the bus just now.

        A position that the log no longer reaches back to gives a RESET, as always.
        """
        self._begin(position)
        self._behind = position < self._reader.announced()
        for interest in interests:
            interest.tables = self._reader.tables(interest.topics)
            self.interests.put(interest)
            if interest.current is not None:
                self._preludes.append(Snapshot(interest, None))
            if interest.since is not None:
                since, floor = interest.since, interest.floor
                self._preludes.append(History(interest, since, floor, self.client_id))
        self._generation += 1
        if self._preludes or self._behind:
            self._signal()

    def close(self) -> None:
        """End it: what waits is forgotten, readers see the end."""
        self.closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._queue.clear()
        self._page.clear()
        self._preludes.clear()
        self._signal()

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
        elif self.interests.wanting(event, self.client_id) is not None:
            self._dropped += 1
            self.dropped += 1
        return False

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self.on_ready()

    # -- the reader's side -------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many events are in memory for the reader."""
        return len(self._queue) + len(self._page)

    @property
    def settled(self) -> int:
        """The position to continue from: the log's head when everything was handed over."""
        if self._drained:
            return max(self.position, self._reader.announced())
        return self.position

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
        if self.gate is None or not out:
            return out
        through = self.gate.let(out)
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

    @property
    def _drained(self) -> bool:
        return not (
            self._queue
            or self._page
            or self._preludes
            or self._behind
            or self._dropped
            or self._task is not None
            or self._failure is not None
        )

    def _take_live(self, out: list[Pair], limit: int) -> None:
        """Take what is queued; when that is empty, begin to read what the queue had no room for."""
        if self._queue:
            self._take_queue(out, limit)
        if not self._queue and len(out) < limit:
            if self._dropped:
                out.append(gap(self._dropped))
                self._dropped = 0
            if self._behind:
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
            if event.kind in LOGGED and self.position < event.seq <= self._read_to:
                self.position = event.seq  # a History may run ahead: it is for one filter alone
            if event.kind != READ_TO and told(pair):
                out.append(pair)

    def _take_queue(self, out: list[Pair], limit: int) -> None:
        queue, only, position = self._queue, self.interests.only, self.position
        plain = only is not None and not only.no_local
        taken_bytes = 0
        while queue and len(out) < limit and taken_bytes < SUBSCRIPTION_TAKE_BYTES_MAX:
            event = queue.popleft()
            taken_bytes += len(event.payload)
            seq = event.seq
            if seq:
                if seq <= position:
                    continue
                position = seq
            interest = only if plain else self.interests.wanting(event, self.client_id)
            if interest is not None:
                out.append((event, interest))
        self._queued_bytes -= taken_bytes
        self._forward(position)

    # -- pages -------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._fetch_page())

    async def _fetch_page(self) -> None:
        """Fetch one page: of the first prelude, else of the log."""
        try:
            if self._preludes:
                await self._run_prelude(self._preludes[0])
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

    async def _run_prelude(self, prelude: Prelude) -> None:
        try:
            pairs = await prelude.read(self._reader, self.position)
        except Lost as lost:
            if prelude in self._preludes:
                self._reset([prelude.interest], lost.after, lost.trimmed)
            return
        if prelude in self._preludes:  # its interest may have been discarded meanwhile
            self._page.extend(pairs)
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

    def _lost(self, needs: dict[Table | None, int]) -> dict[Table | None, int]:
        """Return the tables of which a part that is needed was trimmed, and up to where."""
        return self._reader.lost(needs)

    def _take_in(self, page: list[Event]) -> None:
        """Note what of a page of the log is for this reader, and how far it was read."""
        for event in page:
            interest = self.interests.wanting(event, self.client_id)
            if interest is not None:
                self._page.append((event, interest))
        if page:
            self._read_to = max(self._read_to, page[-1].seq)
            self._page.append((read_to(page[-1].seq), None))

    def _reset(self, interests: list[Interest], since: int, lost: int = 0) -> None:
        """Start anew: one RESET, then the current records (FEATURES C11)."""
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

    def __iter__(self) -> Iterator[Interest]:
        return iter(self.interests)
