"""Backlog limit: bounds the log that a returning reader still has to read (D25).

Events are not copied for an offline reader, so no queue overflows meanwhile. When it returns, its
backlog is counted, a page of the log at a time; beyond the limit, the oldest or the newest events
become a ``SkippedRange``: a part of the log that is skipped, and reported with a GAP when it is
reached. Expired events do not count towards the limit; they are counted separately. A skipped range
survives ``suspend``, so that no event is dropped or counted twice.

The module knows no sessions; with the policy ``disconnect`` the owner closes the reader.
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
    """The policy for a reader whose backlog exceeds the limit."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    DISCONNECT = "disconnect"
    """Nothing is dropped: the owner closes it."""


@dataclass(frozen=True, slots=True)
class BacklogLimit:
    """The maximum backlog in events (0: unlimited), and the policy beyond it."""

    events_max: int
    policy: Overflow
    now: WallClock


@dataclass(frozen=True, slots=True)
class Loss:
    """The part of a backlog that the reader does not get."""

    dropped: int
    expired: int


class _Tally:
    """Counts a reader's backlog event by event in bounded memory."""

    def __init__(self, limit: BacklogLimit) -> None:
        self._limit = limit
        self._now = limit.now()
        self._newest = limit.policy is Overflow.DROP_NEWEST
        self._kept: deque[int] = deque(maxlen=limit.events_max)
        self._expired_before: deque[int] = deque(maxlen=limit.events_max)
        """The number of expired events before each counted one."""
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
        """Return the range to skip so that the rest is within the limit."""
        dropped = self.waiting - self._limit.events_max
        if dropped <= 0:
            return None
        if self._newest:
            expired = self._expired - self._expired_before[-1]
            return SkippedRange(self._kept[-1], head, dropped, expired), Loss(dropped, expired)
        expired = self._expired_before[0]
        return SkippedRange(start, self._kept[0] - 1, dropped, expired), Loss(dropped, expired)


class Waiting(Protocol):
    """The part of a subscription used to count its backlog."""

    interests: SubscribedFilters

    @property
    def position(self) -> int:
        """The position up to which all logged events were delivered."""

    def counts(self, event: Event) -> bool:
        """Whether a skipped event counts as a gap for the reader."""

    def lost(self, needs: dict[LogSource, int]) -> dict[LogSource, int]:
        """Return the sources with a needed part that was trimmed, and the position of the trim."""

    def log_page(self, after: int, sources: list[LogSource]) -> Awaitable[LogPage]:
        """Return a page of the log after a position."""


class Backlog:
    """The backlog of one reader, and its skipped ranges."""

    def __init__(
        self,
        limit: BacklogLimit,
        head: int,
        on_overflow: Callable[[Loss], None],
        skipped: Sequence[SkippedRange] = (),
    ) -> None:
        self._limit = limit
        self._head = head
        """The end of the log when the reader returned, and of its backlog."""
        self._on_overflow = on_overflow
        self._ahead = list(skipped)
        """Pending ranges, in order."""
        self._passed: list[SkippedRange] = []
        """Skipped ranges, whose marks may still be pending."""
        self._counted = not limit.events_max

    def left(self, settled: int) -> tuple[SkippedRange, ...]:
        """Return the ranges beyond a position."""
        return tuple(item for item in (*self._passed, *self._ahead) if settled < item.last)

    async def count(self, reader: Waiting) -> None:
        """Count the backlog, once, for all filters that need it now.

        The excess is skipped, or the owner is notified and closes the reader.
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
        if found is None or lost:  # a RESET reports trimmed events
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
        """Add a range, merging ranges that it touches."""
        apart = [item for item in self._ahead if item.last <= new.after or new.last <= item.after]
        within = [item for item in self._ahead if item not in apart]
        count = new.count + sum(item.count for item in within)
        expired = new.expired + sum(item.expired for item in within)
        wider = replace(new, count=count, expired=expired)
        self._ahead = sorted((*apart, wider), key=lambda item: item.after)

    @property
    def skips(self) -> bool:
        """Whether a range is pending."""
        return bool(self._ahead)

    def next(self, position: int) -> SkippedRange | None:
        """Return the next range if a reader at the position has reached it."""
        return self._ahead[0] if self._ahead and position >= self._ahead[0].after else None

    def before_next(self, page: Sequence[Event]) -> Sequence[Event]:
        """Return the part of a page of the log before the next skipped range."""
        if not self._ahead or not page or page[-1].seq <= self._ahead[0].after:
            return page
        return [event for event in page if event.seq <= self._ahead[0].after]

    def skip(self, position: int) -> SkippedRange:
        """Mark the next range as skipped, and return it."""
        skipped = self._ahead.pop(0)
        self._passed = [*(item for item in self._passed if position < item.last), skipped]
        return skipped
