"""Marks: what a subscription says of itself between events, as events without a topic.

CURRENT and RESET are for readers, as a Gap is (``gaps.py``); READ_TO is the subscription's own.
"""

from dataclasses import dataclass
from typing import Final

from rowcast.core.events import CURRENT, DELETE, MESSAGE, PATCH, PUT, RESET, SNAPSHOT, Event
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscribed_filters import Pair

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


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """A part of the log that a reader passes over: all after one number and up to another."""

    after: int
    last: int
    count: int
    """How many events of the reader's are in it, without those whose time was over."""
    expired: int = 0
    """How many of those there are."""

    def has(self, seq: int) -> bool:
        """Tell whether an event is in it."""
        return self.after < seq <= self.last

    def marks(self) -> list[Pair]:
        """Return what the reader is told in its place; it concerns all interests."""
        counts = ((GapCause.WAITING, self.count), (GapCause.EXPIRED, self.expired))
        return [(Gap(why, n, None, self.after, self.last), None) for why, n in counts if n]


def told(pair: Pair) -> bool:
    """Note how far a backfill was handed over; return whether the reader is told."""
    event, interest = pair
    if interest is None:
        return True
    if event.kind not in {SNAPSHOT, CURRENT}:
        if interest.since is not None and event.seq:  # of a replay, or beyond its end
            interest.since = event.seq if event.seq < interest.floor else None
        return True
    if event.seq or not event.topic:  # what a hook supplied has no place among the others
        interest.current = event.topic or None
    return bool(event.topic) or interest.marks
