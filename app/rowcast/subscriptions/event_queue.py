"""The queue of one live cursor: the newest events in memory, bounded in number and payload bytes.

It is only a cache of the log's head. When it is full, a logged event is refused, because it can be
read from the log; an unlogged one is lost, and counted by a Gap in its place in the queue.
"""

from collections.abc import Callable, Sequence

from rowcast.core.events import Event
from rowcast.core.limits import SUBSCRIPTION_QUEUE_BYTES_MAX, SUBSCRIPTION_QUEUE_EVENTS_MAX
from rowcast.subscriptions.addressed import Addressed, Replayed
from rowcast.subscriptions.gaps import Gap, GapCause, LossCounter, mark_for
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters


class EventQueue:
    """Pending events and gaps of a reader, oldest first."""

    __slots__ = ("_ceiling", "bytes", "bytes_max", "events", "events_max")

    def __init__(self, events_max: int = 0, bytes_max: int = 0, ceiling: int = 0) -> None:
        """Make an empty queue; see ``limit`` for the limits.

        ``ceiling`` bounds the events whatever ``limit`` is set to; 0: unbounded.
        """
        self.events: list[Event] = []
        self.bytes = 0
        """Payload bytes of queued events."""
        self._ceiling = ceiling
        self.limit(events_max, bytes_max)

    def limit(self, events_max: int, bytes_max: int) -> None:
        """Change the limits; 0 is the default. Excess events stay until ``shed``."""
        most = events_max or self._ceiling or SUBSCRIPTION_QUEUE_EVENTS_MAX
        self.events_max = min(most, self._ceiling or most)
        self.bytes_max = bytes_max or SUBSCRIPTION_QUEUE_BYTES_MAX

    def close(self) -> None:
        """Drop all events, and take no more."""
        self.events.clear()
        self.bytes = self.events_max = 0

    @property
    def full(self) -> bool:
        """Whether the queue is full."""
        return len(self.events) >= self.events_max or self.bytes >= self.bytes_max

    @property
    def fits(self) -> bool:
        """Whether the queue is within the limits."""
        events = self.events
        return not events or (len(events) <= self.events_max and self.bytes <= self.bytes_max)

    @property
    def has_logged(self) -> bool:
        """Whether any queued event is logged."""
        return any(event.seq for event in self.events)

    def extend(self, events: Sequence[Event], size: int) -> bool:
        """Add events with ``size`` bytes of payload, if there is room for all of them."""
        if len(self.events) + len(events) > self.events_max or self.bytes + size > self.bytes_max:
            return False
        self.events.extend(events)
        self.bytes += size
        return True

    def clear(self) -> None:
        """Remove all events."""
        self.events.clear()
        self.bytes = 0

    def keep(self, wanted: Callable[[Event], object]) -> None:
        """Remove events that are not ``wanted``."""
        self.events = [event for event in self.events if wanted(event)]
        self.bytes = sum(len(event.payload) for event in self.events)

    def keep_unlogged(self) -> None:
        """Remove logged events, which can be read from the log."""
        self.keep(lambda event: not event.seq)

    def discard(self, removed: SubscribedFilter, filters: SubscribedFilters) -> None:
        """Remove events that only a removed filter matches."""
        text, left, plain = removed.topics.text, list[Event](), removed.is_plain
        for event in self.events:
            if not isinstance(event, Addressed):  # most are not the filter's, and stay
                topic = event.topic
                other = plain and not removed.topics.matches(topic)
                stays = other or bool(filters.matching(topic))
            elif event.interest is None:
                stays = len(filters) > 0
            else:
                event.interest = filters.without(event.interest, text)
                stays = event.interest is not None
            if stays:
                left.append(event)
        if len(left) < len(self.events):
            self.events = left
            self.bytes = sum([len(event.payload) for event in left])

    def replace(
        self, old: SubscribedFilter, new: SubscribedFilter, filters: SubscribedFilters
    ) -> None:
        """Reassign the gaps of a filter to its replacement."""
        for event in self.events:
            if isinstance(event, Addressed):
                event.interest = filters.renewed(event.interest, old, new)

    def count_lost(self, interest: SubscribedFilter | None) -> None:
        """Count, at the end of the queue, a lost unlogged event."""
        gap = mark_for(reversed(self.events), interest)
        if gap is None:
            gap = Gap(GapCause.SLOW, 0, interest)
            self.events.append(gap)
        gap.count = (gap.count or 0) + 1

    def unreported(self, counts: Callable[[Event], bool], losses: LossCounter) -> list[Gap]:
        """Return its gaps, and one of unlogged events that count as lost if it is dropped now."""
        gaps = [event for event in self.events if isinstance(event, Gap)]
        rest = (event for event in self.events if not isinstance(event, Addressed))
        if lost := sum(not event.seq and counts(event) for event in rest):
            losses.add(GapCause.AWAY, lost)
            gaps.append(Gap(GapCause.AWAY, lost))
        return gaps

    def shed(self, counts: Callable[[Event], bool]) -> int:
        """Drop events, oldest first, until the rest fits; return how many count as lost.

        ``counts`` decides which count. Gaps at the front of the queue report them, and include the
        counts of dropped gaps. Logged events are dropped, too, and not counted.
        """
        self.keep_unlogged()
        replayed = [event for event in self.events if isinstance(event, Replayed)]
        if replayed:  # a replay has a bound of its own, and waits for its reader
            self.events = [event for event in self.events if not isinstance(event, Replayed)]
        lost: dict[SubscribedFilter | None, int] = {}
        dropped = taken = 0
        size, most = len(self.events), self.events_max
        for event in self.events:
            if size - taken <= most and self.bytes <= self.bytes_max:
                break
            taken += 1
            self.bytes -= len(event.payload)
            if isinstance(event, Gap):
                lost[event.interest] = lost.get(event.interest, 0) + (event.count or 0)
            elif counts(event):
                dropped += 1
                lost[None] = lost.get(None, 0) + 1
        gaps = [Gap(GapCause.SLOW, count, interest) for interest, count in lost.items()]
        self.events[:taken] = reversed(gaps)
        self.events += replayed
        return dropped
