"""MQTT over TCP, with TLS or without: a protocol that passes bytes to a client."""

import asyncio
from typing import cast

from rowcast.core.limits import MQTT_WRITE_BUFFER_BYTES_HIGH
from rowcast.doors.mqtt.connections.sockets import probe_peer
from rowcast.doors.mqtt.connections.transport import Entrance, Receiver


class TcpConnection(asyncio.Protocol):
    """One connection of a client, after the TLS handshake, if any."""

    def __init__(self, entrance: Entrance, keep_alive_seconds: int = 0) -> None:
        self._entrance = entrance
        self._keep_alive_seconds = keep_alive_seconds
        """Silence after which the operating system probes the peer; 0 is never."""
        self._client: Receiver | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a new connection, or close it over the limit (D6)."""
        stream = cast("asyncio.Transport", transport)
        peer = stream.get_extra_info("peername")
        self._client = self._entrance.enter(stream, peer[0] if peer else "")
        if self._client is not None:
            stream.set_write_buffer_limits(high=MQTT_WRITE_BUFFER_BYTES_HIGH)
            probe_peer(stream, self._keep_alive_seconds)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._client is not None:
            self._client.receive(data)

    def pause_writing(self) -> None:
        """Forward that the peer does not read."""
        if self._client is not None:
            self._client.pause_writing()

    def resume_writing(self) -> None:
        """Forward that the peer reads again."""
        if self._client is not None:
            self._client.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forward the end of the connection."""
        if self._client is not None:
            self._client.lost()
            self._client = None
