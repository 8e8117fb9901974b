"""The outgoing side of a connection: what waits to be written, and what the client takes.

Delivery fills it; a subclass writes all that is due with one call (``flush``).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from rowcast.core.callers import Caller
from rowcast.doors.mqtt.connections.traffic import Traffic
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat, DeliveryFormats
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.aliases import Aliases
from rowcast.mqtt.connection import Connection
from rowcast.subscriptions.delivery import Sent


class Deliveries:
    """What deliveries to all clients share; its numbers are plain counts.

    ``now`` is in seconds since 1970, ``touch`` saves a session soon.
    """

    __slots__ = ("dropped_large", "expired", "forms", "kernel", "now", "touch")

    def __init__(
        self,
        kernel: Kernel,
        forms: DeliveryFormats,
        now: Callable[[], float],
        touch: Callable[[Session], None],
    ) -> None:
        self.kernel = kernel
        self.forms = forms
        self.now = now
        self.touch = touch
        self.dropped_large = 0
        """Messages over a client's Maximum Packet Size."""
        self.expired = 0
        """Messages whose time was over before they could be sent."""


class Outgoing(ABC):
    """What delivery knows of a connection."""

    __slots__ = (
        "_scheduled",
        "aliases",
        "blocked",
        "caller",
        "connection",
        "deliveries",
        "form",
        "later",
        "loop",
        "out",
        "packet_bytes_max",
        "saving",
        "session",
        "timed",
        "traffic",
    )

    def __init__(
        self,
        deliveries: Deliveries,
        loop: asyncio.AbstractEventLoop,
        connection: Connection,
    ) -> None:
        self.deliveries, self.loop, self.connection = deliveries, loop, connection
        self.form: DeliveryFormat | None = None  # how it wants messages, once CONNECT has said it
        self.session: Session | None = None
        self.caller: Caller | None = None
        self.packet_bytes_max = 0
        """The greatest packet that the client takes; 0 is no limit (MQTT 5, 3.1.2.11.4)."""
        self.aliases: Aliases | None = None  # if it keeps some (MQTT-3.1.2-27)
        self.traffic = Traffic()
        """Counted since the last look at all traffic."""
        self.timed: dict[int, Sent] | None = None  # by packet identifier
        self.out: list[bytes] = []
        """What is due at the end of this turn."""
        self.later: list[bytes] = []
        """What is due when the session is saved as it is now."""
        self.saving: list[bytes] = []
        """What is due when the save that goes on is done."""
        self.blocked = False
        """Whether it waits for an acknowledgement, as its window is full."""
        self._scheduled = False

    @abstractmethod
    def flush(self) -> None:
        """Write all that is due with one call, at the end of the turn."""

    def write(self, frame: bytes) -> None:
        """Send bytes at the end of this turn."""
        self.out.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self.flush)

    def write_saved(self, frames: Iterable[bytes]) -> None:
        """Send bytes when the session as it is now is on disk; at once if it is not kept."""
        if self.session is not None and self.session.kept:
            self.later += frames
        else:
            self.out += frames
        self.ready()

    def ready(self) -> None:
        """Hear that the subscription has something; it is sent at the end of this turn."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self.flush)
