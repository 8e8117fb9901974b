"""MQTT over TCP: a listener, and a protocol that passes bytes to a client."""

import asyncio
import logging
from typing import cast

from app.broker.broker import Broker
from app.broker.client import Client
from app.broker.entrance import enter
from app.broker.refusing import Refused
from app.broker.sockets import probe_peer
from app.core.limits import MQTT_WRITE_BUFFER_BYTES_HIGH

log = logging.getLogger("rowcast.mqtt")


class TcpConnection(asyncio.Protocol):
    """One TCP connection of a client."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._client: Client | Refused | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection; over the limit it is closed before anything is kept (D6)."""
        stream = cast("asyncio.Transport", transport)
        peer = stream.get_extra_info("peername")
        self._client = enter(self._broker, stream, peer[0] if peer else "")
        if self._client is not None:
            stream.set_write_buffer_limits(high=MQTT_WRITE_BUFFER_BYTES_HIGH)
            probe_peer(stream, self._broker.settings.tcp_keep_alive_seconds)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._client is not None:
            self._client.receive(data)

    def pause_writing(self) -> None:
        """Pass on that the peer does not read."""
        if self._client is not None:
            self._client.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the peer reads again."""
        if self._client is not None:
            self._client.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Pass on that it is over."""
        if self._client is not None:
            self._client.lost()
            self._client = None


class TcpListener:
    """Accepts MQTT connections on one address."""

    def __init__(self, broker: Broker, host: str, port: int) -> None:
        self._broker = broker
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, also when 0 was asked for."""
        if self._server is None:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: TcpConnection(self._broker), self._host, self._port, backlog=1024
        )

    async def stop(self) -> None:
        """Accept no more; the broker ends the connections (FEATURES D5)."""
        if self._server is not None:
            self._server.close()
