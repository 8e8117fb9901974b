"""Passes on one request, and its answer: both as streams, at the pace of the slower side."""

import asyncio
from contextlib import suppress
from typing import Final

import httptools

from rowcast.core.errors import Code, Error
from rowcast.doors.relay.upstream import (
    HeaderList,
    OpenFar,
    Receive,
    Scope,
    Send,
    Upstream,
    headers_on,
    target_of,
)

CHUNKED: Final = (b"transfer-encoding", b"chunked")
_OF_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})
_OF_LENGTH: Final = frozenset({b"content-length", b"transfer-encoding"})
EXPECT: Final = (b"expect", b"100-continue")
SMALL_BYTES: Final = 32 * 1024
"""A body up to this is sent at once; a larger one when the other node wants it (RFC 9110, 10.1.1):
a node that has refused it closes, and an answer may be lost when more is sent after that."""
GATHER_SECONDS: Final = 1.0
"""How long a small body is waited for, so that it goes with its headers: a node that refuses these
has taken it then. A slower one is passed on as it comes, and has the time that the other node sets.
"""
_CONTINUE: Final = 100
_OK: Final = 200
BODILESS: Final = frozenset({204, 304})
STREAM: Final = b"text/event-stream"
"""The media type of an answer that never ends by itself."""


class Response:
    """What has come of an answer; ``httptools`` calls it."""

    def __init__(self, *, bodiless: bool) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._bodiless = bodiless
        """Whether it has headers only, as the answer to HEAD."""
        self.headers: HeaderList = []
        self.status = 0
        """Of the final answer, once its headers are here."""
        self.body: list[bytes] = []
        self.ended = False
        self.ends_with_connection = True
        """Whether only the end of the connection ends it: it has no length, and no chunks."""
        self.wants_body = asyncio.Event()
        """Set when the other node asks for the body, or has answered without it."""

    def feed(self, data: bytes) -> None:
        """Take bytes. Raises BUSY for what is no HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.ended:
                raise Error(Code.BUSY, f"the other node answers with no HTTP: {error}") from error

    def on_message_begin(self) -> None:
        """Begin, also after an interim answer."""
        self.headers, self.ends_with_connection = [], True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name = name.lower()
        if name in _OF_LENGTH:
            self.ends_with_connection = False
        if name not in _OF_CONNECTION:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the status."""
        status = self._parser.get_status_code()
        if status == _CONTINUE or status >= _OK:
            self.wants_body.set()
        if status >= _OK:
            self.status = status
            self.ended = self._bodiless or status in BODILESS

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream, whose reader connects again when it ends."""
        return any(
            name == b"content-type" and value.startswith(STREAM) for name, value in self.headers
        )

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        self.body.append(data)

    def on_message_complete(self) -> None:
        """End, unless it was an interim answer."""
        self.ended = self.ended or bool(self.status)


async def pass_on(
    open_far: OpenFar,
    scope: Scope,
    receive: Receive,
    send: Send,
    closing: asyncio.Event,
    gather_seconds: float = GATHER_SECONDS,
) -> None:
    """Pass on a request; once ``closing`` is set, event streams end.

    Raises BUSY when nothing of an answer has been sent.
    """
    upstream = await Upstream.open(open_far, scope)
    response = Response(bodiless=scope["method"] == "HEAD")
    asking = asyncio.create_task(_ask(upstream, scope, receive, response, gather_seconds))
    answering = asyncio.create_task(_answer(upstream, response, send, closing))
    try:
        await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():  # the client has gone
            upstream.close()
            return
        answering.result()
    finally:
        for task in (asking, answering):
            task.cancel()
        await asyncio.gather(asking, answering, return_exceptions=True)
        upstream.close()


async def _ask(
    upstream: Upstream, scope: Scope, receive: Receive, response: Response, gather_seconds: float
) -> None:
    """Send the request; returns when the client has gone."""
    headers = headers_on(scope)
    given = dict(scope["headers"])
    size = int(given.get(b"content-length", b"0"))
    is_chunked = b"content-length" not in given and b"transfer-encoding" in given
    waits = is_chunked or size > SMALL_BYTES
    headers += [CHUNKED] * is_chunked + [EXPECT] * waits
    if b"host" not in given and scope.get("http_version") != "1.1":  # it needs none before
        headers.append((b"host", b""))
    first = b"%s %s HTTP/1.1" % (scope["method"].encode(), target_of(scope))
    lines = [b": ".join(pair) for pair in headers]
    gathered = None if waits else await _gather(receive, gather_seconds)
    body, more = gathered or (b"", True)
    if gathered is None and not waits:
        return
    with suppress(OSError):  # the answer, if any, says more
        await upstream.send(b"\r\n".join((first, *lines, b"", body)))
        if waits:
            await response.wants_body.wait()
        to_send = more and not response.status
        if to_send and not await _send_body(upstream, receive, chunked=is_chunked):
            return
    while (await receive())["type"] != "http.disconnect":
        """Nothing more is passed on."""


async def _gather(receive: Receive, seconds: float) -> tuple[bytes, bool] | None:
    """Return what comes of a body in some seconds, and whether more does; None: nobody asks."""
    parts: list[bytes] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts), False
    return b"".join(parts), True


async def _send_body(upstream: Upstream, receive: Receive, *, chunked: bool) -> bool:
    """Send the body; return False if the client has gone."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        body, more = message.get("body", b""), message.get("more_body", False)
        if body:
            await upstream.send(b"%x\r\n%s\r\n" % (len(body), body) if chunked else body)
    if chunked:
        await upstream.send(b"0\r\n\r\n")
    return True


async def _answer(
    upstream: Upstream, response: Response, send: Send, closing: asyncio.Event
) -> None:
    while not response.status and await _read(upstream, response):
        """Interim answers, and parts of headers."""
    if not response.status:
        raise lost()
    head = {"status": response.status, "headers": response.headers}
    await send({"type": "http.response.start", **head})
    if not response.is_stream:
        await _pass_body(upstream, response, send)
        return
    ending = asyncio.create_task(_end_when(closing, upstream, response))
    try:
        await _pass_body(upstream, response, send)
    finally:
        ending.cancel()


async def _read(upstream: Upstream, response: Response) -> bool:
    """Take what comes next; return False at the end."""
    try:
        data = await upstream.read()
    except OSError:
        data = b""
    if data:
        response.feed(data)
    return bool(data)


async def _pass_body(upstream: Upstream, response: Response, send: Send) -> None:
    more = True
    while more:
        body, response.body = b"".join(response.body), []
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        more = not response.ended and await _read(upstream, response)
    if response.ended or response.ends_with_connection:  # else it is cut short, as it came
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _end_when(closing: asyncio.Event, upstream: Upstream, response: Response) -> None:
    """End a stream when this node stops. An event that is cut has no end: no reader takes it."""
    await closing.wait()
    response.ended = True
    upstream.close()


def lost() -> Error:
    """Return what a client is told when the other node has gone before it has answered."""
    return Error(
        Code.BUSY,
        "the connection to the sequencer was lost before it answered: it is not known whether this "
        "was done; read before you repeat it",
        retry_after_seconds=1,
    )
