"""The backlog of a bridge: undelivered events of the log, and their caps (H24, H39).

The log is the outbox, so the backlog is counted without reading it: events offered by the bus are
counted, in blocks of a hundredth of the cap, and counted down when they are read. After a restart
the log is read once for that. Excess events are marked here, and skipped in their turn: by default
the oldest unread ones; by ``drop-newest``, incoming ones while it is full; by ``conflate``, all but
the newest of each topic, and only then the oldest. Events that are too old are always dropped. By
``refuse`` none is dropped: writers get BUSY, see ``full``.

It does no I/O and knows no clock: time is an argument, in seconds.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rowcast.core.clock import seconds_of
from rowcast.core.gateway_limits import (
    GATEWAY_BLOCK_EVENTS,
    GATEWAY_BLOCKS,
    GATEWAY_FORESEEN_SECONDS_MAX,
    GATEWAY_HOLES_MAX,
)


class Policy(StrEnum):
    """The policy for a full backlog."""

    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    CONFLATE = "conflate"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of a backlog; 0: none."""

    events: int = 0
    size_bytes: int = 0
    age_seconds: int = 0
    policy: Policy = Policy.DROP_OLDEST

    @property
    def some(self) -> bool:
        """Whether there is any."""
        return bool(self.events or self.size_bytes or self.age_seconds)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The counted properties of an event: number, version, bytes, and conflation key."""

    seq: int
    version: int
    size_bytes: int
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """Events read and not delivered, which count, too."""

    events: int = 0
    size_bytes: int = 0
    oldest: float | None = None
    """When the oldest was written, if known."""


NOTHING = Held()


@dataclass(slots=True)
class Block:
    """A block of consecutive waiting events."""

    first: int
    last: int
    written: float
    """When the first was written."""
    events: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Dropped:
    """Dropped events not reported yet: their number and range."""

    first: int
    last: int
    events: int
    why: str


@dataclass(slots=True)
class Backlog:
    """The unread events of one bridge."""

    caps: Caps = field(default_factory=Caps)
    events: int = 0
    size_bytes: int = 0
    floor: int = 0
    """The number up to which all unread events were dropped."""
    holes: deque[tuple[int, int]] = field(default_factory=deque)
    """First and last numbers of ranges dropped after waiting events."""
    dropped: int = 0
    unreported: Dropped | None = None
    conflated: int = 0
    """The number up to which only the newest of each topic is read."""
    _growths: dict[str, float] = field(default_factory=dict)
    """The recent growth per second of each cap's measure."""
    _before: dict[str, float] = field(default_factory=dict)
    _blocks: deque[Block] = field(default_factory=deque)
    _open: bool = False
    """Whether the newest event was dropped, so that the next one extends the range."""
    counted: bool = True
    """Whether events from before the start have been counted."""
    _newest: dict[str, Waiting] = field(default_factory=dict)
    """With conflation, the newest waiting event of each topic, by number."""
    _kept: set[int] = field(default_factory=set)
    """Numbers still to read up to ``conflated``."""

    # -- in ----------------------------------------------------------------------------------------

    def add(self, event: Waiting, held: Held = NOTHING) -> None:
        """Count an event that was written."""
        policy = self.caps.policy
        full = self._full(held, event.size_bytes) if policy is not Policy.REFUSE else ""
        if full and policy is Policy.DROP_NEWEST and self._may_hole():
            first = self.holes.pop()[0] if self._open else event.seq
            self.holes.append((first, event.seq))
            self._open = True
            self._drop(event.seq, event.seq, 1, full)
            return
        self._open = False
        self._count(event)
        if full and (policy is Policy.DROP_OLDEST or self.counted):
            self._shrink(held)

    def full(self, held: Held, size_bytes: int, now: float) -> str:
        """Return the cap that another event of this size would exceed, if any; for ``refuse``."""
        oldest, age = self.oldest(held), self.caps.age_seconds
        if age and oldest is not None and oldest <= now - age:
            return "outbox_max_age_seconds"
        return self._full(held, size_bytes)

    def _full(self, held: Held, size_bytes: int, more: int = 1) -> str:
        """Return the cap that would be exceeded, if any."""
        caps = self.caps
        if caps.events and self.events + held.events + more > caps.events:
            return "outbox_max_events"
        if caps.size_bytes and self.size_bytes + held.size_bytes + size_bytes > caps.size_bytes:
            return "outbox_max_bytes"
        return ""

    def _may_hole(self) -> bool:
        return self._open or len(self.holes) < GATEWAY_HOLES_MAX

    def _count(self, event: Waiting) -> None:
        block, written = self._blocks[-1] if self._blocks else None, seconds_of(event.version)
        if block is None or self._ends(block, written):
            block = Block(event.seq, event.seq, written)
            self._blocks.append(block)
        block.last = event.seq
        block.events += 1
        block.size_bytes += event.size_bytes
        self.events += 1
        self.size_bytes += event.size_bytes
        if self.caps.policy is Policy.CONFLATE:
            self._newest.pop(event.topic, None)
            self._newest[event.topic] = event

    def _ends(self, block: Block, written: float) -> bool:
        """Whether a block is full; events are dropped in blocks."""
        caps, age = self.caps, written - block.written
        most = caps.events // GATEWAY_BLOCKS if caps.events else GATEWAY_BLOCK_EVENTS
        return (
            block.events >= most
            or bool(caps.size_bytes and block.size_bytes >= caps.size_bytes // GATEWAY_BLOCKS)
            or bool(caps.age_seconds and age >= caps.age_seconds / GATEWAY_BLOCKS)
        )

    def _conflate(self, held: Held, why: str) -> None:
        """Keep the newest of each topic, and of these the newest, leaving a hundredth free."""
        caps, share = self.caps, 1 - 1 / GATEWAY_BLOCKS
        first, last, before = self._blocks[0].first, self._blocks[-1].last, self.events
        kept = deque(self._newest.values())
        events = held.events + len(kept)
        size = held.size_bytes + sum(item.size_bytes for item in kept)
        while len(kept) > 1 and (
            (caps.events and events > caps.events * share)
            or (caps.size_bytes and size > caps.size_bytes * share)
        ):
            item = kept.popleft()
            events, size, self.floor = events - 1, size - item.size_bytes, item.seq
        self.events = self.size_bytes = 0
        self._blocks, self._newest = deque(), {}
        for item in kept:
            self._count(item)
        self._kept, self.conflated = {item.seq for item in kept}, last
        self._drop(first, last, before - self.events, why)

    def recount(self, events: Iterable[Waiting], held: Held = NOTHING) -> None:
        """Prepend events from before a restart."""
        blocks, self._blocks = self._blocks, deque()
        newest, self._newest = self._newest, {}
        early: dict[str, Waiting] = {}
        later: list[Waiting] = []
        for event in events:
            if event.seq > max(self.conflated, self.floor):
                later.append(event)
            elif event.seq > self.floor:
                early.pop(event.topic, None)
                early[event.topic] = event
        self._kept = {event.seq for event in early.values()}
        for event in (*early.values(), *later):
            if not self.passes_over(event.seq):
                self._count(event)
        self._blocks.extend(blocks)
        for topic, event in newest.items():
            self._newest.pop(topic, None)
            self._newest[topic] = event
        self.counted = True
        self._shrink(held)

    def _shrink(self, held: Held) -> None:
        """Drop excess events from before a restart."""
        policy, full = self.caps.policy, self._full(held, 0, more=0)
        if full and policy is Policy.CONFLATE and self._blocks:
            self._conflate(held, full)
        while full and policy is Policy.DROP_OLDEST and len(self._blocks) > 1:
            self._drop_oldest(full)
            full = self._full(held, 0, more=0)

    # -- out ---------------------------------------------------------------------------------------

    def passes_over(self, seq: int) -> bool:
        """Whether an event was dropped; called in the order of the log."""
        if 0 < seq <= self.floor or (seq <= self.conflated and seq not in self._kept):
            return True
        while self.holes and self.holes[0][1] < seq:
            if len(self.holes) == 1:
                self._open = False
            self.holes.popleft()
        return bool(self.holes) and self.holes[0][0] <= seq

    def taken(self, event: Waiting) -> None:
        """Count down an event that is read."""
        self.passed(event.seq - 1)
        block = self._blocks[0] if self._blocks else None
        if block is not None and block.first <= event.seq:
            block.first, block.written = event.seq + 1, seconds_of(event.version)
            block.events -= 1
            block.size_bytes -= event.size_bytes
            self.events -= 1
            self.size_bytes -= event.size_bytes

    def passed(self, upto: int) -> None:
        """Remove entries before a position."""
        while self._blocks and self._blocks[0].last <= upto:
            self._end(self._blocks.popleft())
        self._pass(upto)

    def _pass(self, upto: int) -> None:
        """Remove conflation entries up to a position."""
        while self._newest and (first := next(iter(self._newest.values()))).seq <= upto:
            del self._newest[first.topic]
        if 0 < self.conflated <= upto:
            self.conflated, self._kept = 0, set()

    def _end(self, block: Block) -> None:
        self.events -= block.events
        self.size_bytes -= block.size_bytes

    def expire(self, now: float) -> None:
        """Drop events that are too old."""
        age = self.caps.age_seconds if self.caps.policy is not Policy.REFUSE else 0
        while age and self._blocks and self._blocks[0].written <= now - age:
            self._drop_oldest("outbox_max_age_seconds")

    def _drop_oldest(self, why: str) -> None:
        block = self._blocks.popleft()
        self._end(block)
        self.floor = max(self.floor, block.last)
        self._pass(self.floor)
        self._drop(block.first, block.last, block.events, why)

    def _drop(self, first: int, last: int, events: int, why: str) -> None:
        self.dropped += events
        unreported = self.unreported
        if unreported is None:
            self.unreported = Dropped(first, last, events, why)
        else:
            unreported.first, unreported.last = (
                min(first, unreported.first),
                max(last, unreported.last),
            )
            unreported.events += events
            unreported.why = why

    # -- status ------------------------------------------------------------------------------------

    def oldest(self, held: Held = NOTHING) -> float | None:
        """Return when the oldest undelivered event was written."""
        if held.oldest is not None:
            return held.oldest
        return self._blocks[0].written if self._blocks and self.events else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The first and the last waiting number."""
        return (self._blocks[0].first, self._blocks[-1].last) if self._blocks else ()

    def take_dropped(self) -> Dropped | None:
        """Return the events dropped since the last call."""
        unreported, self.unreported = self.unreported, None
        return unreported

    def look(self, held: Held, seconds: float, now: float) -> None:
        """Sample the backlog, ``seconds`` after the last sample."""
        for cap, (_, value) in self._measures(held, now).items():
            grown = (value - self._before.get(cap, 0.0)) / seconds
            self._growths[cap] = self._growths.get(cap, 0.0) * 0.8 + grown * 0.2
            self._before[cap] = value

    @property
    def growth(self) -> float:
        """The recent growth in events per second."""
        return self._growths.get("events", 0.0)

    def _measures(self, held: Held, now: float) -> dict[str, tuple[int, float]]:
        """Return, for each cap, its value and the current measure."""
        caps, oldest = self.caps, self.oldest(held)
        return {
            "events": (caps.events, self.events + held.events),
            "bytes": (caps.size_bytes, self.size_bytes + held.size_bytes),
            "age": (caps.age_seconds, 0.0 if oldest is None else max(0.0, now - oldest)),
        }

    def full_in_seconds(self, held: Held, now: float) -> float | None:
        """Return when a cap will be reached at the current growth; None if never."""
        left = [
            max(0.0, most - value) / growth
            for cap, (most, value) in self._measures(held, now).items()
            if most and (growth := self._growths.get(cap, 0.0)) > 0
        ]
        soonest = min(left, default=GATEWAY_FORESEEN_SECONDS_MAX)
        return round(soonest, 1) if soonest < GATEWAY_FORESEEN_SECONDS_MAX else None
