"""Calls of user code that may be repeated after a kill: the marks of their writes (H32, G23).

A call has a producer's name and a number, and its writes are numbered. In-process clients mark each
write with all three (M8), so a repeated call that makes the same writes in the same order repeats
them without further effect. A write that a trigger caused says so, because such writes may go in a
circle: how many triggers led to it is a user property of the event.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, cast

from rowcast.core.events import Event
from rowcast.core.write_marks import put_mark

DEPTH: Final = "rowcast-trigger-depth"
"""The user property with the number of triggers that led to an event."""
_USER: Final = "user_property"


@dataclass(slots=True)
class MarkedCall:
    """One call, with the number of its writes so far."""

    producer: str
    number: int
    """The greater one is the later call of a producer; 0: a call that is never repeated."""
    depth: int = 0
    """How many triggers led to it, itself too."""
    writes: int = 0

    def end(self) -> None:
        """Have no more writes marked: those of a task that outlives the call.

        A repeated call would not make them in the same order, and a later one has its own numbers.
        """
        self.number = 0


CALL: ContextVar[MarkedCall | None] = ContextVar("rowcast call", default=None)
"""The running call."""


def mark_if_called(event: Event, *others: Event) -> None:
    """Set the marks of a call's write, of a batch of its first event; none outside of a call."""
    call = CALL.get()
    if call is None:
        return
    if call.number:
        call.writes += 1
        put_mark(event, f"{call.producer}:{call.number}:{call.writes}")
    for each in (event, *others) if call.depth else ():
        given = each.properties or {}
        each.properties = {**given, _USER: (*_pairs(given), (DEPTH, str(call.depth)))}


def depth_of(event: Event) -> int:
    """Return how many triggers led to an event; a malformed number counts as none."""
    found = [value for name, value in _pairs(event.properties or {}) if name == DEPTH]
    return int(found[-1]) if found and found[-1].isdecimal() and len(found[-1]) < 10 else 0


def _pairs(properties: dict[str, object]) -> Sequence[Sequence[str]]:
    return cast("Sequence[Sequence[str]]", properties.get(_USER) or ())
