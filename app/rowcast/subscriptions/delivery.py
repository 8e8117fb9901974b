"""Seams for deliveries: features are notified once per batch.

``Reader.delivered`` is called when a reader gets events that it writes at once, and
``Reader.acknowledged`` when a client acknowledges one of them. With an empty list, nothing is
called or stored.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.subscriptions.subscribed_filters import Pair, SubscribedFilter


class Recipient(Protocol):
    """The receiver of events."""

    caller: Caller
    joined: int
    """The log's head when it connected, or added its last filter."""
    blocked_since: float
    """The time since when it has been blocked, in seconds since 1970; 0 if it is not."""


class GroupMember:
    """A recipient of one event of a group; it has no queue of its own."""

    __slots__ = ("blocked_since", "caller", "joined")

    def __init__(self, caller: Caller, joined: int) -> None:
        self.caller = caller
        self.joined = joined
        self.blocked_since = 0.0


class Delivered(Protocol):
    """Listener for deliveries."""

    def delivered(self, recipient: Recipient, pairs: Sequence[Pair]) -> None:
        """Called with the pairs being written to a reader; at least one."""

    def blocked(self, recipient: Recipient) -> None:
        """Called when a reader is blocked; sets ``blocked_since``."""


class Sent(NamedTuple):
    """A message in flight to a client that will acknowledge it."""

    event: Event
    interest: SubscribedFilter
    at_seconds: float
    """The time of sending, in seconds since 1970."""
    again: bool
    """Whether another client got it before, so that its latency is not measured."""


class Acknowledged(Protocol):
    """Listener for acknowledgements."""

    def acknowledged(self, caller: Caller, joined: int, sent: Sent) -> None:
        """Called when a reader, connected at a position of the log, acknowledges a message."""
