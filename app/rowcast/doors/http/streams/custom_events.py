"""Server-sent events of a resource with its own ``connect``, through sse-starlette.

Each yielded value is the data of one event; a map of ``event``, ``data``, ``id`` and ``retry`` sets
the event's fields. SSE is one-way, so ``connect`` gets no incoming messages.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sse_starlette import EventSourceResponse, ServerSentEvent

from rowcast.codecs import JSON
from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Receive, Scope, Send
from rowcast.doors.http.messages.problems import as_error
from rowcast.doors.http.streams.blocks import headers_for, problem_block, retry_block
from rowcast.doors.http.streams.frames import Frames
from rowcast.doors.http.streams.outgoing import encoded, event_in, items_of
from rowcast.doors.http.uvicorn_fastpath import cut
from rowcast.kernel.reauthorization import judge_resource
from rowcast.routes.resource import Resource
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.subscription import Subscription

_FIELDS: Final = frozenset({"event", "data", "id", "retry"})


async def serve_resource(
    edge: HttpDoor,
    resource: Resource,
    frames: Frames,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Send the events of a resource's own ``connect()``, which gets no messages (C7).

    It is not called for HEAD, which gets the headers alone.
    """
    headers = headers_for(frames.media_type, [])
    if scope["method"] == "HEAD":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    response = EventSourceResponse(
        _blocks(edge, resource, frames),
        headers={k.decode(): v.decode() for k, v in headers},
        ping=edge.settings.sse_heartbeat_seconds,
        ping_message_factory=lambda: ServerSentEvent(comment=""),
        send_timeout=edge.settings.stream_send_seconds,
        sep="\n",
    )
    serving = ResourceStream(edge, resource, response(scope, receive, send), send)
    await serving.run()


class ResourceStream:
    """A resource's running stream; closed when the server stops."""

    def __init__(self, edge: HttpDoor, resource: Resource, work: Any, send: Send) -> None:
        self._edge = edge
        self._resource = resource
        self.path = f"/{resource.topic}"
        self.subscription: Subscription | None = None
        self._error: Error | None = None
        self._work = work
        self._send = send
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until the resource finishes, the reader disconnects or the server stops."""
        edge = self._edge
        self._task = asyncio.get_running_loop().create_task(self._work)
        edge.watch.add(self)
        try:
            await self._task
        except TimeoutError:  # the reader has not read for too long
            cut(self._send)
        except asyncio.CancelledError:
            if not self._stopped:
                self._task.cancel()
                raise
            word = problem_block(edge, self._error, self.path) if self._error is not None else b""
            await self._send({"type": "http.response.body", "body": word})
        finally:
            edge.watch.remove(self)

    @property
    def caller(self) -> Caller:
        """Who reads."""
        return self._resource.caller

    def look(self, now: float) -> None:
        """Do nothing: sse-starlette sends the heartbeats and has its own timeout."""

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Ignore notices: the stream only has the resource's events."""

    def judge(self) -> None:
        """Raise an Error if the reader is no longer authorised."""
        judge_resource(self._resource, None)

    def refuse(self, error: Error) -> None:
        """End with a problem."""
        self._error = error
        self.stop()

    def stop(self) -> None:
        """Close for shutdown."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()


async def _blocks(
    edge: HttpDoor, resource: Resource, frames: Frames
) -> AsyncIterator[bytes | ServerSentEvent]:
    """Yield a resource's values as blocks of lines."""
    yield retry_block(edge)
    try:
        source = await edge.kernel.connect(resource)
        async with contextlib.aclosing(items_of(source)) as items:
            async for item in items:
                event = event_in(item)
                yield frames.block(event) if event is not None else _block(item, frames.media_type)
    except BaseException as failure:
        if not is_mistake(failure):
            raise
        error = as_error(failure, f"the stream of {resource.topic!r}")
        yield problem_block(edge, error, f"/{resource.topic}")


def _block(item: object, media_type: str) -> ServerSentEvent:
    """Return a value as an event; a map of event fields sets those (C7)."""
    fields: dict[str, Any] = {}
    if isinstance(item, dict) and "data" in item and item.keys() <= _FIELDS:
        fields = {**item}
        item = fields.pop("data")
    data = encoded(item, media_type)
    text = data.decode() if media_type == JSON else b64encode(data).decode()
    return ServerSentEvent(text, sep="\n", **fields)
