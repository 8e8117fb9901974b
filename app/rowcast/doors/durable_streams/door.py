"""The door of the Durable Streams protocol (V7): verbs of HTTP at ``/$streams/<name>``.

PUT creates a stream, POST appends, GET reads, HEAD tells where it ends, DELETE ends it. It decides
nothing: ``features/durable_streams/`` has the streams, and the kernel the rights. A filter of
tables and topics, such as ``/$streams/Sensor/+``, is read as a stream of events.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from rowcast.core.callers import Caller
from rowcast.core.durable_stream_limits import DURABLE_NAME_BYTES_MAX
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE
from rowcast.core.topics import check_topic, is_pattern
from rowcast.doors.durable_streams.exchange import Answer, Request
from rowcast.doors.durable_streams.filters import FilterSource
from rowcast.doors.durable_streams.headers import (
    mark_of,
    messages_of,
    options_of,
    seq_of,
    type_of,
)
from rowcast.doors.durable_streams.reads import Reads, StreamSource
from rowcast.features.durable_streams.appends import Append, Appended
from rowcast.features.durable_streams.producers import Refusal
from rowcast.features.durable_streams.stream import ProducerNumber, Stream, media_type
from rowcast.features.durable_streams.streams import DurableStreams
from rowcast.kernel.kernel import Kernel

Verb = Callable[[Request], Awaitable[Answer]]
METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS")


class DurableStreamsDoor:
    """The door of one server; ``poll_seconds`` is how long a long poll waits."""

    def __init__(
        self,
        kernel: Kernel,
        streams: DurableStreams,
        poll_seconds: float,
        closing: asyncio.Event,
    ) -> None:
        self._kernel = kernel
        self._streams = streams
        self._reads = Reads(kernel, streams, poll_seconds, closing)
        self._verbs: dict[str, Verb] = {
            "PUT": self._put,
            "POST": self._post,
            "GET": self._get,
            "HEAD": self._head,
            "DELETE": self._delete,
        }

    async def answer_http(self, *request: Any) -> Answer:
        """Return the answer to a request of HTTP, which has the fields of ``Request``."""
        return await self.answer(Request(*request))

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request; an Error is an answer, too."""
        try:
            return await self._verb(request)(request)
        except Refusal as refusal:
            return Answer(0, refusal.headers, error=refusal.error)
        except Error as error:
            return Answer(0, error=error)

    def _verb(self, request: Request) -> Verb:
        """Return what carries out a request. Raises NOT_ALLOWED, INVALID."""
        if len(request.name.encode()) > DURABLE_NAME_BYTES_MAX:
            raise Error(
                Code.INVALID, f"the name of a stream has at most {DURABLE_NAME_BYTES_MAX} bytes"
            )
        verb = self._verbs.get(request.method)
        if verb is None:
            words = f"a stream has no {request.method}"
            raise Error(Code.NOT_ALLOWED, words, allow=list(METHODS))
        return verb

    # -- writes ------------------------------------------------------------------------------------

    async def _put(self, request: Request) -> Answer:
        self._check_writable(request)
        options, ends = options_of(request)
        self._kernel.rights.check_write(request.name, request.caller, MESSAGE)
        body, caller = await self._received(request)
        kind = options.content_type
        if not kind and options.source:
            self._kernel.authorise_read(options.source, caller)
            kind = self._streams.get(options.source).options.content_type
        content = Append(self._content(kind, body) if body else ())
        stream, is_new = await self._streams.create(request.name, options, ends, content, caller)
        headers = {"Content-Type": stream.options.content_type, **self._place(stream)}
        if is_new:
            headers["Location"] = request.url
        return Answer(201 if is_new else 200, headers)

    async def _post(self, request: Request) -> Answer:
        self._check_writable(request)
        self._kernel.rights.check_write(request.name, request.caller, MESSAGE)
        stream = self._streams.get(request.name)  # after that: it tells which streams there are
        body, caller = await self._received(request)
        kind = type_of(request)
        closes, mark = request.is_true("Stream-Closed"), mark_of(request)
        messages: tuple[bytes, ...] = ()
        if body:
            messages = self._checked(stream, body, kind)
        elif not closes:
            raise Error(Code.INVALID, "the body is empty; send what is to be appended")
        content = Append(messages, mark, seq_of(request), closes)
        done = await self._streams.append(request.name, content, caller)
        is_new = mark is not None and bool(messages) and not done.repeat
        return Answer(200 if is_new else 204, self._place(done.stream) | _numbers(mark, done))

    async def _received(self, request: Request) -> tuple[bytes, Caller]:
        """Return the body, and the caller as it is by then: a body may take minutes."""
        body = await request.body()
        return body, self._kernel.reauthorization.current(request.caller)

    def _checked(self, stream: Stream, body: bytes, kind: str) -> tuple[bytes, ...]:
        if not kind:
            raise Error(
                Code.INVALID, f"Content-Type is missing; it is {stream.options.content_type}"
            )
        if media_type(kind) != media_type(stream.options.content_type):
            headers = self._streams.closed_headers(stream) if stream.closed else {}
            words = f"the stream {stream.topic!r} is of {stream.options.content_type}, not {kind}"
            raise Refusal(Error(Code.CONFLICT, words), headers)
        messages = self._content(kind, body)
        if not messages:
            raise Error(Code.INVALID, "the array is empty; send at least one message")
        return messages

    @staticmethod
    def _content(kind: str, body: bytes) -> tuple[bytes, ...]:
        return tuple(messages_of(body)) if media_type(kind) == "application/json" else (body,)

    async def _delete(self, request: Request) -> Answer:
        self._check_writable(request)
        await self._streams.delete(request.name, request.caller)
        return Answer(204)

    def _check_writable(self, request: Request) -> None:
        """Raise INVALID for a name that is no topic, NOT_ALLOWED at a declared table."""
        name = request.name
        route = None if is_pattern(name) else self._kernel.registry.route(name)
        if route is None or route.entry is not None:
            raise Error(
                Code.NOT_ALLOWED,
                f"{name[:200]!r} is of a table or is a filter, whose events are only read here; "
                "write records at their own paths",
                allow=["GET", "HEAD", "OPTIONS"],
            )
        check_topic(name)
        if name.startswith("$"):
            raise Error(Code.DENIED, "names with $ are those of the server; take another one")

    # -- reads -------------------------------------------------------------------------------------

    async def _get(self, request: Request) -> Answer:
        return await self._reads.answer(request, self._source(request))

    async def _head(self, request: Request) -> Answer:
        source = self._source(request)
        source.authorise()
        headers = {"Content-Type": source.content_type, "Cache-Control": "no-store"}
        headers["Stream-Next-Offset"] = self._streams.offset(source.tail)
        return Answer(200, headers | source.facts())

    def _source(self, request: Request) -> StreamSource | FilterSource:
        name = request.name
        if name and not is_pattern(name):
            stream = self._streams.find(name)
            declared = self._kernel.registry.route(name).entry is not None
            if stream is not None or not declared:
                self._kernel.authorise_read(name, request.caller)
                return StreamSource(self._kernel, self._streams, self._streams.get(name), request)
        return FilterSource(self._kernel, name, request.caller)

    def _place(self, stream: Stream) -> dict[str, str]:
        headers = {"Stream-Next-Offset": self._streams.offset(stream.tail)}
        return headers | ({"Stream-Closed": "true"} if stream.closed else {})


def _numbers(mark: ProducerNumber | None, done: Appended) -> dict[str, str]:
    if mark is None:
        return {}
    return {"Producer-Epoch": str(mark.epoch), "Producer-Seq": str(done.number)}


def streams_door(
    kernel: Kernel, poll_seconds: float, closing: asyncio.Event
) -> DurableStreamsDoor | None:
    """Return the door; None without the feature. ``closing`` is set when the server stops."""
    streams = kernel.service(DurableStreams)
    return None if streams is None else DurableStreamsDoor(kernel, streams, poll_seconds, closing)
