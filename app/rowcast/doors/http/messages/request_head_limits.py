"""Request heads, bounded in time and size, which uvicorn leaves open; and the time between them.

A client that sends its request line and headers a byte at a time, or without end, is told so and
cut off; bodies have their own bounds (``bodies.py``). One timer serves a connection for its life:
it looks now and then, where uvicorn makes and cancels one for each answer. So a connection that
nobody uses any more is closed when its time is over or up to HTTP_HEAD_SECONDS_MAX later.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rowcast.core.limits import HTTP_HEAD_BYTES_MAX, HTTP_HEAD_SECONDS_MAX

TOO_LATE = "408 Request Timeout", f"send the whole request head within {HTTP_HEAD_SECONDS_MAX} s"
TOO_LARGE = (
    "431 Request Header Fields Too Large",
    f"a request head may have {HTTP_HEAD_BYTES_MAX} bytes",
)


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with an end to patience."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_since = self.loop.time()
        self._head_bytes = 0
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._look_in(min(HTTP_HEAD_SECONDS_MAX, self.timeout_keep_alive))

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of a head."""
        super().data_received(data)
        if self._head_since:
            self._head_bytes += len(data)
            if self._head_bytes > HTTP_HEAD_BYTES_MAX:
                self._refuse(*TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin to wait for the end of this head.

        Only that ends a rest between requests: empty lines, and the body of a request that is
        answered already, would else hold a connection for ever.
        """
        super().on_message_begin()
        self._idle_since = 0.0
        self._head_since = self.loop.time()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Stop waiting: the rest is the body, which is bounded elsewhere."""
        self._head_since = 0.0
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, without a timer of its own."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if not self._head_since:
            self._idle_since = self.loop.time()

    def _look_in(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        now, left = self.loop.time(), float(HTTP_HEAD_SECONDS_MAX)
        if self._idle_since:
            left = self.timeout_keep_alive - (now - self._idle_since)
        elif self._head_since:
            left -= now - self._head_since
        if left > 0:
            self._look_in(left)
        elif self._idle_since:
            self.timeout_keep_alive_handler()
        else:
            self._refuse(*TOO_LATE)

    def _refuse(self, status: str, sentence: str) -> None:
        """Say why, if anything was asked at all, and close."""
        if self.transport.is_closing():
            return
        if self._head_bytes:
            self.transport.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(sentence)}\r\nconnection: close\r\n\r\n{sentence}".encode()
            )
        self.transport.close()
