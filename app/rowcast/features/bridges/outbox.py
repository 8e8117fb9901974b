"""An outbox: events that a bridge has read and its broker has not acknowledged.

The log is the outbox on disk and this is its front in memory, in the same order (X13, X14): events
are added by number, and each stays until it is delivered or written as a dead letter. It decides
which may be sent now. In strict order a topic has at most one event in flight, so a failure blocks
only its own topic. In relaxed order it blocks nothing.

A failed event is retried after 1, 2, 4 and 8 seconds; the fifth failure is final (seed 5, "Poison
message guardrails"). When the broker closes the connection, any event in flight may be the cause:
the next time only half as many are in flight, until the cause is isolated. It does no I/O and knows
no clock: time is an argument, in seconds.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from rowcast.core.events import Event
from rowcast.core.gateway_limits import (
    GATEWAY_BACKOFF_SECONDS_MAX,
    GATEWAY_ITEMS_MAX,
    GATEWAY_TOPIC_EVENTS_HELD_MAX,
)
from rowcast.features.bridges.backlog import Held


@dataclass(slots=True, eq=False)
class Item:
    """One event for a broker."""

    seq: int
    """Its number in the log; a negative one when it is not logged."""
    topic: str
    event: Event | None
    """None when it waits behind many others of its topic; it is read again in its turn."""
    attempts: int = 0
    error: str = ""
    due: float = 0.0
    """When it may be retried; 0: at once."""
    again: bool = False
    """Whether it may be a duplicate: its acknowledgement was lost, or the server was killed."""
    letter: bool = False
    """Whether it is a replayed dead letter."""
    lane: str = ""
    """Its ordering key, if not its topic."""
    document: bytes | None = None
    """Its message in a change feed; empty for none."""
    size_bytes: int = 0
    """Its payload size; unknown after a restart until it is read."""


@dataclass(slots=True)
class Rules:
    """Retry rules of an outbox."""

    attempts_max: int = 5
    flying_max: int = 100
    """Maximum events in flight."""
    held_max: int = 500
    """Maximum events in memory."""
    strict: bool = True


@dataclass(slots=True)
class Outbox:
    """The outbox of one bridge."""

    rules: Rules = field(default_factory=Rules)
    upto: int = 0
    """The number up to which events were read."""
    items: dict[int, Item] = field(default_factory=dict)
    """Undone items, by number."""
    flying: dict[int, Item] = field(default_factory=dict)
    _queues: dict[str, deque[Item]] = field(default_factory=dict)
    _ready: deque[Item] = field(default_factory=deque)
    _later: list[tuple[float, int, Item]] = field(default_factory=list)
    _suspects: set[int] = field(default_factory=set)
    _limit: int = 0
    """Maximum in flight while a cause is being isolated; 0: that of the rules."""
    held: int = 0
    """Events in memory."""
    size_bytes: int = 0
    """Payload bytes of undone items."""
    _unlogged: int = 0

    # -- from the log ------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """The free capacity in events."""
        return max(0, min(self.rules.held_max - self.held, GATEWAY_ITEMS_MAX - len(self.items)))

    def take(self, event: Event, *, again: bool = False, lane: str = "") -> None:
        """Add the next event of the log; duplicates are ignored."""
        self.upto = max(self.upto, event.seq)
        if event.seq in self.items:
            return
        self._unlogged -= not event.seq
        queue = self._queues.get(lane or event.topic)
        crowded = queue is not None and len(queue) > GATEWAY_TOPIC_EVENTS_HELD_MAX
        kept = None if crowded and event.seq else event
        seq, size = event.seq or self._unlogged, len(event.payload)
        self._add(Item(seq, event.topic, kept, again=again, lane=lane, size_bytes=size))

    def replay(self, event: Event, lane: str = "") -> bool:
        """Add a dead letter again, after waiting events of its topic; False: already present."""
        if event.seq in self.items:
            return False
        size = len(event.payload)
        item = Item(event.seq, event.topic, event, again=True, letter=True, lane=lane)
        item.size_bytes = size
        self._add(item)
        return True

    def restore(self, upto: int, items: Iterable[Item]) -> None:
        """Restore open items after a restart; their events are read again."""
        self.upto = upto
        for item in items:
            self._add(item)

    def _add(self, item: Item) -> None:
        self.items[item.seq] = item
        self.held += item.event is not None
        self.size_bytes += item.size_bytes
        queue = self._queues.setdefault(item.lane or item.topic, deque())
        queue.append(item)
        if len(queue) == 1 or not self.rules.strict:
            self._ready.append(item)

    def fill(self, item: Item, event: Event) -> None:
        """Set the event of an item."""
        if item.event is None and item.seq in self.items:
            item.event = event
            self.held += 1
            self.size_bytes += len(event.payload) - item.size_bytes
            item.size_bytes = len(event.payload)

    # -- to the broker -----------------------------------------------------------------------------

    def send(self) -> Item | None:
        """Return the next item to send, which counts as in flight from now on.

        None when none may be sent now. Items without an event are in ``missing``.
        """
        self._tidy()
        if not self._ready or len(self.flying) >= (self._limit or self.rules.flying_max):
            return None
        if self._ready[0].event is None:
            return None
        item = self._ready.popleft()
        self.flying[item.seq] = item
        return item

    @property
    def ready(self) -> bool:
        """Whether an item is ready, apart from the limit in flight."""
        return bool(self._ready)

    def missing(self) -> list[Item]:
        """Return the items whose turn is near and whose events must be read."""
        return [item for item in self.near() if item.event is None]

    def near(self) -> Iterator[Item]:
        """Yield the items whose turn is near."""
        self._tidy()
        near = islice(self._ready, self.rules.flying_max)
        return (item for item in near if self.items.get(item.seq) is item)

    def _tidy(self) -> None:
        """Remove items that were done before their turn."""
        ready = self._ready
        while ready and self.items.get(ready[0].seq) is not ready[0]:
            ready.popleft()

    def delivered(self, seq: int) -> Item | None:
        """Mark an item as delivered or dead-lettered; return it.

        An unsent item may be done, too, if there is nothing to send.
        """
        item = self.items.pop(seq, None)
        if item is None:
            return None
        self.flying.pop(seq, None)
        self.held -= item.event is not None
        self.size_bytes -= item.size_bytes
        self._suspects.discard(seq)
        if not self._suspects:
            self._limit = 0
        lane = item.lane or item.topic
        queue = self._queues[lane]
        first = queue[0] is item
        queue.remove(item)
        if not queue:
            del self._queues[lane]
        elif first and self.rules.strict:
            self._ready.append(queue[0])
        return item

    def failed(self, seq: int, error: str, now: float) -> bool:
        """Record a refusal by the broker; return whether that was the last attempt.

        Then it is kept, unsent, until its dead letter is written: ``delivered``.
        """
        item = self.items.get(seq)
        if item is None:
            return False
        self.flying.pop(seq, None)
        item.attempts += 1
        item.error = error
        if item.attempts >= self.rules.attempts_max:
            return True
        item.due = now + backoff_seconds(item.attempts)
        heapq.heappush(self._later, (item.due, seq, item))
        return False

    def lost(self, error: str, now: float, *, blame: bool = True) -> list[int]:
        """Record a lost connection; return the numbers that failed for good.

        Items in flight are sent again, in order. With ``blame`` the broker closed it: a single
        event in flight is the cause, several are suspects.
        """
        flying = sorted(self.flying)
        for item in self.flying.values():
            item.again = True
        if blame and len(flying) == 1:
            self._suspects.add(flying[0])
            return flying if self.failed(flying[0], error, now) else []
        if flying:
            if blame:
                self._suspects = set(flying)
                self._limit = max(1, len(flying) // 2)
            self._ready.extendleft(self.flying[seq] for seq in reversed(flying))
            self.flying.clear()
        return []

    def wake(self, now: float) -> float | None:
        """Make due retries ready; return the time of the next one, None if there is none."""
        while self._later and self._later[0][0] <= now:
            _, seq, item = heapq.heappop(self._later)
            if seq in self.items:
                item.due = 0.0
                self._ready.append(item)
        return self._later[0][0] if self._later else None

    # -- status ------------------------------------------------------------------------------------

    @property
    def place(self) -> int:
        """The number up to which everything is done."""
        return min((seq for seq in self.items if seq > 0), default=self.upto + 1) - 1

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self.items.values()))

    @property
    def waits(self) -> Held:
        """Its counts for caps, without the time of the oldest."""
        return Held(len(self.items), self.size_bytes)

    @property
    def retrying(self) -> int:
        """The number of failed events waiting for a retry."""
        return sum(item.due > 0 for item in self.items.values())


def backoff_seconds(attempts: int) -> float:
    """Return the delay after so many failures: 1, 2, 4, 8, up to a bound."""
    return min(2.0 ** (attempts - 1), GATEWAY_BACKOFF_SECONDS_MAX)
