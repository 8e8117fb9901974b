"""MQTT over WebSocket: an ASGI endpoint with the interface of a byte stream.

Packets may span frames or share them (MQTT-6.0.0-2); only binary frames are data (MQTT-6.0.0-1).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from rowcast.core.errors import Error
from rowcast.core.limits import MQTT_WRITE_BUFFER_BYTES_HIGH
from rowcast.doors.mqtt.connections.transport import Entrance, Receiver
from rowcast.doors.mqtt.delivery.delivery_format import media_type_wanted

log = logging.getLogger("rowcast.mqtt")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SUBPROTOCOLS = ("mqtt", "mqttv3.1")
"""Accepted subprotocols (MQTT-6.0.0-3); the second is that of clients of 3.1."""
NORMAL = 1000
UNSUPPORTED_DATA = 1003
TRY_AGAIN_LATER = 1013


class WebSocketTransport:
    """The write side: bytes become binary frames, in order, sent by one task."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._reading = asyncio.Event()
        self._reading.set()
        self._closing = False
        self._full = False
        self.client: Receiver | None = None
        self.aborted = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Send bytes as one frame, or as part of one."""
        self._frames.append(data)
        self._size += len(data)
        self._changed.set()
        if self._size > MQTT_WRITE_BUFFER_BYTES_HIGH and not self._full and self.client is not None:
            self._full = True
            self.client.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return self._size

    def get_extra_info(self, name: str, default: object = None) -> object:  # noqa: ARG002
        """Return None: the HTTP server requests no client certificates."""
        return default

    def close(self) -> None:
        """Close after pending output is sent."""
        self._closing = True
        self._changed.set()

    def abort(self) -> None:
        """Close, dropping pending output."""
        self._frames.clear()
        self.aborted.set()
        self.close()

    def pause_reading(self) -> None:
        """Pause incoming frames."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Resume incoming frames."""
        self._reading.set()

    async def may_read(self) -> None:
        """Wait until reading is not paused."""
        await self._reading.wait()

    async def run(self) -> None:
        """Send frames until closed."""
        while True:
            self._changed.clear()
            while self._frames:
                data = b"".join(self._frames)
                self._frames.clear()
                await self._send({"type": "websocket.send", "bytes": data})
                self._size -= len(data)
                self._drained()
            if self._closing:
                return
            await self._changed.wait()

    def _drained(self) -> None:
        if self._full and not self._size and not self._closing and self.client is not None:
            self._full = False
            self.client.resume_writing()


class WebSocketEndpoint:
    """The ASGI application for WebSocket connections that speak MQTT."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until either side closes it."""
        await receive()  # websocket.connect
        chosen = [name for name in scope["subprotocols"] if name in SUBPROTOCOLS]
        if self._entrance.stopping or not chosen:
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
            return
        await send({"type": "websocket.accept", "subprotocol": chosen[0]})  # MQTT-6.0.0-4
        transport = WebSocketTransport(send)
        peer = scope["client"][0] if scope.get("client") else ""
        client = self._entrance.enter(transport, peer, _accepted(scope["headers"]))
        if client is None:
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
            return
        transport.client = client
        await self._serve(client, transport, receive, send)

    async def _serve(
        self, client: Receiver, transport: WebSocketTransport, receive: Receive, send: Send
    ) -> None:
        """Run reader and writer until one ends; then stop the other."""
        name = f"mqtt websocket {client.peer}"
        reader = asyncio.create_task(self._read(client, transport, receive), name=f"{name} reader")
        writer = asyncio.create_task(transport.run(), name=f"{name} writer")
        cut = asyncio.create_task(transport.aborted.wait(), name=f"{name} cut")
        tasks: tuple[asyncio.Task[Any], ...] = (reader, writer, cut)
        code = 0
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = 0 if cut.done() else _close_code(reader, writer)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            client.connection_lost(None)
        if code:
            await self._close(send, code)

    @staticmethod
    async def _close(send: Send, code: int) -> None:
        try:
            await send({"type": "websocket.close", "code": code})
        except (OSError, RuntimeError):  # the peer closed first
            return

    @staticmethod
    async def _read(client: Receiver, transport: WebSocketTransport, receive: Receive) -> int:
        """Forward frames; return the close code to send, 0 when the peer has closed."""
        while True:
            await transport.may_read()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return 0
            data = message.get("bytes")
            if data is None:  # MQTT-6.0.0-1
                return UNSUPPORTED_DATA
            client.data_received(data)


def _accepted(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the delivery format of the upgrade's Accept, if it is supported."""
    accept = b",".join(value for name, value in headers if name == b"accept").decode("latin-1")
    try:
        return media_type_wanted(accept)
    except Error:
        return None


def _close_code(reader: "asyncio.Task[int]", writer: "asyncio.Task[None]") -> int:
    """Return the close code after one of the two has ended; 0 for none."""
    ended: asyncio.Task[Any] = reader if reader.done() else writer
    if ended.cancelled():
        return 0
    error = ended.exception()
    if isinstance(error, OSError):  # the peer has disconnected
        return 0
    if error is not None:
        log.error("%s failed", ended.get_name(), exc_info=error)
        return 1011
    return reader.result() if reader.done() else NORMAL
