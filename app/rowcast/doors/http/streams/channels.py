"""Channels: send the frames of one stream, in plain ASGI.

A channel packs a payload into a frame once, for all readers of a format, and sends frames. ASGI
awaits each message; ``uvicorn_fastpath`` has channels that write directly to the transport.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rowcast.doors.http.messages.asgi import Send

_FINAL_TEXT: Final = 0x81
_FINAL_BINARY: Final = 0x82


class Gone(Exception):  # noqa: N818 - no error: the peer has closed the connection
    """The connection is closed."""


class Channel:
    """The frames of one connection, sent with an ASGI ``send`` that may wait."""

    name = "plain"
    """Channels of one name share frames."""
    immediate = False
    """Whether ``write`` is supported, which does not wait."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def pack(self, payload: bytes) -> Any:
        """Return the frame of one message for ``send`` and ``write``, shared by readers."""
        raise NotImplementedError

    async def send(self, frames: Sequence[Any]) -> None:
        """Send frames in order; waits for a slow peer. Raises Gone."""
        raise NotImplementedError

    @property
    def open(self) -> bool:
        """Whether ``write`` may be called now: the peer is connected and not slow."""
        return False

    def write(self, frames: Sequence[Any]) -> None:
        """Write frames at once, if the channel is immediate and open."""
        raise NotImplementedError


class EventChannel(Channel):
    """Blocks of an event stream as the body of an HTTP response."""

    def pack(self, payload: bytes) -> Any:
        """Return the block unchanged."""
        return payload

    async def send(self, frames: Sequence[Any]) -> None:
        """Send blocks as one part of the body."""
        body = frames[0] if len(frames) == 1 else b"".join(frames)
        with _gone():
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


class SocketChannel(Channel):
    """Messages of a WebSocket."""

    def __init__(self, send: Send, *, binary: bool) -> None:
        super().__init__(send)
        self._binary = binary

    def pack(self, payload: bytes) -> Any:
        """Return the ASGI message."""
        if self._binary:
            return {"type": "websocket.send", "bytes": payload}
        return {"type": "websocket.send", "text": payload.decode()}

    def frame_of(self, payload: bytes) -> bytes:
        """Return a server's message as one final, unmasked frame (RFC 6455, 5.2)."""
        first = _FINAL_BINARY if self._binary else _FINAL_TEXT
        size = len(payload)
        if size < 126:
            return bytes((first, size)) + payload
        if size < 65_536:
            return bytes((first, 126)) + size.to_bytes(2, "big") + payload
        return bytes((first, 127)) + size.to_bytes(8, "big") + payload

    async def send(self, frames: Sequence[Any]) -> None:
        """Send messages one after the other."""
        with _gone():
            for frame in frames:
                await self._send(frame)

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame, if the peer is still connected."""
        with contextlib.suppress(Gone), _gone():
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    """Map servers' exceptions for a closed connection to Gone."""
    try:
        yield
    except (OSError, RuntimeError) as failure:
        raise Gone from failure
