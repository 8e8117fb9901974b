"""Events for which all calls of a trigger failed: facts, until somebody has them called again.

The event itself is in the log, so its position is kept, and the reason.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from rowcast.codecs import CBOR, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.trigger_limits import TRIGGER_DEAD_MAX
from rowcast.routes.system_rows import time_text
from rowcast.seams.seams import Facts
from rowcast.store.store import Change

OWNER: Final = "trigger/dead"


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """An event by its position, and why its calls failed."""

    trigger: str
    seq: int
    topic: str
    attempts: int
    problem: str
    at: float
    """When it was given up, in seconds since 1970."""

    @property
    def id(self) -> str:
        """The name of its row: of an unlogged event, by its time in milliseconds."""
        return dead_id(self.trigger, self.seq or int(self.at * 1000))

    @property
    def change(self) -> Change:
        """The fact of it."""
        facts = [self.trigger, self.seq, self.topic, self.attempts, self.problem, self.at]
        return Change(OWNER, self.id, encode(facts, CBOR))

    def row(self, cursor: Callable[[int], str]) -> dict[str, object]:
        """Return its row; ``cursor`` turns a position into text."""
        return {
            "id": self.id,
            "trigger": self.trigger,
            "topic": self.topic,
            "seq": cursor(self.seq) if self.seq else None,
            "attempts": self.attempts,
            "problem": self.problem,
            "at": time_text(self.at),
        }


class DeadEvents:
    """The newest ones of a server."""

    def __init__(
        self, keep: Callable[[tuple[Change, ...]], object], most: int = TRIGGER_DEAD_MAX
    ) -> None:
        """``keep`` stores changes of facts."""
        self._keep = keep
        self._most = most
        self._events: dict[str, DeadEvent] = {}
        self.dropped = 0
        """Those that made room for others."""
        self.changed: Callable[[str], object] = lambda _name: None

    def restore(self, facts: Facts) -> None:
        """Restore what is stored."""
        for owner, _, value in facts:
            if owner == OWNER:
                facts_of = cast("tuple[str, int, str, int, str, float]", decode(value, CBOR))
                found = DeadEvent(*facts_of)
                self._events[found.id] = found
        self._events = dict(sorted(self._events.items(), key=lambda item: item[1].at))

    def add(self, event: DeadEvent) -> None:
        """Keep one; the oldest makes room."""
        if len(self._events) >= self._most and event.id not in self._events:
            self.dropped += 1
            self.discard(next(iter(self._events)))
        self._events[event.id] = event
        self._keep((event.change,))
        self.changed(event.id)

    def get(self, name: str) -> DeadEvent | None:
        """Return one."""
        return self._events.get(name)

    def discard(self, name: str) -> DeadEvent:
        """Forget one; raises NOT_FOUND."""
        found = self._events.pop(name, None)
        if found is None:
            raise Error(Code.NOT_FOUND, f"there is no failed event {name!r}")
        self._keep((Change(OWNER, name, None),))
        self.changed(name)
        return found

    def names(self) -> list[str]:
        """Return the names of all, the oldest first."""
        return list(self._events)

    def of(self, trigger: str) -> int:
        """Return how many there are of a trigger."""
        return sum(event.trigger == trigger for event in self._events.values())

    def __iter__(self) -> Iterator[DeadEvent]:
        return iter(self._events.values())

    def __len__(self) -> int:
        return len(self._events)


def dead_id(trigger: str, number: int) -> str:
    """Return the name of the row of an event at a position."""
    return f"{trigger}-{number}"
