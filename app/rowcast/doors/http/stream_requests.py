"""Requests of HTTP to the door of durable streams, and its answers (V7).

The door is passed in: it knows the protocol of streams, and this the one of the server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from rowcast.core.durable_stream_limits import DURABLE_DISCARDED_BYTES
from rowcast.core.errors import Code, Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import (
    HeaderList,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    TrackedSend,
    topic_of,
)
from rowcast.doors.http.messages.bodies import read_body
from rowcast.doors.http.messages.problems import as_error
from rowcast.doors.http.messages.replies import HARMLESS, send_problem, unless_gone
from rowcast.kernel.kernel import Kernel

ROOT: Final = "/$streams/"
"""The beginning of the paths of streams."""
_ALWAYS: Final[HeaderList] = [
    *HARMLESS,
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Headers of every answer: what a stream holds is no page (Durable Streams, 10.7)."""


class StreamsDoor(Protocol):
    """The door of durable streams."""

    async def answer_http(
        self,
        method: str,
        name: str,
        query: bytes,
        headers: Headers,
        caller: Any,
        url: str,
        body: Callable[[], Awaitable[bytes]],
    ) -> Any:
        """Return an answer: ``status``, ``headers``, ``body`` and ``error``."""


def _asked(
    door: StreamsDoor, edge: HttpDoor, headers: Headers, scope: Scope, receive: Receive
) -> Awaitable[Any]:
    """Ask the door."""
    return door.answer_http(
        scope["method"],
        topic_of(scope)[len(ROOT) - 1 :],
        scope["query_string"],
        headers,
        edge.caller(scope, "http"),
        _url(headers, scope),
        partial(_body, edge, headers, receive),
    )


async def _body(edge: HttpDoor, headers: Headers, receive: Receive) -> bytes:
    most, seconds = edge.settings.body_bytes_max, edge.settings.body_seconds_max
    check = edge.kernel.reader.shedding.check_unfinished
    try:
        return await read_body(headers, receive, most, seconds, check)
    except Error as error:
        if error.code is Code.TOO_LARGE and b"content-length" in headers:  # nothing was read
            await _discard(receive, seconds)
        raise


async def _discard(receive: Receive, seconds: float) -> None:
    """Read on, up to a bound: many clients read no answer before they have sent the whole body."""
    left = DURABLE_DISCARDED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return


async def serve(
    door: StreamsDoor,
    edge: HttpDoor,
    headers: Headers,
    scope: Scope,
    receive: Receive,
    send: TrackedSend,
) -> None:
    """Answer one request."""
    send.path, send.named = ROOT.strip("/"), True
    out = partial(_with_headers, send, _ALWAYS)
    try:
        work = _asked(door, edge, headers, scope, receive)
        if scope["method"] in {"GET", "HEAD"}:
            await unless_gone(receive, _answer(edge.kernel, work, headers, scope, out))
        else:
            await _answer(edge.kernel, work, headers, scope, out)
    except Exception as failure:
        error = as_error(failure, f"{scope['method']} {scope['path'][:200]!r}")
        if send.status:
            raise error from failure
        await send_problem(edge.kernel, error, headers, scope, out)


async def _answer(
    kernel: Kernel, work: Awaitable[Any], headers: Headers, scope: Scope, send: Send
) -> None:
    answer = await work
    said = [(name.lower().encode(), it.encode("latin-1")) for name, it in answer.headers.items()]
    out = partial(_with_headers, send, said)
    if answer.error is not None:
        await send_problem(kernel, answer.error, headers, scope, out)
    elif isinstance(answer.body, bytes):
        await _send_whole(answer.status, answer.body, out)
    else:
        await _send_pieces(answer.status, answer.body, out)


async def _send_whole(status: int, body: bytes, send: Send) -> None:
    length = [] if status in {204, 304} else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": length})
    await send({"type": "http.response.body", "body": body})


async def _send_pieces(status: int, pieces: AsyncIterator[bytes], send: Send) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)  # others have their turn between two pieces
    await send({"type": "http.response.body", "body": b""})


async def _with_headers(send: Send, more: HeaderList, message: Message) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], *more]
    await send(message)


def _url(headers: Headers, scope: Scope) -> str:
    host = headers.get(b"host", b"localhost").decode("latin-1")
    raw = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    if any(sign in host + raw for sign in "\r\n"):
        raise Error(Code.INVALID, "the Host or the path has a line break")
    return f"{scope.get('scheme', 'http')}://{host}{raw}"
