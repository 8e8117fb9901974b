"""The queue of one live cursor: the newest events in memory, bounded in number and payload bytes.

It is only a cache of the log's head. A logged event that has no room is refused, because it can be
read from the log; one that is not logged is lost, and a Gap at its place in the queue counts it.
"""

from collections import deque
from collections.abc import Callable

from rowcast.core.events import Event
from rowcast.core.limits import SUBSCRIPTION_QUEUE_BYTES_MAX, SUBSCRIPTION_QUEUE_EVENTS_MAX
from rowcast.subscriptions.gaps import Gap, GapCause, mark_for
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters


class EventQueue:
    """Events and gaps that wait for a reader, oldest first."""

    __slots__ = ("_ceiling", "bytes", "bytes_max", "events", "events_max")

    def __init__(self, events_max: int = 0, bytes_max: int = 0, ceiling: int = 0) -> None:
        """Make an empty queue; see ``limit`` for the limits.

        ``ceiling`` is the most events that ever wait, whatever ``limit`` says; 0 is any number.
        """
        self.events: deque[Event] = deque()
        self.bytes = 0
        """Payload bytes of what waits."""
        self._ceiling = ceiling
        self.limit(events_max, bytes_max)

    def limit(self, events_max: int, bytes_max: int) -> None:
        """Change how much may wait; 0 is the default. What is too much stays until ``shed``."""
        most = events_max or self._ceiling or SUBSCRIPTION_QUEUE_EVENTS_MAX
        self.events_max = min(most, self._ceiling or most)
        self.bytes_max = bytes_max or SUBSCRIPTION_QUEUE_BYTES_MAX

    @property
    def full(self) -> bool:
        """Whether the next event has no room."""
        return len(self.events) >= self.events_max or self.bytes >= self.bytes_max

    @property
    def fits(self) -> bool:
        """Whether what waits is within the limits."""
        events = self.events
        return not events or (len(events) <= self.events_max and self.bytes <= self.bytes_max)

    @property
    def has_logged(self) -> bool:
        """Whether any event that waits is logged."""
        return any(event.seq for event in self.events)

    def clear(self) -> None:
        """Forget everything."""
        self.events.clear()
        self.bytes = 0

    def keep(self, wanted: Callable[[Event], object]) -> None:
        """Forget what is not wanted."""
        self.events = deque(filter(wanted, self.events))
        self.bytes = sum(len(event.payload) for event in self.events)

    def keep_unlogged(self) -> None:
        """Forget the logged events: they are read from the log again."""
        self.keep(lambda event: not event.seq)

    def discard(self, text: str, filters: SubscribedFilters) -> None:
        """Forget what is only for the filter ``text``, which is gone."""

        def wanted(event: Event) -> bool:
            if not isinstance(event, Gap):
                return bool(filters.matching(event.topic))
            if event.interest is None:
                return bool(filters)
            event.interest = filters.without(event.interest, text)
            return event.interest is not None

        self.keep(wanted)

    def replace(
        self, old: SubscribedFilter, new: SubscribedFilter, filters: SubscribedFilters
    ) -> None:
        """Have the gaps of one filter be those of another that takes its place."""
        for event in self.events:
            if isinstance(event, Gap):
                event.interest = filters.renewed(event.interest, old, new)

    def count_lost(self, interest: SubscribedFilter | None) -> None:
        """Count, at the end of the queue, an event that was not logged and had no room."""
        gap = mark_for(reversed(self.events), interest)
        if gap is None:
            gap = Gap(GapCause.SLOW, 0, interest)
            self.events.append(gap)
        gap.count = (gap.count or 0) + 1

    def shed(self, counts: Callable[[Event], bool]) -> int:
        """Drop events, oldest first, until the rest fits; return how many the reader was to get.

        ``counts`` tells which those are. Gaps at the front of the queue tell of them, and of those
        that the dropped gaps counted. Logged events must be gone before (``keep_unlogged``).
        """
        lost: dict[SubscribedFilter | None, int] = {}
        dropped = 0
        while not self.fits:
            event = self.events.popleft()
            self.bytes -= len(event.payload)
            if isinstance(event, Gap):
                lost[event.interest] = lost.get(event.interest, 0) + (event.count or 0)
            elif counts(event):
                dropped += 1
                lost[None] = lost.get(None, 0) + 1
        self.events.extendleft(
            Gap(GapCause.SLOW, count, interest) for interest, count in lost.items()
        )
        return dropped
