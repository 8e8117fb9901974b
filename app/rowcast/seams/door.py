"""A door: the interface of a protocol's edge for features.

Each edge adds itself to ``kernel.doors``; so features depend on none of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class DoorFigures:
    """The counters of a door since the server's start, and its current sessions."""

    bytes_in: int = 0
    bytes_out: int = 0
    packets_in: int = 0
    packets_out: int = 0
    publishes_in: int = 0
    publishes_out: int = 0
    payload_in: int = 0
    """Bytes of the payloads of ``publishes_in``."""
    payload_out: int = 0
    connections: int = 0
    """Accepted connections."""
    connects: int = 0
    """CONNECT packets."""
    sessions: int = 0
    """Sessions, connected or not."""
    sessions_expired: int = 0
    """Sessions that expired."""
    dropped: int = 0
    """Messages dropped because of a session's backlog limit."""


class Queued(Protocol):
    """A subscription whose queue may be bounded."""

    def limit_queue(self, events: int, size: int) -> None:
        """Set the queue's bounds."""


class Door:
    """Extended by each edge."""

    def figures(self) -> DoorFigures:
        """Return the counters; called often, so it must be cheap."""
        return DoorFigures()

    def in_flight(self) -> int:
        """Return the number of unacknowledged messages; may scan all clients."""
        return 0

    def subscriptions(self) -> Iterator[Queued]:
        """Yield all live subscriptions."""
        yield from ()

    def shed(self) -> None:
        """Called when the level of load shedding has changed (``shedding.py``)."""

    def relieve(self) -> None:
        """Free large buffers where possible; called while memory is short."""
