"""The wire: what ASGI has no words for, where the server underneath can do it.

ASGI sends one WebSocket message at a time, each framed and written by itself, and it cannot cut a
connection whose peer does not read. Uvicorn can do both: ``send`` is a method of an object that
has the transport. So many frames become one write of bytes that all sockets share, and a stopped
reader is cut off. Under another server, or when a connection compresses, plain ASGI does the
same, slower.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from app.http.asgi import Message, Send

_FINAL_TEXT: Final = 0x81
_FINAL_BINARY: Final = 0x82


class Gone(Exception):  # noqa: N818 - not a mistake of anybody's: the peer has left
    """The peer is not there any more."""


def transport_of(send: Send) -> Any:
    """Return the transport under an ASGI ``send``, None when it cannot be reached."""
    while hasattr(send, "__wrapped__"):
        send = send.__wrapped__
    return getattr(getattr(send, "__self__", None), "transport", None)


def cut(send: Send) -> bool:
    """Cut a connection without what waits in its buffer; return whether that was possible."""
    transport = transport_of(send)
    if transport is None:
        return False
    transport.abort()
    return True


def is_closing(send: Send) -> bool:
    """Tell whether the server has begun to close a connection."""
    transport = transport_of(send)
    return transport is not None and bool(transport.is_closing())


def frame_of(payload: bytes, *, binary: bool) -> bytes:
    """Return a server's whole WebSocket message: one final frame, not masked (RFC 6455, 5.2)."""
    first = _FINAL_BINARY if binary else _FINAL_TEXT
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 65_536:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload


class Lane:
    """The sending side of one accepted WebSocket: frames of plain ASGI, one message each."""

    name = "message"

    def __init__(self, send: Send, *, binary: bool) -> None:
        self._send = send
        self._binary = binary

    def pack(self, payload: bytes) -> Any:
        """Return what ``send`` takes for one message."""
        if self._binary:
            return {"type": "websocket.send", "bytes": payload}
        return {"type": "websocket.send", "text": payload.decode()}

    async def send(self, frames: Sequence[Any]) -> None:
        """Send messages in order; waits while the peer does not read. Raises Gone."""
        with _gone():
            for frame in frames:
                await self._send(frame)

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye."""
        message: Message = {"type": "websocket.close", "code": code, "reason": reason}
        with contextlib.suppress(Gone), _gone():
            await self._send(message)


class FastLane(Lane):
    """The same on uvicorn's sans-I/O protocol: frames are shared bytes, a batch is one write."""

    name = "frame"

    def __init__(self, send: Send, *, binary: bool) -> None:
        super().__init__(send, binary=binary)
        self._protocol = send.__self__  # type: ignore[attr-defined] # ``lane_of`` looked

    def pack(self, payload: bytes) -> Any:
        """Return the frame of one message."""
        return frame_of(payload, binary=self._binary)

    async def send(self, frames: Sequence[Any]) -> None:
        """Write frames at once; waits while the peer does not read. Raises Gone."""
        protocol = self._protocol
        if not protocol.writable.is_set():
            await protocol.writable.wait()
        if protocol.disconnected or protocol.close_sent or protocol.transport.is_closing():
            raise Gone
        protocol.transport.write(frames[0] if len(frames) == 1 else b"".join(frames))


@contextlib.contextmanager
def _gone() -> Any:
    """Turn the ways in which servers tell that the peer left into one."""
    try:
        yield
    except (OSError, RuntimeError) as failure:
        raise Gone from failure


def lane_of(send: Send, *, binary: bool) -> Lane:
    """Return the best lane that the server offers to an accepted WebSocket."""
    protocol = getattr(send, "__self__", None)
    fast = (
        isinstance(getattr(protocol, "writable", None), asyncio.Event)
        and hasattr(getattr(protocol, "transport", None), "is_closing")
        and isinstance(getattr(protocol, "disconnected", None), bool)
        and isinstance(getattr(protocol, "close_sent", None), bool)
        and getattr(getattr(protocol, "conn", None), "extensions", None) == []
    )
    return (FastLane if fast else Lane)(send, binary=binary)
