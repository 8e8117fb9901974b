"""Bounded requests: uvicorn's HTTP/1.1 with limits, and reasons for what it cannot read.

uvicorn has no limit for the request line and the header fields, waits for them without end, and
says of every request that it cannot read only that it is invalid. The parser knows what it missed;
``messages/unreadable`` has a sentence for it.

An offer of another protocol than WebSocket is declined (RFC 9110, 7.8), as that of HTTP/2 is, which
Java's HttpClient and ``curl --http2`` send with every request. The parser takes what follows such a
head for the other protocol: uvicorn drops the body, or reads it as the next request. So the request
is parsed again without the offer.
"""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any, Final

from httptools import (
    HttpParserCallbackError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rowcast.core.limits import HTTP_DRAINED_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_SECONDS_MAX
from rowcast.core.read_limits import HTTP_STALL_SECONDS_MAX
from rowcast.doors.http.messages.unreadable import (
    NOT_IMPLEMENTED,
    RefusedHead,
    check_size,
    check_upgrade,
    method_of,
    sentence_of,
    too_long,
    trailers_too_long,
    unknown_method,
)

_ANSWERED: Final[Any] = SimpleNamespace(response_complete=True)
"""Stands for a request that is parsed again, so that uvicorn does nothing at its end."""


class _Dropping(list[tuple[bytes, bytes]]):
    """The fields of a head that is complete; what is added is dropped."""

    def append(self, field: tuple[bytes, bytes], /) -> None:
        """Drop a field."""


class _ToTheEnd(int):
    """The length of a body that ends with its connection, which nothing is longer than.

    A client of HTTP/1.0 reads no chunks (RFC 9112, 6.1), and no 100 (RFC 9110, 10.1.1).
    """

    def __lt__(self, _length: int) -> bool:
        return False

    def __sub__(self, _length: int) -> "_ToTheEnd":
        return self


class RequestHeadLimits(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with a timeout and a size limit for request heads.

    A client that sends its request line and headers slowly, or without end, gets 408, 414 or 431
    and is closed. One timer serves a connection for its lifetime, while uvicorn creates and cancels
    one per response; so an idle connection is closed after its keep-alive time or up to
    ``head_seconds_max`` later. A client that reads nothing of its answer for ``stall_seconds_max``,
    or as much longer, is cut off: it would hold a connection and a page of its answer for good.
    """

    _pauses = 0
    """How often the peer has read too slowly."""
    _unread = (0, 0)
    """That number and the bytes that wait to be read, as they have been for a while."""
    _unread_since = 0.0

    def __init__(
        self,
        *arguments: Any,
        head_seconds_max: float = HTTP_HEAD_SECONDS_MAX,
        head_bytes_max: int = HTTP_HEAD_BYTES_MAX,
        drained_bytes_max: int = HTTP_DRAINED_BYTES_MAX,
        stall_seconds_max: float = HTTP_STALL_SECONDS_MAX,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._head_seconds_max = head_seconds_max
        self._head_bytes_max = head_bytes_max
        self._drained_bytes_max = drained_bytes_max
        self._stall_seconds_max = stall_seconds_max
        self._head_since = self.loop.time()
        self._head_bytes = 0
        """Bytes of a head that were read before those of ``_data_bytes``."""
        self._data_bytes = 0
        self._rest_bytes = 0
        """Bytes since the last part of a body: of trailers, or read past after the answer."""
        self._data = b""
        """What is being parsed, for the reason why it cannot be."""
        self._declining = b""
        """A head without its offer of another protocol, until the parser has left the former."""
        self._cycle: Any = None
        """The request before such a head."""
        self._again = b""
        """What is parsed next: such a head, and what followed it."""
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first head."""
        super().connection_made(transport)
        self._look_in(min(self._head_seconds_max, self.timeout_keep_alive))

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head, and those that belong to no body."""
        self._data = data
        self._data_bytes = len(data)
        cycle: Any = self.cycle
        body_bytes = len(cycle.body) if cycle is not None else 0
        super().data_received(data)
        while self._again:
            self._data, self._again = self._again, b""
            super().data_received(self._data)
        self._data = b""
        if self._head_since:
            self._head_bytes += len(data)
            if self._head_bytes > self._head_bytes_max and not self.transport.is_closing():
                self._refuse(*too_long(len(self.url), self._head_bytes, self._head_bytes_max))
        elif self.cycle is not None and self.cycle.more_body:
            self._count_rest(self.cycle is cycle and len(cycle.body) == body_bytes)

    def _count_rest(self, is_no_body: bool) -> None:
        """Bound the trailers of a body, and what is read past after the answer."""
        cycle: Any = self.cycle
        self._rest_bytes = self._rest_bytes + self._data_bytes if is_no_body else 0
        most = self._drained_bytes_max if cycle.response_complete else self._head_bytes_max
        if self._rest_bytes <= most or self.transport.is_closing():
            return
        if cycle.response_started:
            self.transport.close()
        else:
            self._refuse(*trailers_too_long(most))

    def pause_writing(self) -> None:
        """Count it: as long as writing pauses, what waits to be read only becomes less."""
        self._pauses += 1
        super().pause_writing()

    def on_message_begin(self) -> None:
        """Start the timeout of this head.

        Only the start of a request ends the idle time: empty lines, and the body of an already
        answered request, would otherwise keep a connection open without end.
        """
        super().on_message_begin()
        cycle: Any = self.cycle
        is_first = cycle is None or (self._idle_since and not cycle.more_body)
        self._head_bytes = 0 if is_first else -self._data_bytes  # it began with another's end
        self._idle_since = 0.0
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """Stop the timeout: the body has its own limits (``bodies``).

        Fields after the body must not count as those of the head, which proxies judge (RFC 9110,
        6.5.1), so from here on the parser adds them to a list that drops them.
        """
        self._head_since = 0.0
        self._rest_bytes = 0
        if max(0, self._head_bytes) + self._data_bytes > self._head_bytes_max:
            check_size(self.url, self.headers, self._head_bytes_max)
        if self.parser.should_upgrade():
            if self._should_upgrade():
                check_upgrade(self.url, self.headers)
            elif rest := self._without_offer():
                self._declining = rest
                self._cycle, self.cycle = self.cycle, _ANSWERED
                return
        super().on_headers_complete()
        self.headers = _Dropping(self.headers)
        if self.scope["http_version"] == "1.0" and self.cycle is not None:
            cycle: Any = self.cycle
            cycle.chunked_encoding = False
            cycle.expected_content_length = _ToTheEnd()
            cycle.waiting_for_100_continue = False

    def _without_offer(self) -> bytes:
        """Return this head without its field Upgrade; empty if it has none, as that of CONNECT."""
        kept = [(name, value) for name, value in self.headers if name != b"upgrade"]
        if len(kept) == len(self.headers):
            return b""
        version = self.parser.get_http_version().encode("ascii")
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in kept]
        return b"\r\n".join([*lines, b"", b""])

    def _unsupported_upgrade_warning(self) -> None:
        """Let the head be parsed again, and what follows it: the parser says where that begins.

        By a new parser, as the former reads nothing after ``Connection: close``.
        """
        paused = sys.exception()
        if self._declining and isinstance(paused, HttpParserUpgrade):
            self._again = self._declining + self._data[paused.args[0] :]
            self._declining, self.cycle = b"", self._cycle
            self.parser = HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

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
        """Say what is wrong with a request that cannot be read: the parser's error is at hand."""
        failure = sys.exception()
        cause = failure.__context__ if isinstance(failure, HttpParserCallbackError) else failure
        if isinstance(cause, RefusedHead):
            self._refuse(cause.status, cause.sentence)
        elif isinstance(cause, HttpParserInvalidMethodError) and (method := method_of(self._data)):
            self._refuse(NOT_IMPLEMENTED, unknown_method(method))
        else:
            super().send_400_response(sentence_of(str(cause or "")))

    def _look_in(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _is_stalled(self, now: float) -> bool:
        """Whether the peer has long read nothing, and nothing can have been written meanwhile."""
        waiting = self.transport.get_write_buffer_size()
        may_judge = self.flow.write_paused or self._idle_since or self.transport.is_closing()
        if not may_judge or not waiting or self._unread != (self._pauses, waiting):
            self._unread, self._unread_since = (self._pauses, waiting), now
        return now - self._unread_since >= self._stall_seconds_max

    def _look(self) -> None:
        now, left = self.loop.time(), float(self._head_seconds_max)
        if self._is_stalled(now):
            self.transport.abort()
            return
        if self.transport.is_closing():
            if self._unread[1]:  # it ends when all is read
                self._look_in(left)
            return
        if self._idle_since:
            left = self.timeout_keep_alive - (now - self._idle_since)
        elif self._head_since:
            left -= now - self._head_since
        if left > 0:
            self._look_in(left)
        elif self._idle_since:
            self.timeout_keep_alive_handler()
            self._look_in(float(self._head_seconds_max))
        else:
            sentence = f"send the whole request head within {self._head_seconds_max} s"
            self._refuse("408 Request Timeout", sentence)

    def _refuse(self, status: str, sentence: str) -> None:
        """Respond with the reason, if any part of a request was received, and close."""
        if self._data_bytes:
            self.transport.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(sentence)}\r\nconnection: close\r\n\r\n{sentence}".encode()
            )
        self.transport.close()
