"""The wire: what ASGI has no words for, where the server underneath can do it.

ASGI sends one message at a time, awaited and written by itself, and it cannot cut a connection
whose peer does not read. Uvicorn can do both: ``send`` is a method of an object that has the
transport. So frames that all readers share are written to each socket without a task, a copy or a
second thought, and a stopped reader is cut off. Under another server, or when a connection
compresses, plain ASGI does the same, slower. A lane is the way out of one connection; it is
chosen once, when it is open.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rowcast.doors.http.messages.asgi import Send

_FINAL_TEXT: Final = 0x81
_FINAL_BINARY: Final = 0x82


class Gone(Exception):  # noqa: N818 - not a mistake of anybody's: the peer has left
    """The peer is not there any more."""


# -- what is under a send ------------------------------------------------------------------------


def server_of(send: Send) -> Any:
    """Return the server's object that an ASGI ``send`` belongs to, through what wraps it."""
    while hasattr(send, "__wrapped__"):
        send = send.__wrapped__
    return getattr(send, "__self__", None)


def cut(send: Send) -> bool:
    """Cut a connection without what waits in its buffer; return whether that was possible."""
    transport = getattr(server_of(send), "transport", None)
    if transport is None:
        return False
    transport.abort()
    return True


def leave_word(send: Send, block: bytes) -> bool:
    """End an event stream whose peer does not read, with a last block behind what waits for it.

    The connection closes when the peer has taken all of it. Return whether that was possible: who
    left the word has to cut the connection if the peer never does.
    """
    if not isinstance(event_lane_of(send), FastEventLane):
        return False
    transport = server_of(send).transport
    transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(block), block))  # RFC 9112, 7.1
    transport.close()
    return True


def is_closing(send: Send) -> bool:
    """Tell whether the server has begun to close a connection."""
    transport = getattr(server_of(send), "transport", None)
    return transport is not None and bool(transport.is_closing())


# -- lanes ---------------------------------------------------------------------------------------


class Lane:
    """The way out of one connection; in plain ASGI, where ``send`` may wait."""

    name = "plain"
    immediate = False
    """Whether ``write`` works: at once, without waiting."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def pack(self, payload: bytes) -> Any:
        """Return the frame of one message: what ``send`` and ``write`` take, shared by readers."""
        raise NotImplementedError

    async def send(self, frames: Sequence[Any]) -> None:
        """Send frames in order; waits while the peer does not read. Raises Gone."""
        raise NotImplementedError

    @property
    def open(self) -> bool:
        """Whether frames may be written now: the peer reads and is there."""
        return False

    def write(self, frames: Sequence[Any]) -> None:
        """Write frames at once, if the lane is immediate and open."""
        raise NotImplementedError


class EventLane(Lane):
    """Blocks of an event stream as the body of an HTTP response."""

    def pack(self, payload: bytes) -> Any:
        """Return the block as it is."""
        return payload

    async def send(self, frames: Sequence[Any]) -> None:
        """Send blocks as one part of the body."""
        body = frames[0] if len(frames) == 1 else b"".join(frames)
        with _gone():
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


class FastEventLane(EventLane):
    """The same on uvicorn with httptools: a block is a chunk (RFC 9112, 7.1), made once."""

    name = "chunk"
    immediate = True

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        cycle = server_of(send)
        self._flow = cycle.flow
        self._transport = cycle.transport

    def pack(self, payload: bytes) -> Any:
        """Return the block as a chunk."""
        return b"%x\r\n%b\r\n" % (len(payload), payload)

    @property
    def open(self) -> bool:
        """Whether blocks may be written now."""
        return not (self._flow.write_paused or self._transport.is_closing())

    def write(self, frames: Sequence[Any]) -> None:
        """Write chunks with one call."""
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    async def send(self, frames: Sequence[Any]) -> None:
        """Write chunks as soon as the peer reads."""
        if self._flow.write_paused:
            await self._flow.drain()
        if not self.open:
            raise Gone
        self.write(frames)


class SocketLane(Lane):
    """Messages of a WebSocket."""

    def __init__(self, send: Send, *, binary: bool) -> None:
        super().__init__(send)
        self._binary = binary

    def pack(self, payload: bytes) -> Any:
        """Return the ASGI message."""
        if self._binary:
            return {"type": "websocket.send", "bytes": payload}
        return {"type": "websocket.send", "text": payload.decode()}

    async def send(self, frames: Sequence[Any]) -> None:
        """Send messages one after the other."""
        with _gone():
            for frame in frames:
                await self._send(frame)

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye, if anybody still listens."""
        with contextlib.suppress(Gone), _gone():
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


class FastSocketLane(SocketLane):
    """The same on uvicorn's sans-I/O protocol: a frame is bytes, framed once for all."""

    name = "frame"
    immediate = True

    def __init__(self, send: Send, *, binary: bool) -> None:
        super().__init__(send, binary=binary)
        protocol = server_of(send)
        self._writable: asyncio.Event = protocol.writable
        self._transport = protocol.transport

    def pack(self, payload: bytes) -> Any:
        """Return a server's whole message: one final frame, not masked (RFC 6455, 5.2)."""
        first = _FINAL_BINARY if self._binary else _FINAL_TEXT
        size = len(payload)
        if size < 126:
            return bytes((first, size)) + payload
        if size < 65_536:
            return bytes((first, 126)) + size.to_bytes(2, "big") + payload
        return bytes((first, 127)) + size.to_bytes(8, "big") + payload

    @property
    def open(self) -> bool:
        """Whether frames may be written now."""
        return self._writable.is_set() and not self._transport.is_closing()

    def write(self, frames: Sequence[Any]) -> None:
        """Write frames with one call."""
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    async def send(self, frames: Sequence[Any]) -> None:
        """Write frames as soon as the peer reads."""
        await self._writable.wait()
        if not self.open:
            raise Gone
        self.write(frames)


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    """Turn the ways in which servers tell that the peer left into one."""
    try:
        yield
    except (OSError, RuntimeError) as failure:
        raise Gone from failure


def event_lane_of(send: Send) -> EventLane:
    """Return the best lane of a response whose headers have been sent."""
    cycle = server_of(send)
    fast = (
        getattr(cycle, "chunked_encoding", None) is True
        and getattr(cycle, "response_complete", None) is False
        and isinstance(getattr(getattr(cycle, "flow", None), "write_paused", None), bool)
        and hasattr(getattr(cycle, "transport", None), "is_closing")
    )
    return FastEventLane(send) if fast else EventLane(send)


def socket_lane_of(send: Send, *, binary: bool) -> SocketLane:
    """Return the best lane of an accepted WebSocket."""
    protocol = server_of(send)
    fast = (
        isinstance(getattr(protocol, "writable", None), asyncio.Event)
        and getattr(getattr(protocol, "conn", None), "extensions", None) == []
        and hasattr(getattr(protocol, "transport", None), "is_closing")
    )
    return (FastSocketLane if fast else SocketLane)(send, binary=binary)
