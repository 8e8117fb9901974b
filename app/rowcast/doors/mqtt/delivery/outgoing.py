"""The outgoing side of a connection: packets become bytes that fit what the client takes.

They wait until the end of the turn, or until the session is on disk; a subclass then writes all
that is due with one call (``flush``).
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass, replace
from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.limits import MQTT_REASON_CHARS_MAX
from rowcast.doors.mqtt.connections.traffic import Traffic
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat, DeliveryFormats
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.aliases import Aliases
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Acknowledgement, Packet
from rowcast.subscriptions.delivery import Sent

log = logging.getLogger("rowcast.mqtt")

_OPTIONAL: Final = frozenset({"reason_string", "user_property"})
"""Properties that are left out of packets that are too large for the client."""


class Deliveries:
    """What deliveries to all clients share; its numbers are plain counts.

    ``now`` is in seconds since 1970, ``touch`` saves a session soon, ``flush_events`` are encoded
    for one client at a time.
    """

    __slots__ = ("dropped_large", "expired", "flush_events", "forms", "kernel", "now", "touch")

    def __init__(
        self,
        kernel: Kernel,
        forms: DeliveryFormats,
        now: Callable[[], float],
        touch: Callable[[Session], None],
        flush_events: int,
    ) -> None:
        self.flush_events = flush_events
        self.kernel = kernel
        self.forms = forms
        self.now = now
        self.touch = touch
        self.dropped_large = 0
        """Messages over a client's Maximum Packet Size."""
        self.expired = 0
        """Messages that expired before they could be sent."""


class Outgoing(ABC):
    """What is written to one client, and how the client takes it."""

    __slots__ = (
        "aliases",
        "blocked",
        "caller",
        "closing",
        "connection",
        "deliveries",
        "form",
        "later",
        "loop",
        "out",
        "packet_bytes_max",
        "problems",
        "saving",
        "scheduled",
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
        """The client's maximum packet size; 0: no limit (MQTT 5, 3.1.2.11.4)."""
        self.aliases: Aliases | None = None  # if it supports them (MQTT-3.1.2-27)
        self.traffic = Traffic()
        """Counted since the last look at all traffic."""
        self.timed: dict[int, Sent] | None = None  # by packet identifier
        self.out: list[bytes] = []
        """Output for the end of this turn."""
        self.later: list[bytes] = []
        """Output after the next save of the session."""
        self.saving: list[bytes] = []
        """Output after the running save."""
        self.blocked = False
        """Whether it waits for an acknowledgement, as its window is full."""
        self.problems = True
        """Whether the client wants reasons (Request Problem Information)."""
        self.closing = False
        """Whether it is over, and nothing more is written."""
        self.scheduled = False
        """Whether ``flush`` is called at the end of this turn."""

    @property
    def name(self) -> str:
        """The client id, for logs; a dash before CONNECT."""
        return self.caller.client_id if self.caller is not None else "-"

    @abstractmethod
    def flush(self) -> None:
        """Write all that is due with one call, at the end of the turn."""

    @abstractmethod
    def end(self, close_reason: str = "") -> None:
        """Write what is due and close; ``close_reason`` is why, empty if it said DISCONNECT."""

    def send(self, packet: Packet) -> None:
        """Send a packet at the end of this turn, unless it is too large for the client."""
        frame = self._frame(packet)
        if frame:
            self.write(frame)

    def send_saved(self, packet: Packet) -> None:
        """Send a packet after the session is saved; at once if it is not durable."""
        frame = self._frame(packet)
        if frame:
            self.write_saved((frame,))

    def _frame(self, packet: Packet) -> bytes:
        """Return a packet's bytes; empty if it is too large for the client."""
        most = self.packet_bytes_max
        frame = fitted(packet, self.connection.version, most)
        if not most or len(frame) <= most:
            return frame
        if not self.closing:  # MQTT-3.1.2-24: it cannot be answered
            log.info("%s takes no packet of %d bytes; closing", self.name, len(frame))
            self.end("it takes no packet so large")
        return b""

    def write(self, frame: bytes) -> None:
        """Send bytes at the end of this turn."""
        self.out.append(frame)
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.flush)

    def write_saved(self, frames: Iterable[bytes]) -> None:
        """Send bytes after the session is saved; at once if it is not durable."""
        if self.session is not None and self.session.kept:
            self.later += frames
        else:
            self.out += frames
        self.ready()

    def ready(self) -> None:
        """Called when the subscription has events, which are sent at the end of this turn."""
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.flush)

    def explain(self, message: str) -> dict[str, object] | None:
        """Return a Reason String, if the version supports it and the client wants it."""
        if self.connection.version != MQTT_5 or not self.problems:  # MQTT-3.1.2-29
            return None
        clean = message[:MQTT_REASON_CHARS_MAX].encode(errors="replace").decode()
        return {"reason_string": clean.replace("\0", "?")}  # MQTT-1.5.4-1, MQTT-1.5.4-2


def fitted(packet: Packet, version: int, bytes_max: int) -> bytes:
    """Return a packet's bytes, shortened towards ``bytes_max`` where possible; 0: no limit.

    Leaves out optional properties (MQTT-3.2.2-19, -20, MQTT-3.4.2-2, -3 and similar).
    """
    frame = encode(packet, version)
    if not bytes_max or len(frame) <= bytes_max:
        return frame
    known = getattr(packet, "properties", None)
    if not known:
        return frame
    kept = {name: known[name] for name in known if name not in _OPTIONAL} or None
    if isinstance(packet, Acknowledgement):
        return encode(type(packet)(packet.packet_id, packet.reason, kept), version)
    if is_dataclass(packet):
        return encode(replace(packet, properties=kept), version)  # type: ignore[arg-type]
    return frame
