"""Marks: what a subscription says of itself between events, as events without a topic.

CURRENT, RESET and GAP are for readers; READ_TO is the subscription's own.
"""

from typing import Final

from app.core.events import CURRENT, DELETE, GAP, MESSAGE, PATCH, PUT, RESET, SNAPSHOT, Event
from app.engine.preludes import Pair

READ_TO: Final = "read to"
"""Not for readers: the log was read up to here, and the rest of the page was not for this
reader."""
LOGGED: Final = frozenset({PUT, PATCH, DELETE, MESSAGE, READ_TO})
"""Kinds whose number moves the position."""


def current_at(position: int) -> Event:
    """Return the mark after the current records, which hold at a position."""
    return Event("", CURRENT, b"", seq=position)


def read_to(position: int) -> Event:
    """Return the mark of how far a page of the log goes."""
    return Event("", READ_TO, b"", seq=position)


def reset(token: str, reason: str, position: int) -> Event:
    """Return the mark that a cursor cannot be continued: all begins anew at a position."""
    return Event("", RESET, b"", seq=position, decoded={"from": token, "reason": reason})


def gap(count: int) -> Pair:
    """Return the mark of unlogged events that this reader lost; it concerns all its interests."""
    facts = {"count": count, "reason": "this reader was too slow; these events are not logged"}
    return Event("", GAP, b"", decoded=facts, seq=0), None


def told(pair: Pair) -> bool:
    """Note how far current records were handed over; return whether the reader is told."""
    event, interest = pair
    if interest is None or event.kind not in {SNAPSHOT, CURRENT}:
        return True
    interest.current = event.topic or None
    return bool(event.topic) or interest.marks
