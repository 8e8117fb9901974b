"""What answers HTTP while a node can have no role: every request is told why.

A node whose disk is full cannot open its tables, and without this its port would refuse connections
without a word. It is asked nothing but what it lacks: ``/health`` is 200, so that nothing starts
the process again, ``/health/ready`` has the problem as its only check, all else is 503.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, cast

from rowcast.core.errors import Error
from rowcast.core.limits import HTTP_HEAD_SECONDS_MAX
from rowcast.doors.http.messages.problems import problem
from rowcast.net.handshake import Handshakes
from rowcast.net.listener import Listener

HEAD_BYTES_MAX: Final = 64 * 1024
"""Of a request that is read before it is answered: as much as HTTP servers take."""
CONNECTIONS_MAX: Final = 256
"""Open ones: probes and clients ask once each. More are cut, so that files stay for the log."""
HEAD_END: Final = b"\r\n\r\n"
RETRY_AFTER: Final = b"Retry-After: 1\r\n"
_HEAD: Final = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sConnection: close"


def answer(request: bytes, error: Error) -> bytes:
    """Return the response to a request, from its first line."""
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    status, media, more = HTTPStatus.SERVICE_UNAVAILABLE, b"application/json", RETRY_AFTER
    content: dict[str, object] = {"ready": False, "checks": {"start": error.message}}
    if path == "/health":
        status, more, content = HTTPStatus.OK, b"", {"status": "waiting"}
    elif path != "/health/ready":
        media, content = b"application/problem+json", problem(error, path)
    body = json.dumps(content).encode()
    head = _HEAD % (status, status.phrase.encode(), media, len(body), more)
    return head + HEAD_END + (b"" if method == b"HEAD" else body)


class Waiting(asyncio.Protocol):
    """One connection, for ``seconds`` at most; ``open_ones`` has the transports of all."""

    def __init__(
        self, reason: Callable[[], Error], open_ones: set[asyncio.Transport], seconds: float
    ) -> None:
        self._reason, self._open, self._seconds = reason, open_ones, seconds
        self._got = b""
        self._answered = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note it, or cut it when too many are open."""
        self._transport = cast("asyncio.Transport", transport)  # of a stream; uvloop's is no heir
        if len(self._open) >= CONNECTIONS_MAX:
            self._transport.abort()
            return
        self._open.add(self._transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio calls it
        """Forget it."""
        self._open.discard(self._transport)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer the first request when its head is here; read the rest, so that none is reset."""
        if self._answered:
            return
        self._got += data
        if HEAD_END in self._got or len(self._got) > HEAD_BYTES_MAX:
            self._answered = True
            self._transport.write(answer(self._got, self._reason()))
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:  # TLS cannot end one direction only
                self._transport.close()


@asynccontextmanager
async def waiting_door(
    host: str,
    port: int | None,
    reason: Callable[[], Error],
    secure_port: int | None = None,
    context: ssl.SSLContext | None = None,
    seconds: float = HTTP_HEAD_SECONDS_MAX,
) -> AsyncIterator[None]:
    """Listen for HTTP meanwhile, and tell the reason; for HTTPS, too, if there is a context.

    A port that is None or that cannot be had is left out. A connection ends after ``seconds``, with
    its answer or without a request.
    """
    open_ones: set[asyncio.Transport] = set()

    def make() -> asyncio.Protocol:
        return Waiting(reason, open_ones, seconds)

    ports, shaking = [(port, make)], None
    if context is not None:
        shaking = Handshakes("HTTPS", lambda: context, make)
        ports.append((secure_port, shaking.protocol))
    listeners = [Listener(begin, host, number) for number, begin in ports if number]
    for listener in listeners:
        with suppress(OSError):
            await listener.start()
    try:
        yield
    finally:
        for listener in listeners:
            listener.stop()
        for transport in list(open_ones):
            transport.abort()
        if shaking is not None:
            await shaking.stop()
