"""MQTT at a follower: its clients are served by the sequencer.

This node accepts connections, ends TLS and WebSocket frames, and passes on the bytes; sessions,
subscriptions and answers are those of the other node. So a client may connect anywhere, and a
session is wherever its client connects next. While no node numbers, a client that has sent
something waits for a while, and is then refused with Server unavailable.

When this node stops, its clients get DISCONNECT as those of a server do (``server_disconnect.py``):
between two packets of the other node, and only if their CONNECT and CONNACK have passed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rowcast.core.errors import Error
from rowcast.core.limits import MQTT_CLOSE_SECONDS
from rowcast.doors.mqtt.connections.guard import LoginThrottle, Refusal
from rowcast.doors.mqtt.connections.rejections import Refused, Rejections
from rowcast.doors.mqtt.connections.relayed_disconnect import RelayedDisconnect
from rowcast.doors.mqtt.connections.server_disconnect import all_gone
from rowcast.doors.mqtt.connections.transport import Receiver, Transport, certificate_of
from rowcast.mqtt.reasons import Reason
from rowcast.net.relay import MQTT, Client, ServerSide, certificate_der

OPEN_SECONDS: Final = 10.0
"""How long a client waits for a sequencer: another one takes over in less."""

OpenFar = Callable[[Client, asyncio.Protocol, float], Awaitable[asyncio.Transport]]
"""Passes on a client's connection, within so many seconds. Raises BUSY."""


class MqttRelay:
    """The entrance of all its connections; ``guard`` and ``refused`` have their limits."""

    def __init__(
        self,
        guard: LoginThrottle,
        refused: Rejections,
        open_far: OpenFar,
        connect_timeout_seconds: float,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        self._guard, self.refused, self.open_far = guard, refused, open_far
        self.connect_timeout_seconds = connect_timeout_seconds
        """Until a new connection has sent something."""
        self.open_seconds = open_seconds
        self.loop = refused.loop
        self.stopping = False
        self.clients: set[RelayedClient] = set()
        self._emptied = asyncio.Event()

    def enter(
        self, transport: Transport, peer: str, media_type: str | None = None
    ) -> Receiver | None:
        """Return what takes the bytes of a new connection; None if it was closed."""
        if self.stopping:
            transport.abort()
            return None
        refusal = self._guard.enter(peer)
        if refusal is not None:
            return self.refused.refuse(transport, peer, refusal)
        client = RelayedClient(self, transport, peer, media_type)
        self.clients.add(client)
        return client

    def leave(self, client: "RelayedClient") -> None:
        """Forget a closed connection."""
        if client in self.clients:
            self.clients.remove(client)
            self._guard.exit(client.peer)
        if not self.clients:
            self._emptied.set()

    async def stop(self) -> None:
        """End all connections, and wait until all are gone: clients connect to another node."""
        self.stopping = True
        self._emptied.clear()
        for client in list(self.clients):
            client.take_leave()
        await all_gone(self.clients, self._emptied)


class RelayedClient(Receiver):
    """One client of this node."""

    def __init__(
        self, relay: MqttRelay, transport: Transport, peer: str, media_type: str | None
    ) -> None:
        self.peer = peer
        self._relay, self._transport = relay, transport
        self._media_type = media_type
        self._server_side = ServerSide(self)
        self._waiting: list[bytes] | None = []
        """What it has sent before the way on was open; None once it is."""
        self._opening: asyncio.Task[None] | None = None
        self._is_full = False
        """Whether the way on is full, so that nothing is read from the client."""
        self._refused: Refused | None = None
        self._disconnect = RelayedDisconnect()
        self._leaving = False
        """Whether it is to be told that this node stops, once a packet to it has its end."""
        self._over = False
        """Whether it was sent its last packet."""
        loop, seconds = relay.loop, relay.connect_timeout_seconds
        self._timer = loop.call_later(seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Pass on what the client sends; who has sent nothing yet has no way on."""
        if not self._disconnect.connect_is_read:
            self._disconnect.read_connect(data)
        if self._refused is not None:
            self._refused.data_received(data)
        elif self._waiting is None:
            self._server_side.send(data)
        else:
            self._waiting.append(data)
            if self._opening is None:
                self._timer.cancel()
                self._transport.pause_reading()
                self._opening = self._relay.loop.create_task(self._open())

    async def _open(self) -> None:
        relay, transport = self._relay, self._transport
        certificate = certificate_of(transport)
        client = Client(
            MQTT,
            self.peer,
            secure=transport.get_extra_info("sslcontext") is not None,
            certificate=certificate,
            der=certificate_der(transport) if certificate is not None else None,
            media_type=self._media_type,
        )
        try:
            await relay.open_far(client, self._server_side, relay.open_seconds)
        except Error as error:
            self._refuse(error.message)
        else:
            for data in self._waiting or ():
                self._server_side.send(data)
            self._waiting = None
        if not self._is_full:
            transport.resume_reading()

    def _refuse(self, why: str) -> None:
        refusal = Refusal(Reason.SERVER_UNAVAILABLE, why)
        self._refused = self._relay.refused.refuse(self._transport, self.peer, refusal)
        for data in self._waiting or ():
            if self._refused is not None:
                self._refused.data_received(data)

    # -- the other half ----------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """Send bytes to the client; after its DISCONNECT nothing more."""
        if self._over:
            return
        bounds = self._disconnect.bounds
        if not self._leaving:
            bounds.take(data)
            self._transport.write(data)
            return
        end = bounds.next_end(data)
        self._transport.write(data[:end] if end > 0 else data)
        if end > 0:
            self._send_disconnect()

    def hold(self, full: bool) -> None:
        """Read nothing more from the client while the way on is full."""
        self._is_full = full
        (self._transport.pause_reading if full else self._transport.resume_reading)()

    def lost(self) -> None:
        """End the connection: the other node has ended it, or has gone."""
        self.close()

    # -- the client --------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Take nothing more from the other node."""
        self._server_side.hold(True)

    def resume_writing(self) -> None:
        """Take on."""
        self._server_side.hold(False)

    def take_leave(self) -> None:
        """Tell it that this node stops, and end the connection."""
        if self._refused is not None or not self._disconnect.possible:
            self.close()
        elif self._disconnect.bounds.between:
            self._send_disconnect()
        else:
            self._leaving = True
            self._abort_later()

    def _send_disconnect(self) -> None:
        self._over = True
        if packet := self._disconnect.packet(self._relay.refused.server_reference):
            self._transport.write(packet)
        self.close()

    def _abort_later(self) -> None:
        self._timer.cancel()
        self._timer = self._relay.loop.call_later(MQTT_CLOSE_SECONDS, self._transport.abort)

    def close(self) -> None:
        """End the connection, at once when the client does not take what it was sent."""
        self._abort_later()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the transport is closed."""
        self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._refused is not None:
            self._refused.connection_lost(exc)
        self._server_side.close()
        self._relay.leave(self)
