"""An outbox: what a bridge has taken from the log and its broker has not acknowledged.

The log is the outbox on disk and this is its front in memory, with one order for both
(X13, X14): events come in by number, and each stays until it was delivered or buried as a dead
letter. It decides what may be sent now. In strict order a topic has at most one event on the way,
so one that fails holds back its own topic and no other. In relaxed order it holds back nothing.

A failed event is due again after 1, 2, 4 and 8 seconds; the fifth failure is its last (seed 5,
"Poison message guardrails"). When the broker closes the connection, any event that was on the way
may be the cause: the next time only half as many are sent at once, until one is alone with its
fault. It does no I/O and knows no clock: time is an argument, in seconds.
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
    """One event on its way to a broker."""

    seq: int
    """Its number in the log; a negative one of its own when it is not logged."""
    topic: str
    event: Event | None
    """None when it waits behind many others of its topic: it is read again when it is its turn."""
    attempts: int = 0
    error: str = ""
    due: float = 0.0
    """When it may be sent again; 0: at once."""
    again: bool = False
    """Whether it may have been delivered before: its acknowledgement was lost, or the server was
    killed."""
    letter: bool = False
    """Whether it is a dead letter that is sent once more."""
    lane: str = ""
    """What it shares its order with, if not with its topic alone."""
    told: bytes | None = None
    """What a change feed says of it; empty when that is nothing."""
    size_bytes: int = 0
    """Its payload; not known of what is from before a restart until it is read again."""


@dataclass(slots=True)
class Rules:
    """How an outbox treats what fails."""

    attempts_max: int = 5
    flying_max: int = 100
    """Events on the way at once."""
    held_max: int = 500
    """Events in memory."""
    strict: bool = True


@dataclass(slots=True)
class Outbox:
    """What is on the way of one bridge."""

    rules: Rules = field(default_factory=Rules)
    upto: int = 0
    """The number up to which events were taken from the log."""
    items: dict[int, Item] = field(default_factory=dict)
    """All that is not done, by number."""
    flying: dict[int, Item] = field(default_factory=dict)
    _queues: dict[str, deque[Item]] = field(default_factory=dict)
    _ready: deque[Item] = field(default_factory=deque)
    _later: list[tuple[float, int, Item]] = field(default_factory=list)
    _suspects: set[int] = field(default_factory=set)
    _limit: int = 0
    """Events on the way at once while suspects are told apart; 0: as many as the rules say."""
    held: int = 0
    """Events in memory."""
    size_bytes: int = 0
    """Payload of all that is not done."""
    _unlogged: int = 0

    # -- from the log ------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more events it can take."""
        return max(0, min(self.rules.held_max - self.held, GATEWAY_ITEMS_MAX - len(self.items)))

    def take(self, event: Event, *, again: bool = False, lane: str = "") -> None:
        """Take the next event of the log; one that is here already is not taken twice."""
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
        """Take a dead letter once more, behind what waits at its topic; False: it is here."""
        if event.seq in self.items:
            return False
        size = len(event.payload)
        item = Item(event.seq, event.topic, event, again=True, letter=True, lane=lane)
        item.size_bytes = size
        self._add(item)
        return True

    def restore(self, upto: int, items: Iterable[Item]) -> None:
        """Go on after a restart with what was open then; the events are read again."""
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
        """Give an item back its event."""
        if item.event is None and item.seq in self.items:
            item.event = event
            self.held += 1
            self.size_bytes += len(event.payload) - item.size_bytes
            item.size_bytes = len(event.payload)

    # -- to the broker -----------------------------------------------------------------------------

    def send(self) -> Item | None:
        """Return the next item to send, which counts as on the way from now on.

        None when nothing may be sent now. Its ``event`` may have to be read first: ``missing``.
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
        """Whether anything could be sent, if not too much is on the way."""
        return bool(self._ready)

    def missing(self) -> list[Item]:
        """Return the items whose turn is near and whose events must be read again."""
        return [item for item in self.near() if item.event is None]

    def near(self) -> Iterator[Item]:
        """Give the items whose turn is near."""
        self._tidy()
        near = islice(self._ready, self.rules.flying_max)
        return (item for item in near if self.items.get(item.seq) is item)

    def _tidy(self) -> None:
        """Forget what was done before its turn came: nothing of it was sent."""
        ready = self._ready
        while ready and self.items.get(ready[0].seq) is not ready[0]:
            ready.popleft()

    def delivered(self, seq: int) -> Item | None:
        """Note that the broker has an event, or that it was buried; return what it was.

        One that was not sent may be done too, because there is nothing of it to be sent.
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
        """Note that the broker refused an event; return whether that was the last attempt.

        Then it is neither sent nor forgotten until it is buried: ``delivered``.
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
        """Note that the connection is gone; return the numbers of those that failed for good.

        What was on the way is sent again, in its order. With ``blame`` the broker ended it: one
        event that was alone is taken for the cause, several are suspects.
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
        """Make ready what is due again; return when the next is, None when none waits."""
        while self._later and self._later[0][0] <= now:
            _, seq, item = heapq.heappop(self._later)
            if seq in self.items:
                item.due = 0.0
                self._ready.append(item)
        return self._later[0][0] if self._later else None

    # -- to look at --------------------------------------------------------------------------------

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
        """What of it counts for a cap, without when the oldest was written."""
        return Held(len(self.items), self.size_bytes)

    @property
    def retrying(self) -> int:
        """How many events have failed and wait for their next attempt."""
        return sum(item.due > 0 for item in self.items.values())


def backoff_seconds(attempts: int) -> float:
    """Return how long to wait after so many failures: 1, 2, 4, 8, and never longer than a bound."""
    return min(2.0 ** (attempts - 1), GATEWAY_BACKOFF_SECONDS_MAX)
