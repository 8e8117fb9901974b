"""The last packet to a client whose bytes are passed on without being read, when its node stops.

What it needs to be right is read on the way: the client's CONNECT, which says the version and the
largest packet that it takes, and where the packets of the other node end.
"""

from typing import Final

from rowcast.doors.mqtt.connections.server_disconnect import disconnect_bytes
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.packet_bounds import PacketBounds
from rowcast.mqtt.packets import MQTT_5, Connect
from rowcast.mqtt.reasons import PacketType

CONNECT_BYTES_MAX: Final = 64 * 1024
"""The largest CONNECT that is kept until it is all there: with a token as its password, and a will.
Who sends a larger one gets no DISCONNECT."""


class RelayedDisconnect:
    """What is known of one relayed connection to end it with a DISCONNECT that its client takes."""

    __slots__ = ("_asked", "_connection", "_speaks_5", "bounds", "connect_is_read")

    def __init__(self) -> None:
        self.bounds = PacketBounds()
        """Of the packets to the client."""
        self.connect_is_read = False
        """Whether its CONNECT is known, or was too large to be kept for that."""
        self._connection: Connection | None = None
        self._speaks_5 = False
        self._asked: dict[str, object] = {}

    def read_connect(self, data: bytes) -> None:
        """Take what the client sends, until its CONNECT is all there."""
        if self._connection is None:
            self._connection = Connection("server", CONNECT_BYTES_MAX)
        packets = self._connection.receive(data)
        if not packets:
            return
        self.connect_is_read, self._connection = True, None
        packet = packets[0]
        if isinstance(packet, Connect) and packet.version == MQTT_5:
            self._speaks_5, self._asked = True, packet.properties or {}

    @property
    def possible(self) -> bool:
        """Whether the client has been let in, and takes a DISCONNECT: that is new in MQTT 5."""
        bounds = self.bounds
        is_in = bounds.has(PacketType.CONNACK) and not bounds.has(PacketType.DISCONNECT)
        return self._speaks_5 and is_in

    def packet(self, server_reference: str) -> bytes:
        """Return DISCONNECT; empty where the client takes no packet that large."""
        most = self._asked.get("maximum_packet_size", 0)
        problems = self._asked.get("request_problem_information", 1) == 1
        bytes_max = most if isinstance(most, int) else 0
        return disconnect_bytes(server_reference, bytes_max, problems=problems)
