"""A backlog: how much of the log waits for a bridge, and what is too much (FEATURES H24, H39).

The log is the outbox, so it must be known how much of it waits without reading it: what the bus
offers is counted, in blocks of a hundredth of what may wait, and counted down as it is taken. After
a restart the log is read for it once. What is too much is marked here, and passed over when its
turn comes: the oldest that was not taken yet, or, by ``drop-newest``, what comes while it is full.
What is too old goes in either case.

It does no I/O and knows no clock: time is an argument, in seconds.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from app.core.clock import seconds_of
from app.core.gateway_limits import GATEWAY_BLOCK_EVENTS, GATEWAY_BLOCKS, GATEWAY_HOLES_MAX


class Policy(StrEnum):
    """What goes when too much waits."""

    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"


@dataclass(frozen=True, slots=True)
class Caps:
    """How much may wait; 0: no bound."""

    events: int = 0
    size_bytes: int = 0
    age_seconds: int = 0
    policy: Policy = Policy.DROP_OLDEST


@dataclass(frozen=True, slots=True)
class Waiting:
    """What counts of an event: its number, its version and its bytes."""

    seq: int
    version: int
    size_bytes: int


@dataclass(slots=True)
class Block:
    """Some events that wait, one after the other."""

    first: int
    last: int
    written: float
    """When the first was written."""
    events: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Dropped:
    """Events that were dropped and not told of yet: how many, and between which numbers."""

    first: int
    last: int
    events: int
    why: str


@dataclass(slots=True)
class Backlog:
    """What waits for one bridge and was not taken."""

    caps: Caps = field(default_factory=Caps)
    events: int = 0
    size_bytes: int = 0
    floor: int = 0
    """The number up to which nothing more is taken: it was dropped."""
    holes: deque[tuple[int, int]] = field(default_factory=deque)
    """First and last number of what was dropped behind something that waits."""
    dropped: int = 0
    untold: Dropped | None = None
    growth: float = 0.0
    """Events a second by which it grew lately."""
    _blocks: deque[Block] = field(default_factory=deque)
    _open: bool = False
    """Whether the newest event was dropped, so that the next belongs to the same hole."""
    _before: int = 0

    # -- in ----------------------------------------------------------------------------------------

    def add(self, event: Waiting, held: int) -> None:
        """Count an event that was written; ``held``: how many are taken and not delivered."""
        full = self._full(held, event.size_bytes)
        if full and self.caps.policy is Policy.DROP_NEWEST and self._may_hole():
            first = self.holes.pop()[0] if self._open else event.seq
            self.holes.append((first, event.seq))
            self._open = True
            self._drop(event.seq, event.seq, 1, full)
            return
        self._open = False
        self._count(event)
        while full and self.caps.policy is Policy.DROP_OLDEST and len(self._blocks) > 1:
            self._drop_oldest(full)
            full = self._full(held, 0, more=0)

    def _full(self, held: int, size_bytes: int, more: int = 1) -> str:
        """Return the cap that does not allow so much more, if any."""
        caps = self.caps
        if caps.events and self.events + held + more > caps.events:
            return "outbox_max_events"
        if caps.size_bytes and self.size_bytes + size_bytes > caps.size_bytes:
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

    def _ends(self, block: Block, written: float) -> bool:
        """Tell whether a block is as large as one may be: what goes at once is one block."""
        caps, age = self.caps, written - block.written
        most = caps.events // GATEWAY_BLOCKS if caps.events else GATEWAY_BLOCK_EVENTS
        return (
            block.events >= most
            or bool(caps.size_bytes and block.size_bytes >= caps.size_bytes // GATEWAY_BLOCKS)
            or bool(caps.age_seconds and age >= caps.age_seconds / GATEWAY_BLOCKS)
        )

    def recount(self, events: Iterable[Waiting], held: int) -> None:
        """Put what was in the log before a restart before what came since."""
        since, self._blocks = self._blocks, deque()
        for event in events:
            if not self.passes_over(event.seq):
                self._count(event)
        self._blocks.extend(since)
        while self.caps.policy is Policy.DROP_OLDEST and len(self._blocks) > 1:
            if not (full := self._full(held, 0, more=0)):
                break
            self._drop_oldest(full)

    # -- out ---------------------------------------------------------------------------------------

    def passes_over(self, seq: int) -> bool:
        """Tell whether an event was dropped; asked in the order of the log."""
        if 0 < seq <= self.floor:
            return True
        while self.holes and self.holes[0][1] < seq:
            if len(self.holes) == 1:
                self._open = False
            self.holes.popleft()
        return bool(self.holes) and self.holes[0][0] <= seq

    def taken(self, event: Waiting) -> None:
        """Count an event down that is taken."""
        self.passed(event.seq - 1)
        block = self._blocks[0] if self._blocks else None
        if block is not None and block.first <= event.seq:
            block.first, block.written = event.seq + 1, seconds_of(event.version)
            block.events -= 1
            block.size_bytes -= event.size_bytes
            self.events -= 1
            self.size_bytes -= event.size_bytes

    def passed(self, upto: int) -> None:
        """Forget what is before a place."""
        while self._blocks and self._blocks[0].last <= upto:
            self._end(self._blocks.popleft())

    def _end(self, block: Block) -> None:
        self.events -= block.events
        self.size_bytes -= block.size_bytes

    def expire(self, now: float) -> None:
        """Drop what has waited for too long."""
        age = self.caps.age_seconds
        while age and self._blocks and self._blocks[0].written <= now - age:
            self._drop_oldest("outbox_max_age_seconds")

    def _drop_oldest(self, why: str) -> None:
        block = self._blocks.popleft()
        self._end(block)
        self.floor = max(self.floor, block.last)
        self._drop(block.first, block.last, block.events, why)

    def _drop(self, first: int, last: int, events: int, why: str) -> None:
        self.dropped += events
        untold = self.untold
        if untold is None:
            self.untold = Dropped(first, last, events, why)
        else:
            untold.first, untold.last = min(first, untold.first), max(last, untold.last)
            untold.events += events
            untold.why = why

    # -- to look at --------------------------------------------------------------------------------

    @property
    def oldest(self) -> float | None:
        """When the oldest was written."""
        return self._blocks[0].written if self._blocks and self.events else None

    def tell(self) -> Dropped | None:
        """Return what was dropped since this was last asked."""
        untold, self.untold = self.untold, None
        return untold

    def look(self, held: int, seconds: float) -> None:
        """Note how much waits, ``seconds`` after the last look."""
        waiting = self.events + held
        self.growth = self.growth * 0.8 + (waiting - self._before) / seconds * 0.2
        self._before = waiting

    def full_in_seconds(self, held: int) -> float | None:
        """Return when the cap is reached if it grows on like this; None when it does not."""
        if not self.caps.events or self.growth <= 0:
            return None
        return round(max(0, self.caps.events - self.events - held) / self.growth, 1)
