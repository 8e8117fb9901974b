"""A bound on what waits in the log for a reader that was away (D25).

Nothing is copied for such a reader, so nothing overflows while it is away. Before it goes on, what
waits is counted, a page of the log at a time; beyond the bound, the oldest or the newest become a
``Hole``: a part of the log that is passed over, and told with a GAP when it is reached. Events
whose time is over are no part of the bound: they are counted apart. A hole outlives ``suspend``,
so that nothing is dropped or counted twice.

It knows neither sessions nor what becomes of a reader whose policy is to end: that is its owner's.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rowcast.core.clock import WallClock
from rowcast.core.events import Event
from rowcast.core.limits import LOG_PAGE_EVENTS
from rowcast.core.topic_tables import Source
from rowcast.kernel.reader import Reader
from rowcast.kernel.watch.skipped_ranges import Hole, read_to
from rowcast.kernel.watch.subscription import Subscription


class Overflow(StrEnum):
    """What happens to a reader for whom more waits than may."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    DISCONNECT = "disconnect"
    """Nothing is dropped: the owner ends it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How many events may wait, and what happens to more."""

    events_max: int
    policy: Overflow
    now: WallClock


@dataclass(frozen=True, slots=True)
class Loss:
    """What a reader does not get of what waited for it."""

    dropped: int
    expired: int


class _Tally:
    """What waits for a reader, counted one event after the other in bounded memory."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._now = bound.now()
        self._newest = bound.policy is Overflow.DROP_NEWEST
        self._kept: deque[int] = deque(maxlen=bound.events_max)
        self._expired_before: deque[int] = deque(maxlen=bound.events_max)
        """How many had expired when each of the kept was counted."""
        self.waiting = 0
        self._expired = 0

    def count(self, event: Event) -> None:
        """Count one event."""
        if 0 < event.expires_at <= self._now:
            self._expired += 1
            return
        self.waiting += 1
        if not self._newest or self.waiting <= self._bound.events_max:
            self._kept.append(event.seq)
            self._expired_before.append(self._expired)

    def overflow(self, start: int, head: int) -> tuple[Hole, Loss] | None:
        """Return the hole between two positions that leaves as many as the bound allows."""
        dropped = self.waiting - self._bound.events_max
        if dropped <= 0:
            return None
        if self._newest:
            expired = self._expired - self._expired_before[-1]
            return Hole(self._kept[-1], head, dropped, expired), Loss(dropped, expired)
        expired = self._expired_before[0]
        return Hole(start, self._kept[0] - 1, dropped, expired), Loss(dropped, expired)


class BoundedSubscription(Subscription):
    """A live cursor that goes on with at most so much of what waits for it."""

    def __init__(
        self,
        reader: Reader,
        client_id: str,
        on_ready: Callable[[], None],
        on_full: Callable[[], None],
        bound: Bound,
        on_overflow: Callable[[Loss], None],
        holes: Sequence[Hole] = (),
    ) -> None:
        super().__init__(reader, client_id, on_ready, on_full)
        self._bound = bound
        self._on_overflow = on_overflow
        self._ahead = list(holes)
        """What is still to be passed over, in order."""
        self._passed: list[Hole] = []
        """What was passed over; its marks may still wait for the reader."""
        self._counted = not bound.events_max
        self._head = reader.announced()
        """What comes later did not wait: its reader is there."""

    @property
    def holes(self) -> tuple[Hole, ...]:
        """What the reader has not passed yet."""
        settled = self.settled
        return tuple(hole for hole in (*self._passed, *self._ahead) if settled < hole.last)

    async def _run_preludes(self) -> None:
        if not await self._passed_over():
            await super()._run_preludes()

    async def _read_log(self) -> None:
        if not await self._passed_over():
            await super()._read_log()

    async def _passed_over(self) -> bool:
        """Pass over a hole, if that is what comes next."""
        if not self._counted:
            await self._count()
        if self.closed:
            return True
        if not self._ahead or self.position < self._ahead[0].after:
            return False
        self._pass()
        return True

    def _pass(self) -> None:
        hole = self._ahead.pop(0)
        self._passed = [*(item for item in self._passed if self.position < item.last), hole]
        self._read_to = max(self._read_to, hole.last)
        self._page.append((read_to(hole.last), None))  # before the gap: both are taken, or neither
        self._page.extend(hole.marks())

    def _take_in(self, page: list[Event]) -> None:
        if not self._ahead or not page or page[-1].seq <= self._ahead[0].after:
            super()._take_in(page)
            return
        after = self._ahead[0].after
        super()._take_in([event for event in page if event.seq <= after])
        self._pass()
        self._behind = True  # what is beyond it is read from there
        self._requeue(event for event in self._queue if not event.seq)

    # -- counting ----------------------------------------------------------------------------------

    async def _count(self) -> None:
        """Count what waits, for all who want it now; what is too much becomes a hole."""
        while True:
            generation, start = self._generation, self.position
            needs = self.interests.needs(start)
            tally = await self._tally(list(needs), start)
            lost = self._lost(needs)
            if generation == self._generation:
                break
        self._counted = True
        found = tally.overflow(start, self._head)
        if found is None or lost:  # of what was trimmed a RESET tells
            return
        if self._bound.policy is not Overflow.DISCONNECT:
            self._dig(found[0])
        self._on_overflow(found[1])

    async def _tally(self, sources: list[Source], after: int) -> _Tally:
        tally, head = _Tally(self._bound), self._head
        while after < head:
            page = await self._reader.page(after, LOG_PAGE_EVENTS, sources)
            for event in page.events:
                if event.seq > head or any(hole.has(event.seq) for hole in self._ahead):
                    continue
                if self.counts(event):
                    tally.count(event)
            after = page.upto
        return tally

    def _dig(self, new: Hole) -> None:
        """Add a hole; those that it touches become part of it."""
        apart = [hole for hole in self._ahead if hole.last <= new.after or new.last <= hole.after]
        within = [hole for hole in self._ahead if hole not in apart]
        count = new.count + sum(hole.count for hole in within)
        expired = new.expired + sum(hole.expired for hole in within)
        wider = replace(new, count=count, expired=expired)
        self._ahead = sorted((*apart, wider), key=lambda hole: hole.after)
