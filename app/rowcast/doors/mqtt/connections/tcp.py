"""MQTT over TCP, with TLS or without: the beginning of a connection."""

import asyncio
from typing import cast

from rowcast.core.limits import MQTT_WRITE_BUFFER_BYTES_HIGH
from rowcast.doors.mqtt.connections.read_size import read_little
from rowcast.doors.mqtt.connections.transport import Entrance
from rowcast.net.probes import probe_peer
from rowcast.net.sliced_reads import SlicedReads


class TcpConnection(asyncio.Protocol):
    """A new connection, after the TLS handshake, if any; a Receiver then takes its place."""

    def __init__(
        self, entrance: Entrance, keep_alive_seconds: int = 0, media_type: str | None = None
    ) -> None:
        self._entrance = entrance
        self._media_type = media_type
        """The format of its messages, unless its CONNECT says another."""
        self._keep_alive_seconds = keep_alive_seconds
        """Silence after which the operating system probes the peer; 0 is never, or as the socket
        says that it was accepted from."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a new connection, or close it over the limit (D6)."""
        stream = SlicedReads.of(cast("asyncio.Transport", transport))
        peer = stream.get_extra_info("peername")
        receiver = self._entrance.enter(stream, peer[0] if peer else "", self._media_type)
        if receiver is not None:
            stream.set_protocol(receiver)
            stream.set_write_buffer_limits(high=MQTT_WRITE_BUFFER_BYTES_HIGH)
            read_little(stream)
            probe_peer(stream, self._keep_alive_seconds)
