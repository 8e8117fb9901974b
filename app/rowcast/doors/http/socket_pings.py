"""WebSockets of uvicorn that ping their peers, and of which no peer may have too much.

Those that speak MQTT are not pinged: it has packets of its own for this (MQTT 5, 3.12), so brokers
send no pings, and some clients were never pinged: paho-mqtt answers with a frame that is not
masked, at which a server must close the connection (RFC 6455, 5.1). A peer that has vanished is
found by TCP (``net/probes.py``).

uvicorn parses all that was read at once: of empty frames 256 KiB take most of a second, in which
nobody else is served. Here it gets slices (``net/sliced_reads.py``). It also answers every ping of
a peer that takes no answers, keeps every fragment of a message as an object of its own, and logs a
traceback for each text of a peer that is not UTF-8.
"""

import asyncio
from typing import Final, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame, Opcode

from rowcast.net.sliced_reads import SlicedReads

MQTT_PROTOCOLS: Final = frozenset({"mqtt", "mqttv3.1"})
"""The subprotocols by which a client asks for MQTT over WebSocket (MQTT-6.0.0-3)."""
_PONG: Final = bytes((0x80 | Opcode.PONG,))
"""The first byte of a whole pong."""


class _Slices(asyncio.Protocol):
    """Gives slices of what was read to uvicorn's protocol."""

    def __init__(self, socket: "SocketPings") -> None:
        self._socket = socket

    def data_received(self, data: bytes) -> None:
        """Parse a slice, unless an earlier one could not be parsed."""
        if self._socket.conn.parser_exc is None:
            WebSocketsSansIOProtocol.data_received(self._socket, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, after the last slice."""
        WebSocketsSansIOProtocol.connection_lost(self._socket, exc)


class SocketPings(WebSocketsSansIOProtocol):
    """uvicorn's protocol of a WebSocket; what is changed here is not in its public API."""

    _pong = b""
    """The newest pong that waits until the peer takes what was sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what is read in slices."""
        self._reads = SlicedReads(cast("asyncio.Transport", transport), _Slices(self))
        super().connection_made(cast("asyncio.BaseTransport", self._reads))

    def data_received(self, data: bytes) -> None:
        """Parse the first slice now, and the others in later turns of the loop."""
        self._reads.data_received(data)

    def eof_received(self) -> None:
        """Parse the rest before the end."""
        self._reads.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Parse the rest before the end."""
        self._reads.connection_lost(exc)

    def start_keepalive(self) -> None:
        """Start to ping, once the connection is accepted."""
        if MQTT_PROTOCOLS.isdisjoint(self.scope["subprotocols"]):
            super().start_keepalive()

    def handle_ping(self) -> None:
        """Answer pings; where the peer does not take it, only the newest (RFC 6455, 5.5.3)."""
        frames = self.conn.data_to_send()
        if not self.writable.is_set():
            pongs = [frame for frame in frames if frame[:1] == _PONG]
            self._pong = pongs[-1] if pongs else self._pong
            frames = [frame for frame in frames if frame[:1] != _PONG]
        self.transport.write(b"".join(frames))

    def resume_writing(self) -> None:
        """Send the newest pong that waits."""
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong:
            self.transport.write(pong)

    def handle_cont(self, event: Frame) -> None:
        """Add a fragment to its message."""
        (so_far,) = self.frames
        message = so_far if isinstance(so_far, bytearray) else bytearray(so_far)
        message += event.data
        self.frames = [bytes(message) if event.fin else cast("bytes", message)]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Hand over a message; a text that is not UTF-8 ends the connection (RFC 6455, 8.1)."""
        (data,) = self.frames
        self.frames = []
        if self.close_sent:
            return
        if self.curr_msg_data_type == "bytes":
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
        else:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                self.conn.send_close(CloseCode.INVALID_DATA, "the text is not UTF-8")
                self.handle_parser_exception()
                return
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
