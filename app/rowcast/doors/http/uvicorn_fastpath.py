"""Fast path: the code that uses uvicorn's private attributes.

All of it, but for ``request_heads`` and ``socket_pings``.

Four things need more than ASGI offers:

- **Whole answers** (``write_whole``): ASGI sends a response as two messages, each with a coroutine,
  a pass over all headers and a system call; for a cached record that costs more than all the rest.
  A prepared response is written to the transport with one call, and uvicorn's request cycle is left
  in the same state as after its own ``send``.
- **Whole bodies** (``take_body``): a small body arrives with its head, and is taken without
  ``receive``.
- **Shared frames** (``event_channel_of``, ``socket_channel_of``): a frame shared by many readers is
  written to each socket without a task or a copy, and a stalled reader can be aborted.
- **Bounded request heads** (``RequestHeadLimits``): uvicorn has no limits for them.

These attributes are not public API. ``find_problem`` therefore runs the fast path on sample
connections, and compares the bytes on the wire and the resulting state with those of uvicorn for
the same ASGI messages. If they differ, or an attribute is missing, ``PROBLEM`` has the reason,
``log_problem`` logs it at start, and all responses use plain ASGI. The same applies to other ASGI
servers, and to a wrapped ``send``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rowcast.doors.http.messages.asgi import Receive, Send, TrackedSend, whole_answer
from rowcast.doors.http.request_heads import RequestHeadLimits
from rowcast.doors.http.socket_pings import SocketPings
from rowcast.doors.http.streams.channels import Channel, EventChannel, Gone, SocketChannel
from rowcast.doors.http.uvicorn_samples import GET, OFFER, PUT, UPGRADE, at_once, connection

log = logging.getLogger("rowcast.doors.http")

_SOCKET: Any = SocketPings
"""The class of ``send`` methods of WebSockets that can be bypassed; None: unavailable."""


# -- whole answers ---------------------------------------------------------------------------------


def take_body(receive: Receive, bytes_max: int) -> bytes | None:
    """Return a complete body of at most ``bytes_max``; None: it needs ``receive``."""
    cycle: Any = getattr(receive, "__self__", None)
    if type(cycle) is not _CYCLE or cycle.more_body or len(cycle.body) > bytes_max:
        return None
    if cycle.disconnected or cycle.response_complete or cycle.waiting_for_100_continue:
        return None
    cycle.flow.resume_reading()
    cycle.message_event.clear()
    body = bytes(cycle.body)
    cycle.body = type(cycle.body)()
    return body


def write_whole(send: Send, answer: bytes) -> bool:
    """Write a complete response if that is possible at once; return whether it was."""
    tracked = send if isinstance(send, TrackedSend) else None
    cycle: Any = getattr(tracked.send if tracked is not None else send, "__self__", None)
    if (
        type(cycle) is not _CYCLE
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.default_headers
        or cycle.access_log
        or cycle.waiting_for_100_continue
    ):
        return False
    if tracked is not None:
        tracked.status = int(answer[9:12])  # pipelined in HTTP/1.1
    cycle.response_started = True
    cycle.transport.write(answer)
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


# -- shared frames ---------------------------------------------------------------------------------


class _Immediate(Channel):
    """A channel whose frames are bytes for the transport."""

    immediate = True
    _transport: asyncio.Transport

    def write(self, frames: Sequence[Any]) -> None:
        """Write frames with one call."""
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    async def send(self, frames: Sequence[Any]) -> None:
        """Write frames when the peer reads."""
        await self._writes_again()
        if not self.open:
            raise Gone
        self.write(frames)

    async def _writes_again(self) -> None:
        """Wait while the transport's buffer is full."""
        raise NotImplementedError


class FastEventChannel(_Immediate, EventChannel):
    """Blocks of an event stream; a frame is a chunk (RFC 9112, 7.1), made once for all readers."""

    name = "chunk"

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        cycle = _server_of(send)
        self._flow = cycle.flow
        self._transport = cycle.transport

    def pack(self, payload: bytes) -> Any:
        """Return the block as a chunk."""
        return b"%x\r\n%b\r\n" % (len(payload), payload)

    @property
    def open(self) -> bool:
        """Whether blocks may be written now."""
        return not (self._flow.write_paused or self._transport.is_closing())

    async def _writes_again(self) -> None:
        if self._flow.write_paused:
            await self._flow.drain()


class FastSocketChannel(_Immediate, SocketChannel):
    """Messages of a WebSocket; a frame is bytes, made once for all readers."""

    name = "frame"

    def __init__(self, send: Send, *, binary: bool) -> None:
        super().__init__(send, binary=binary)
        protocol = _server_of(send)
        self._writable: asyncio.Event = protocol.writable
        self._transport = protocol.transport

    def pack(self, payload: bytes) -> Any:
        """Return a server's complete message: one final frame, not masked (RFC 6455, 5.2)."""
        return self.frame_of(payload)

    @property
    def open(self) -> bool:
        """Whether frames may be written now."""
        return self._writable.is_set() and not self._transport.is_closing()

    async def _writes_again(self) -> None:
        await self._writable.wait()


def event_channel_of(send: Send) -> EventChannel:
    """Return the fastest channel of a response whose headers have been sent."""
    cycle = _server_of(send)
    fast = type(cycle) is _CYCLE and cycle.chunked_encoding and not cycle.response_complete
    return FastEventChannel(send) if fast else EventChannel(send)


def socket_channel_of(send: Send, *, binary: bool) -> SocketChannel:
    """Return the fastest channel of an accepted WebSocket; plain if it compresses."""
    protocol = _server_of(send)
    fast = type(protocol) is _SOCKET and not protocol.conn.extensions
    return (FastSocketChannel if fast else SocketChannel)(send, binary=binary)


