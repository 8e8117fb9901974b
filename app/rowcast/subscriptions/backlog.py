"""A limit on what waits in the log for a reader that was away (D25).

Nothing is copied for such a reader, so nothing overflows while it is away. Before it goes on, what
waits is counted, a page of the log at a time; beyond the limit, the oldest or the newest become a
``SkippedRange``: a part of the log that is passed over, and told with a GAP when it is reached.
Events whose time is over are no part of the limit: they are counted apart. A skipped range outlives
``suspend``, so that nothing is dropped or counted twice.

It knows neither sessions nor what becomes of a reader whose policy is to end: that is its owner's.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from rowcast.core.clock import WallClock
from rowcast.core.events import Event
from rowcast.core.topic_tables import LogSource
from rowcast.reads.log_pages import LogPage
from rowcast.subscriptions.skipped_ranges import SkippedRange
from rowcast.subscriptions.subscribed_filters import SubscribedFilters


class Overflow(StrEnum):
    """What happens to a reader for whom more waits than may."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    DISCONNECT = "disconnect"
    """Nothing is dropped: the owner ends it."""


@dataclass(frozen=True, slots=True)
class BacklogLimit:
    """How many events may wait (0: any number), and what happens to more."""

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

    def __init__(self, limit: BacklogLimit) -> None:
        self._limit = limit
        self._now = limit.now()
        self._newest = limit.policy is Overflow.DROP_NEWEST
        self._kept: deque[int] = deque(maxlen=limit.events_max)
        self._expired_before: deque[int] = deque(maxlen=limit.events_max)
        """How many had expired when each of the kept was counted."""
        self.waiting = 0
        self._expired = 0

    def count(self, event: Event) -> None:
        """Count one event."""
        if 0 < event.expires_at <= self._now:
            self._expired += 1
            return
        self.waiting += 1
        if not self._newest or self.waiting <= self._limit.events_max:
            self._kept.append(event.seq)
            self._expired_before.append(self._expired)

    def overflow(self, start: int, head: int) -> tuple[SkippedRange, Loss] | None:
        """Return what to skip between two positions so that the rest is within the limit."""
        dropped = self.waiting - self._limit.events_max
        if dropped <= 0:
            return None
        if self._newest:
            expired = self._expired - self._expired_before[-1]
            return SkippedRange(self._kept[-1], head, dropped, expired), Loss(dropped, expired)
        expired = self._expired_before[0]
        return SkippedRange(start, self._kept[0] - 1, dropped, expired), Loss(dropped, expired)


class Waiting(Protocol):
    """What of the subscription is asked when its backlog is counted."""

    interests: SubscribedFilters

    @property
    def position(self) -> int:
        """The number up to which everything logged was handed over."""

    def counts(self, event: Event) -> bool:
        """Tell whether the reader is to know of an event that it does not get."""

    def lost(self, needs: dict[LogSource, int]) -> dict[LogSource, int]:
        """Return the sources of which a part that is needed was trimmed, and up to where."""

    def log_page(self, after: int, sources: list[LogSource]) -> Awaitable[LogPage]:
        """Return a page of the log after a position."""


class Backlog:
    """What of the log waits for one reader, and which parts of it are skipped."""

    def __init__(
        self,
        limit: BacklogLimit,
        head: int,
        on_overflow: Callable[[Loss], None],
        skipped: Sequence[SkippedRange] = (),
    ) -> None:
        self._limit = limit
        self._head = head
        """The end of the log when the reader came: what is later did not wait for it."""
        self._on_overflow = on_overflow
        self._ahead = list(skipped)
        """What is still to be skipped, in order."""
        self._passed: list[SkippedRange] = []
        """What was skipped; its marks may still wait for the reader."""
        self._counted = not limit.events_max

    def left(self, settled: int) -> tuple[SkippedRange, ...]:
        """Return what a reader that has everything up to a position has not passed yet."""
        return tuple(item for item in (*self._passed, *self._ahead) if settled < item.last)

    async def count(self, reader: Waiting) -> None:
        """Count what waits, once, for all filters that want it now.

        What is beyond the limit is skipped, or the owner hears of it and ends the reader.
        """
        if self._counted:
            return
        while True:
            generation, start = reader.interests.generation, reader.position
            needs = reader.interests.needs(start)
            tally = await self._tally(reader, list(needs), start)
            lost = reader.lost(needs)
            if generation == reader.interests.generation:
                break
        self._counted = True
        found = tally.overflow(start, self._head)
        if found is None or lost:  # of what was trimmed a RESET tells
            return
        if self._limit.policy is not Overflow.DISCONNECT:
            self._add(found[0])
        self._on_overflow(found[1])

    async def _tally(self, reader: Waiting, sources: list[LogSource], after: int) -> _Tally:
        tally, head = _Tally(self._limit), self._head
        while after < head:
            page = await reader.log_page(after, sources)
            for event in page.events:
                if event.seq > head or any(item.has(event.seq) for item in self._ahead):
                    continue
                if reader.counts(event):
                    tally.count(event)
            after = page.upto
        return tally

    def _add(self, new: SkippedRange) -> None:
        """Add a range; those that it touches become part of it."""
        apart = [item for item in self._ahead if item.last <= new.after or new.last <= item.after]
        within = [item for item in self._ahead if item not in apart]
        count = new.count + sum(item.count for item in within)
        expired = new.expired + sum(item.expired for item in within)
        wider = replace(new, count=count, expired=expired)
        self._ahead = sorted((*apart, wider), key=lambda item: item.after)

    def next(self, position: int) -> SkippedRange | None:
        """Return what is skipped next, if a reader at a position has come to it."""
        return self._ahead[0] if self._ahead and position >= self._ahead[0].after else None

    def before_next(self, page: Sequence[Event]) -> Sequence[Event]:
        """Return the part of a page of the log that is before what is skipped next."""
        if not self._ahead or not page or page[-1].seq <= self._ahead[0].after:
            return page
        return [event for event in page if event.seq <= self._ahead[0].after]

    def skip(self, position: int) -> SkippedRange:
        """Note that a reader at a position passes over what is next, and return that."""
        skipped = self._ahead.pop(0)
        self._passed = [*(item for item in self._passed if position < item.last), skipped]
        return skipped
