"""Fast path: all code that uses uvicorn's private attributes, in one file.

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
from uvicorn.protocols.websockets import websockets_sansio_impl

from rowcast.core.limits import HTTP_HEAD_BYTES_MAX, HTTP_HEAD_SECONDS_MAX
from rowcast.doors.http.messages.asgi import Receive, Send, TrackedSend, whole_answer
from rowcast.doors.http.messages.problems import MALFORMED
from rowcast.doors.http.streams.channels import Channel, EventChannel, Gone, SocketChannel
from rowcast.doors.http.uvicorn_samples import GET, PUT, UPGRADE, at_once, connection

log = logging.getLogger("rowcast.doors.http")

_SOCKET: Any = getattr(websockets_sansio_impl, "WebSocketsSansIOProtocol", None)


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


# -- bounded request heads -------------------------------------------------------------------------


class RequestHeadLimits(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with a timeout and a size limit for request heads.

    A client that sends its request line and headers slowly, or without end, gets 408 or 431 and is
    closed. One timer serves a connection for its lifetime, while uvicorn creates and cancels one
    per response; so an idle connection is closed after its keep-alive time or up to
    ``head_seconds_max`` later.
    """

    def __init__(
        self,
        *arguments: Any,
        head_seconds_max: float = HTTP_HEAD_SECONDS_MAX,
        head_bytes_max: int = HTTP_HEAD_BYTES_MAX,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._head_seconds_max = head_seconds_max
        self._head_bytes_max = head_bytes_max
        self._head_since = self.loop.time()
        self._head_bytes = 0
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first head."""
        super().connection_made(transport)
        self._look_in(min(self._head_seconds_max, self.timeout_keep_alive))

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head."""
        super().data_received(data)
        if self._head_since:
            self._head_bytes += len(data)
            if self._head_bytes > self._head_bytes_max:
                sentence = f"a request head may have {self._head_bytes_max} bytes"
                self._refuse("431 Request Header Fields Too Large", sentence)

    def on_message_begin(self) -> None:
        """Start the timeout of this head.

        Only the start of a request ends the idle time: empty lines, and the body of an already
        answered request, would otherwise keep a connection open without end.
        """
        super().on_message_begin()
        self._idle_since = 0.0
        self._head_since = self.loop.time()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Stop the timeout: the body has its own limits (``bodies``)."""
        self._head_since = 0.0
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, without a separate timer."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if not self._head_since:
            self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it says no cause
        """Say what is usually wrong with a request that cannot be read."""
        super().send_400_response(MALFORMED)

    def _look_in(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        now, left = self.loop.time(), float(self._head_seconds_max)
        if self._idle_since:
            left = self.timeout_keep_alive - (now - self._idle_since)
        elif self._head_since:
            left -= now - self._head_since
        if left > 0:
            self._look_in(left)
        elif self._idle_since:
            self.timeout_keep_alive_handler()
        else:
            sentence = f"send the whole request head within {self._head_seconds_max} s"
            self._refuse("408 Request Timeout", sentence)

    def _refuse(self, status: str, sentence: str) -> None:
        """Respond with the reason, if any part of a request was received, and close."""
        if self.transport.is_closing():
            return
        if self._head_bytes:
            self.transport.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(sentence)}\r\nconnection: close\r\n\r\n{sentence}".encode()
            )
        self.transport.close()


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


def _bodies(protocol: type[HttpToolsProtocol], *, fast: bool) -> object:
    made, _ = connection(protocol, PUT)
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
    return _difference("limited request heads are answered", one, other)


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
