"""The seams at which features hear of deliveries, each asked once for all that goes out together.

``Reader.delivered`` is asked when a reader is handed events that it writes at once, and
``Reader.acknowledged`` when a client confirms one of them. With nobody in the list, nothing is
called and nothing is remembered.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter


class Recipient(Protocol):
    """Who is handed events."""

    caller: Caller
    joined: int
    """The log's head when it came, or its last filter."""
    held_since: float
    """From when on it could not take what waits, in seconds since 1970; 0 when it could."""


class GroupMember:
    """A recipient that is given one event by a group: nothing waits for it alone."""

    __slots__ = ("caller", "held_since", "joined")

    def __init__(self, caller: Caller, joined: int) -> None:
        self.caller = caller
        self.joined = joined
        self.held_since = 0.0


class Delivered(Protocol):
    """Hears of what readers are handed."""

    def delivered(self, recipient: Recipient, pairs: Sequence[Pair]) -> None:
        """Hear what is written to a reader now; at least one pair."""

    def held(self, recipient: Recipient) -> None:
        """Hear that a reader cannot take what waits for it: note when, in ``held_since``."""


class Sent(NamedTuple):
    """A message on its way to a client that will acknowledge it."""

    event: Event
    interest: SubscribedFilter
    at_seconds: float
    """When it was sent, in seconds since 1970."""
    again: bool
    """Whether another client had it before, so that its arrival says nothing."""


class Acknowledged(Protocol):
    """Hears of what clients confirm."""

    def acknowledged(self, caller: Caller, joined: int, sent: Sent) -> None:
        """Hear that a message is acknowledged, by a reader that came at a position of the log."""