def cut(send: Send) -> bool:
    """Abort a connection, dropping its buffer; return whether that was possible."""
    transport = getattr(_server_of(send), "transport", None)
    if transport is None:
        return False
    transport.abort()
    return True


def leave_word(send: Send, block: bytes) -> bool:
    """Close an event stream of a stalled peer, with a final block after its buffer.

    The connection closes when the peer has read all of it. Returns whether that was possible; the
    caller must then abort the connection if the peer never reads.
    """
    channel = event_channel_of(send)
    if not isinstance(channel, FastEventChannel):
        return False
    transport = _server_of(send).transport
    transport.write(channel.pack(block) + b"0\r\n\r\n")
    transport.close()
    return True


def is_closing(send: Send) -> bool:
    """Whether the server is closing a connection."""
    transport = getattr(_server_of(send), "transport", None)
    return transport is not None and bool(transport.is_closing())


def _server_of(send: Send) -> Any:
    """Return uvicorn's object of an ASGI ``send``, unwrapping it."""
    while isinstance(send, TrackedSend) or hasattr(send, "__wrapped__"):
        send = send.send if isinstance(send, TrackedSend) else send.__wrapped__
    return getattr(send, "__self__", None)


# -- the self-check --------------------------------------------------------------------------------


def _answer(protocol: type[HttpToolsProtocol], *, fast: bool) -> object:
    made, wire = connection(protocol, GET)
    cycle, headers = made.cycle, [(b"content-length", b"2")]
    if fast and not write_whole(cycle.send, whole_answer(200, headers, b"ok")):
        raise RuntimeError("it may not be written to")
    if not fast:
        at_once(cycle.send({"type": "http.response.start", "status": 200, "headers": headers}))
        at_once(cycle.send({"type": "http.response.body", "body": b"ok"}))
    state = (cycle.response_started, cycle.response_complete, cycle.message_event.is_set())
    return wire.written, state, made.server_state.total_requests, cycle.more_body


def _bodies(protocol: type[HttpToolsProtocol], *, fast: bool, request: bytes = PUT) -> object:
    made, _ = connection(protocol, request)
    cycle = made.cycle
    body = take_body(cycle.receive, 2) if fast else at_once(cycle.receive())["body"]
    more = cycle.body, cycle.more_body, cycle.message_event.is_set(), made.flow.read_paused
    return body, more, take_body(cycle.receive, -1)


def _events(protocol: type[HttpToolsProtocol], *, fast: bool) -> object:
    made, wire = connection(protocol, GET)
    at_once(made.cycle.send({"type": "http.response.start", "status": 200, "headers": []}))
    channel = (FastEventChannel if fast else EventChannel)(made.cycle.send)
    at_once(channel.send([channel.pack(b"data: 1\n\n")]))
    return wire.written, made.cycle.chunked_encoding, made.cycle.response_complete


def _messages(protocol: type[HttpToolsProtocol], *, fast: bool) -> object:  # noqa: ARG001
    made, wire = connection(_SOCKET, UPGRADE)
    at_once(made.send({"type": "websocket.accept"}))
    for binary in (False, True):
        channel = (FastSocketChannel if fast else SocketChannel)(made.send, binary=binary)
        at_once(channel.send([channel.pack(b"{}" * size) for size in (1, 100, 40_000)]))
    return wire.written, made.conn.extensions


def _difference(what: str, one: Callable[[], object], other: Callable[[], object]) -> str:
    """Return the difference of two implementations, or the failure of one; empty if equal."""
    try:
        return "" if one() == other() else f"{what} not as uvicorn itself"
    except Exception as failure:  # noqa: BLE001 - whatever it is: this way is not usable
        return f"{what} not at all ({type(failure).__name__}: {failure})"


def find_head_problem() -> str:
    """Return why ``RequestHeadLimits`` does not work with this uvicorn; empty if it does."""
    one, other = (partial(_answer, it, fast=False) for it in (HttpToolsProtocol, RequestHeadLimits))
    body = partial(_bodies, RequestHeadLimits, fast=False)
    return _difference("limited request heads are answered", one, other) or _difference(
        "bodies behind an offer of HTTP/2 are read", body, partial(body, request=OFFER)
    )


_WAYS: Final = {"answers": _answer, "bodies": _bodies, "events": _events, "messages": _messages}


def find_problem() -> str:
    """Return why the fast path does not work with this uvicorn; empty if it does."""
    for name, way in _WAYS.items():
        one, other = (partial(way, HTTP_PROTOCOL, fast=fast) for fast in (False, True))
        if found := _difference(f"{name} are sent", one, other):
            return found
    return ""


def log_problem() -> None:
    """Write to the log that the fast path is off, if it is."""
    if PROBLEM:
        lost = "request heads are not limited, and " if HEAD_PROBLEM else ""
        slow = "answers and streams go through plain ASGI, which is slower"
        log.warning("uvicorn %s: %s; %s%s", uvicorn.__version__, PROBLEM, lost, slow)


_CYCLE: Any = getattr(httptools_impl, "RequestResponseCycle", None)
"""The class of ``send`` methods that can be bypassed; None: unavailable."""
HEAD_PROBLEM: Final = find_head_problem()
HTTP_PROTOCOL: Final = HttpToolsProtocol if HEAD_PROBLEM else RequestHeadLimits
"""The protocol class of HTTP connections."""
PROBLEM: Final = HEAD_PROBLEM or find_problem()
if PROBLEM:
    _CYCLE = _SOCKET = None
