"""Reads: what is there, what comes next (long-poll), and all that comes (SSE)."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from rowcast.core.durable_stream_limits import DURABLE_SSE_SECONDS, DURABLE_WATCH_SECONDS
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import nearest
from rowcast.doors.durable_streams.exchange import Answer, Request
from rowcast.doors.durable_streams.filters import FilterSource
from rowcast.doors.durable_streams.pieces import (
    Piece,
    body_of,
    control_event,
    count_of_cut,
    cursor_of,
    data_event,
)
from rowcast.features.durable_streams.offsets import position_of
from rowcast.features.durable_streams.reading import read_part
from rowcast.features.durable_streams.stream import Stream, media_type
from rowcast.features.durable_streams.streams import DurableStreams
from rowcast.kernel.kernel import Kernel

_PRIVATE: Final = {"Cache-Control": "private, no-cache"}
"""What a caller sees depends on its rights, so shared caches keep nothing."""
_NO_STORE: Final = {"Cache-Control": "no-store"}
_COMMENT: Final = b":\n\n"
_PARAMETERS: Final = ("offset", "live", "cursor")
_IS_CONDITION: Final = re.compile(r"[^=]*([!<>]|=[a-z]{0,4}=).*", re.DOTALL)
"""Such as ``temp=gt=80``, ``temp==80``, ``temp!=80`` and ``temp>80``."""


class StreamSource:
    """One stream, for one caller."""

    def __init__(
        self, kernel: Kernel, streams: DurableStreams, stream: Stream, request: Request
    ) -> None:
        self._kernel = kernel
        self._streams = streams
        self.stream = stream
        self._caller = request.caller
        self.life = stream.life
        self.content_type = stream.options.content_type
        self.is_json = stream.is_json
        self.beginning = stream.beginning
        self.in_characters = False
        """Whether pieces end with whole characters, as events of SSE do, whose text is UTF-8."""

    @property
    def tail(self) -> int:
        """The position of the last event."""
        return self.stream.tail

    @property
    def closed(self) -> bool:
        """Whether nothing is appended any more."""
        return self.stream.closed

    def authorise(self) -> None:
        """Raise unless the caller may read the stream, which is still there."""
        self._caller = self._kernel.reauthorization.current(self._caller)
        self._kernel.authorise_read(self.stream.topic, self._caller)
        if self._streams.get(self.stream.topic) is not self.stream:
            raise Error(Code.NOT_FOUND, f"the stream {self.stream.topic!r} was created anew")

    def facts(self) -> dict[str, str]:
        """Return further headers about it."""
        options, found = self.stream.options, dict[str, str]()
        if options.ttl is not None:
            found["Stream-TTL"] = str(options.ttl)
        if options.expires_at:
            found["Stream-Expires-At"] = options.expires_at
        if self.closed:
            found["Stream-Closed"] = "true"
        return found

    def touch(self) -> None:
        """A read prolongs a time to live."""
        self._streams.touch(self.stream)

    def check(self, offset: int) -> int:
        """Return the position from which to read."""
        return min(max(offset, self.beginning), self.tail)

    async def read(self, after: int) -> Piece:
        """Return the next messages."""
        part = await read_part(self._kernel, self.stream, after, self._caller)
        messages = [event.payload for event in part.events]
        kept, ended = len(messages), self.closed and part.next >= self.tail
        if self.in_characters and not ended:
            kept -= count_of_cut(messages)
        if kept == len(messages) or not (kept or part.whole):
            return Piece(messages, part.next, part.whole)
        return Piece(messages[:kept], part.events[kept - 1].seq if kept else after, part.whole)

    async def waiting(self) -> Callable[[], Awaitable[object]]:
        """Return what waits for something new after now."""
        return self.stream.changed.wait

    def close(self) -> None:
        """Nothing is held."""


Source = StreamSource | FilterSource


class Reads:
    """The reads of one door; ``poll_seconds`` is how long a long poll waits."""

    def __init__(
        self, kernel: Kernel, streams: DurableStreams, poll_seconds: float, closing: asyncio.Event
    ) -> None:
        self._kernel = kernel
        self._streams = streams
        self._poll_seconds = poll_seconds
        self._closing = closing

    async def answer(self, request: Request, source: Source) -> Answer:
        """Return the answer to a GET."""
        parameters = request.parameters()
        _check_spelling(parameters)
        offset, live = parameters.get("offset"), parameters.get("live")
        if live not in {None, "long-poll", "sse"}:
            raise Error(Code.INVALID, f"live is long-poll or sse, not {str(live)[:80]!r}")
        if live is not None and offset is None:
            raise Error(Code.INVALID, f"live={live} needs an offset: -1, now or one of this server")
        source.authorise()
        after = self._position(source, offset)
        source.touch()
        cursor = cursor_of(self._kernel.now(), parameters.get("cursor"))
        if live == "sse":
            self._kernel.reader.shedding.check_subscribe()
            return self._sse(source, after, cursor)
        if live == "long-poll":
            self._kernel.reader.shedding.check_subscribe()
            return await self._poll(source, after, cursor)
        if offset == "now":
            body = body_of((), is_json=source.is_json)
            piece = Piece((), source.tail, whole=True)
            return Answer(200, self._headers(source, piece) | _NO_STORE, body)
        piece = await source.read(after)
        return self._whole(request, source, after, piece)

    def _position(self, source: Source, offset: str | None) -> int:
        if offset is None or offset == "-1":
            return source.beginning
        if offset == "now":
            return source.tail
        return source.check(position_of(self._kernel, offset))

    def _headers(self, source: Source, piece: Piece) -> dict[str, str]:
        headers = {
            "Content-Type": source.content_type,
            "Stream-Next-Offset": self._streams.offset(piece.next),
            **_PRIVATE,
        }
        if piece.whole:
            headers["Stream-Up-To-Date"] = "true"
        if piece.whole and source.closed and piece.next >= source.tail:
            headers["Stream-Closed"] = "true"
        return headers

    def _whole(self, request: Request, source: Source, after: int, piece: Piece) -> Answer:
        headers = self._headers(source, piece)
        ended = ":closed" if "Stream-Closed" in headers else ""
        etag = f'"{source.life}:{after}:{piece.next}{ended}"'
        headers["ETag"] = etag
        asked = request.header("If-None-Match") or ""
        if etag in asked or asked == "*":
            del headers["Content-Type"]
            return Answer(304, headers)
        return Answer(200, headers, body_of(piece.messages, is_json=source.is_json))

    # -- what comes next ---------------------------------------------------------------------------

    async def _poll(self, source: Source, after: int, cursor: str) -> Answer:
        until = asyncio.get_running_loop().time() + self._poll_seconds
        try:
            while True:
                wait = await source.waiting()
                piece = await source.read(after)
                ended = source.closed and piece.next >= source.tail
                if piece.messages or ended or not await self._waits(wait, until):
                    break
                after = piece.next
                source.authorise()
        finally:
            source.close()
        headers = self._headers(source, piece) | {"Stream-Cursor": cursor}
        if not piece.messages:
            del headers["Content-Type"]
            return Answer(204, headers | _NO_STORE)
        return Answer(200, headers, body_of(piece.messages, is_json=source.is_json))

    async def _waits(self, wait: Callable[[], Awaitable[object]], until: float) -> bool:
        """Wait for something new; False when the time is over or the server stops."""
        closing = self._closing
        left = until - asyncio.get_running_loop().time()
        waiting = [asyncio.ensure_future(wait()), asyncio.ensure_future(closing.wait())]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waiting:
                each.cancel()
        return bool(done) and not closing.is_set()

    # -- all that comes ----------------------------------------------------------------------------

    def _sse(self, source: Source, after: int, cursor: str) -> Answer:
        kind = media_type(source.content_type)
        is_text = source.is_json or kind.startswith("text/")
        if isinstance(source, StreamSource):
            source.in_characters = is_text and not source.is_json
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        if not is_text:
            headers["Stream-SSE-Data-Encoding"] = "base64"
        return Answer(200, headers, self._events(source, after, cursor, is_text=is_text))

    async def _events(
        self, source: Source, after: int, cursor: str, *, is_text: bool
    ) -> AsyncIterator[bytes]:
        """Yield the events of SSE until the stream is closed, or the connection is old."""
        loop = asyncio.get_running_loop()
        until, is_sent = loop.time() + DURABLE_SSE_SECONDS, False
        try:
            while loop.time() < until:
                source.authorise()
                wait = await source.waiting()
                piece = await source.read(after)
                ended = source.closed and piece.next >= source.tail
                if piece.messages or ended or not is_sent:
                    yield self._events_of(source, piece, cursor, is_text=is_text, ended=ended)
                    is_sent = is_sent or piece.whole
                else:
                    yield _COMMENT
                if ended:
                    return
                after = piece.next
                cursor = cursor_of(self._kernel.now(), cursor)
                if piece.whole:
                    await self._waits(wait, min(until, loop.time() + DURABLE_WATCH_SECONDS))
                if self._closing.is_set():
                    return
        except Error:  # the reader connects again, and is told why
            return
        finally:
            source.close()

    def _events_of(
        self, source: Source, piece: Piece, cursor: str, *, is_text: bool, ended: bool
    ) -> bytes:
        offset = self._streams.offset(piece.next)
        control = control_event(offset, cursor, whole=piece.whole, closed=ended)
        if not piece.messages:
            return control
        body = body_of(piece.messages, is_json=source.is_json)
        return data_event(body, is_text=is_text) + control


def _check_spelling(parameters: Mapping[str, str]) -> None:
    """Raise INVALID for a misspelt one, and for a condition; the protocol ignores all others."""
    for name in sorted(parameters.keys() - set(_PARAMETERS)):
        if _IS_CONDITION.fullmatch(f"{name}={parameters[name]}"):
            raise Error(
                Code.INVALID,
                f"a stream has no conditions, such as that on {name[:80]!r}: it has all events; "
                "a live query has them (GET /Sensor/?temp=gt=80, as text/event-stream)",
            )
        meant = nearest(name, _PARAMETERS)
        if meant and meant not in parameters:
            raise Error(
                Code.INVALID,
                f'a stream has no parameter {name[:80]!r}; did you mean "{meant}"?',
            )
