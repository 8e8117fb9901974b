"""Server-sent events: a stream of a record, a table or any topics over plain HTTP (HTML, 9.2).

The headers go out at once, then how long to wait before a reconnect, then what the subscription
has. An event's ``id`` is its cursor, so a browser that reconnects goes on where it was; the
current records carry none, so a cut among them begins anew. Events of one turn of the loop are
one message.

It speaks ASGI directly, because frames are shared and a thousand readers must cost a thousand
writes and little else. A resource's own stream is in ``custom_events``.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from app.core.errors import Code, Error
from app.core.limits import (
    STREAM_BATCH_BYTES_MAX,
    STREAM_BATCH_EVENTS_MAX,
    STREAM_SEND_SECONDS,
)
from app.engine.subscription import Interest, Pair, Subscription
from app.http.asgi import Receive, Scope, Send, headers_of, text_of
from app.http.beginnings import Beginning, begin, resource_at
from app.http.blocks import headers_for, problem_block, retry_block
from app.http.custom_events import serve_resource
from app.http.frames import Frames
from app.http.replies import send_problem
from app.http.streams import Request, accepted, request_of
from app.http.wire import cut

if TYPE_CHECKING:
    from app.http.edge import Edge

_HEARTBEAT: Final = b":\n\n"


async def serve(edge: "Edge", scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for an event stream."""
    headers = headers_of(scope)
    caller = edge.caller(scope, "sse")
    stream = EventStream(edge, scope, send)
    try:
        request = request_of(scope, text_of(headers, b"last-event-id"))
        media_type = request.format or accepted(text_of(headers, b"accept"))
        resource = resource_at(edge.engine, request, caller)
        if resource is not None:
            await serve_resource(edge, resource, media_type, scope, receive, send)
            return
        beginning = await begin(
            edge.engine, stream.subscription, interests_of(request), request.place, caller
        )
    except Error as error:
        edge.engine.close(stream.subscription)
        await send_problem(edge.engine, error, headers, scope, send)
        return
    await stream.run(receive, beginning, media_type)


def interests_of(request: Request) -> list[Interest]:
    """Return the interests of one stream: only the last one marks the end of the records."""
    filters = request.filters
    if not filters:
        raise Error(
            Code.INVALID, "the path / names no topic; give one, or name filters with ?topic="
        )
    return [Interest(topics, marks=topics is filters[-1]) for topics in filters]


class EventStream:
    """One reader's stream."""

    def __init__(self, edge: "Edge", scope: Scope, send: Send) -> None:
        self._edge = edge
        self._send = send
        self._head = scope["method"] == "HEAD"
        self._instance = scope["path"]
        self._wake = asyncio.Event()
        self.subscription = Subscription(edge.engine.reader, on_ready=self._wake.set)
        self._over = False
        self._gone = False
        self._task: asyncio.Task[None] | None = None
        self._heartbeat_due = False
        self._sending_since = 0.0
        self._sent_at = 0.0

    async def run(self, receive: Receive, beginning: Beginning, media_type: str) -> None:
        """Send until the reader is gone or the server stops."""
        edge = self._edge
        self._task = asyncio.current_task()
        watcher = asyncio.get_running_loop().create_task(self._listen(receive))
        edge.watch.add(self)
        edge.streams += 1
        try:
            await self._open(beginning, media_type)
            if not self._head:
                await self._pump(Frames(edge.engine, media_type))
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            edge.streams -= 1
            edge.watch.remove(self)
            edge.engine.close(self.subscription)
            watcher.cancel()
        if not self._gone:
            await self._send({"type": "http.response.body", "body": b""})

    async def _open(self, beginning: Beginning, media_type: str) -> None:
        engine = self._edge.engine
        place = [
            (b"rowcast-position", engine.cursor(beginning.position).encode()),
            (b"rowcast-resumed", b"true" if beginning.resumed else b"false"),
        ]
        headers = headers_for(media_type, place)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if not self._head:
            await self._write(retry_block(self._edge))

    async def _pump(self, frames: Frames) -> None:
        """Send what the subscription has, as soon as it has it."""
        wake, take = self._wake, self.subscription.take
        while not self._over:
            try:
                pairs = take(STREAM_BATCH_EVENTS_MAX)
            except Error as error:
                await self._write(problem_block(self._edge, error, self._instance))
                return
            if pairs:
                await self._write_pairs(pairs, frames)
            elif self._heartbeat_due:
                await self._write(_HEARTBEAT)
            else:
                wake.clear()
                await wake.wait()

    async def _write_pairs(self, pairs: list[Pair], frames: Frames) -> None:
        if len(pairs) == 1:
            await self._write(frames.sse(pairs[0][0]))
            return
        chunk: list[bytes] = []
        size = 0
        for event, _ in pairs:
            frame = frames.sse(event)
            chunk.append(frame)
            size += len(frame)
            if size >= STREAM_BATCH_BYTES_MAX:
                await self._write(b"".join(chunk))
                chunk.clear()
                size = 0
        if chunk:
            await self._write(b"".join(chunk))

    async def _write(self, body: bytes) -> None:
        self._heartbeat_due = False
        self._sent_at = self._sending_since = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = 0.0

    async def _listen(self, receive: Receive) -> None:
        """Notice that the reader leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._end()

    def _end(self) -> None:
        self._over = True
        self._wake.set()

    def _cut(self) -> None:
        """Give up a reader that does not read: ``send`` waits for it and would for ever."""
        self._gone = True
        self._end()
        if not cut(self._send) and self._task is not None:
            self._task.cancel()

    # -- what the watch calls --------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Send a heartbeat when nothing else was sent; cut off a reader that does not read."""
        if self._sending_since:
            if now - self._sending_since > STREAM_SEND_SECONDS:
                self._cut()
        elif now - self._sent_at >= self._edge.settings.sse_heartbeat_seconds:
            self._heartbeat_due = True
            self._wake.set()

    def stop(self) -> None:
        """End, because the server stops; the reader may resume where it was."""
        if self._sending_since:
            self._cut()
        else:
            self._end()
