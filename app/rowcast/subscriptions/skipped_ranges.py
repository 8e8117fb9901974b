"""Marks: notices of a subscription between events, as events without a topic.

CURRENT and RESET are for readers, like a Gap (``gaps.py``); READ_TO is internal.
"""

from dataclasses import dataclass
from typing import Final

from rowcast.core.events import CURRENT, DELETE, MESSAGE, PATCH, PUT, RESET, SNAPSHOT, Event
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscribed_filters import Pair

READ_TO: Final = "read to"
"""Internal: the log was read up to here, and the rest of the page does not match."""
LOGGED: Final = frozenset({PUT, PATCH, DELETE, MESSAGE, READ_TO})
"""Kinds whose number advances the position."""


def current_at(position: int) -> Event:
    """Return the mark after the current records, with their position."""
    return Event("", CURRENT, b"", seq=position)


def read_to(position: int) -> Event:
    """Return the mark of the end of a page of the log."""
    return Event("", READ_TO, b"", seq=position)


def reset(token: str, reason: str, position: int) -> Event:
    """Return the mark that a cursor cannot be resumed: the stream restarts at a position."""
    return Event("", RESET, b"", seq=position, decoded={"from": token, "reason": reason})


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """A range of the log that a reader skips: after one number and up to another."""

    after: int
    last: int
    count: int
    """The reader's events in it, without expired ones."""
    expired: int = 0
    """The reader's expired events in it."""

    def has(self, seq: int) -> bool:
        """Whether it contains an event."""
        return self.after < seq <= self.last

    def marks(self) -> list[Pair]:
        """Return the gaps that replace it, for all interests."""
        counts = ((GapCause.WAITING, self.count), (GapCause.EXPIRED, self.expired))
        return [(Gap(why, n, None, self.after, self.last), None) for why, n in counts if n]


def is_reported(pair: Pair) -> bool:
    """Advance a backfill's position; return whether the pair is for the reader."""
    event, interest = pair
    if interest is None:
        return True
    if event.kind not in {SNAPSHOT, CURRENT}:
        if interest.since is not None and event.seq:  # of a replay, or beyond its end
            interest.since = event.seq if event.seq < interest.floor else None
        return True
    if event.seq or not event.topic:  # records supplied by a hook are not in the order of topics
        interest.current = event.topic or None
    return bool(event.topic) or interest.marks
