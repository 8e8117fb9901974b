"""A door: what a protocol's edge tells features of itself, and what they may ask it to do.

Each edge adds itself to ``kernel.doors``; so features know none of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class DoorFigures:
    """What a door has counted since the server started, and the sessions that it has now."""

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
    """Connections that were let in."""
    connects: int = 0
    """CONNECT packets."""
    sessions: int = 0
    """Sessions of clients that are connected, and of others."""
    sessions_expired: int = 0
    """Sessions that ended because their client stayed away for too long."""
    dropped: int = 0
    """Messages dropped because more waited for a session than may."""


class Queued(Protocol):
    """A subscription whose queue may be bounded."""

    def hold_at_most(self, events: int, size: int) -> None:
        """Let so many events and bytes wait from now on."""


class Door:
    """Extended by each edge, which gives what it has."""

    def figures(self) -> DoorFigures:
        """Return what was counted until now; called often, so it must be cheap."""
        return DoorFigures()

    def in_flight(self) -> int:
        """Return how many messages were sent and are not acknowledged; may look at all clients."""
        return 0

    def subscriptions(self) -> Iterator[Queued]:
        """Give all live subscriptions."""
        yield from ()

    def shed(self) -> None:
        """Hear that more or less is to be refused than before (``shedding.py``)."""

    def relieve(self) -> None:
        """Cut what holds much memory and need not be held; called while memory is short."""
