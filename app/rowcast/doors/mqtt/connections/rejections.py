"""Refusing connections with an answer: reads CONNECT, and sends CONNACK with the reason (D6).

Such a connection has no client, caller or session, only a small buffer and a timer. CONNECT is read
completely before the answer, because unread bytes would turn the close into a reset that overtakes
it. At most REFUSED_CONNECTIONS_MAX are open at a time; further ones are closed at once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from rowcast.core.limits import (
    REFUSED_CONNECTIONS_MAX,
    REFUSED_PACKET_BYTES_MAX,
    REFUSED_SECONDS,
)
from rowcast.doors.mqtt.connections.guard import Refusal
from rowcast.doors.mqtt.connections.transport import Receiver, Transport
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Connack, Connect
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import UnsupportedVersion

_ELSEWHERE = frozenset({Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED})


class Refused(Receiver):
    """One refused connection, which has no client."""

    __slots__ = ("_connection", "_others", "_refusal", "_timer", "_transport", "peer")

    def __init__(
        self, others: "Rejections", transport: Transport, peer: str, refusal: Refusal
    ) -> None:
        self.peer = peer
        self._others = others
        self._transport = transport
        self._refusal = refusal
        self._connection: Connection | None = Connection("server", REFUSED_PACKET_BYTES_MAX)
        self._timer = others.loop.call_later(REFUSED_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Answer CONNECT and close; other packets close it, and later ones are ignored."""
        packets = self._connection.receive(data) if self._connection is not None else None
        if not packets:
            return
        self._connection = None
        packet = packets[0]
        if isinstance(packet, Connect):
            self._transport.write(self._connack(packet))
            self._others.on_refused(self.peer, packet, *self._refusal)
        elif isinstance(packet, UnsupportedVersion):  # MQTT-3.1.2-2
            self._transport.write(packet.connack)
        self._transport.close()  # MQTT-3.2.2-7

    def _connack(self, packet: Connect) -> bytes:
        """Return the answer; 3.1.1 has a return code for every reason (3.1.1, 3.2.2.3)."""
        reason, message = self._refusal
        answer = Connack(reason=reason)
        if packet.version != MQTT_5:
            return encode(answer, packet.version)
        asked = packet.properties or {}
        properties: dict[str, object] = {}
        reference = self._others.server_reference
        if reference and reason in _ELSEWHERE:  # MQTT 5, 3.2.2.3.16
            properties["server_reference"] = reference
        if asked.get("request_problem_information", 1) == 1:  # MQTT-3.1.2-29
            properties["reason_string"] = message
        frame = encode(replace(answer, properties=properties or None), MQTT_5)
        most = asked.get("maximum_packet_size")
        fits = not isinstance(most, int) or len(frame) <= most  # MQTT-3.2.2-19
        return frame if fits else encode(answer, MQTT_5)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Called when the transport is closed."""
        self._timer.cancel()
        self._others.leave(self)


class Rejections:
    """Open refused connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_refused: Callable[[str, Connect, Reason, str], None],
        server_reference: str = "",
        open_max: int = REFUSED_CONNECTIONS_MAX,
    ) -> None:
        self.loop = loop
        self.on_refused = on_refused
        """Called for each, with its peer, its CONNECT, the reason and the words for it."""
        self.server_reference = server_reference
        """Where to go instead, for reasons that send elsewhere (MQTT 5, 3.2.2.3.16)."""
        self.open_max = open_max
        self.unanswered = 0
        """Connections closed without an answer, because there were too many."""
        self._open: set[Refused] = set()

    def __len__(self) -> int:
        return len(self._open)

    def refuse(self, transport: Transport, peer: str, refusal: Refusal) -> Refused | None:
        """Start refusing a connection; None if it was closed at once."""
        if len(self._open) >= self.open_max:
            self.unanswered += 1
            transport.abort()
            return None
        refused = Refused(self, transport, peer, refusal)
        self._open.add(refused)
        return refused

    def leave(self, refused: Refused) -> None:
        """Remove a closed connection."""
        self._open.discard(refused)
