"""Server-sent events: a stream of a record, a table or any topics over plain HTTP (HTML, 9.2).

The headers are sent at once, then the retry delay, then events. An event's ``id`` is its cursor, so
a browser resumes after a reconnect; current records have none, so a stream cut among them starts
over. Events of one turn of the loop are sent as one message.

It uses ASGI directly, because frames are shared and a thousand readers should cost a thousand
writes and little else. A resource's own stream is in ``custom_events``.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.events import END, Event
from rowcast.core.limits import (
    STREAM_BATCH_EVENTS_MAX,
    STREAM_LEAVE_SECONDS,
)
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Message, Receive, Scope, Send, headers_of, text_of
from rowcast.doors.http.messages.problems import as_error, usual_status
from rowcast.doors.http.messages.replies import send_problem
from rowcast.doors.http.streams.blocks import (
    headers_for,
    notice_block,
    problem_block,
    retry_block,
    slow_reader,
)
from rowcast.doors.http.streams.channels import EventChannel, Gone
from rowcast.doors.http.streams.custom_events import serve_resource
from rowcast.doors.http.streams.deltas import Deltas
from rowcast.doors.http.streams.frames import Frames, Once
from rowcast.doors.http.streams.stream_parameters import Request, accepted, request_of
from rowcast.doors.http.streams.stream_start import StreamStart, begin, interests_of, resource_at
from rowcast.doors.http.streams.stream_writer import StreamWriter
from rowcast.doors.http.uvicorn_fastpath import cut, event_channel_of, leave_word
from rowcast.kernel.reauthorization import stay
from rowcast.seams.hook_points import HookPoints
from rowcast.subscriptions.addressed import Replayed
from rowcast.subscriptions.subscription import Pair, Subscription

_HEARTBEAT: Final = b":\n\n"


def _request(edge: HttpDoor, scope: Scope, last_event_id: str | None) -> Request:
    return request_of(scope, edge.kernel.now(), last_event_id, edge.kernel.registry.leads)


async def serve(edge: HttpDoor, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for an event stream."""
    await edge.stream_turns.take()
    headers, caller = headers_of(scope), edge.caller(scope, "sse")
    hooks, stream = edge.kernel.hooks, EventStream(edge, scope["path"], send)
    hooks.connection(caller)
    try:
        edge.kernel.reader.shedding.check_connect()
        await hooks.connect(caller)
        request = _request(edge, scope, text_of(headers, b"last-event-id"))
        media_type = request.format or accepted(text_of(headers, b"accept"))
        frames = Frames(edge.kernel, media_type, meta=request.meta, delta=request.delta)
        resource = resource_at(edge.kernel, request, caller)
        if resource is not None:
            with present(hooks, caller):
                await serve_resource(edge, resource, frames, scope, receive, send)
            return
        start = await begin(
            edge.kernel, stream.subscription, interests_of(request), request.start, caller
        )
        if start.replay is not None and start.replay.over:
            await stream.send_nothing()
            return
    except Error as error:
        edge.kernel.close(stream.subscription)
        hooks.listeners.notify("refused", caller, reason=error.message, code=usual_status(error))
        await send_problem(edge.kernel, error, headers, scope, send)
        return
    with present(hooks, caller):
        run = stream.run if scope["method"] == "GET" else stream.respond_head
        await run(receive, start, frames)


@contextlib.contextmanager
def present(hooks: HookPoints, caller: Caller) -> Iterator[None]:
    """Notify hooks of a reader's connect and disconnect."""
    hooks.connected(caller)
    try:
        yield
    finally:
        hooks.disconnected(caller)


class EventStream:
    """One reader's stream."""

    def __init__(self, edge: HttpDoor, path: str, send: Send) -> None:
        self._edge = edge
        self.path = path
        self._send = send
        subscription = Subscription(edge.kernel.reader)
        self._writer = StreamWriter(
            edge.flusher, self._take, lambda: subscription.ready, subscription.note_blocked
        )
        subscription.on_ready = self._writer.ready
        self.subscription = subscription
        self._channel: EventChannel
        self._frame: Callable[[Event], Any]
        self._task: asyncio.Task[None] | None = None
        self._gone = False
        self._heartbeat: list[Any] = []
        """The comment sent as a heartbeat."""
        self._takes_notices = False
        self._notices: dict[str, Any] = {}
        """The newest pending notice of each name."""
        self._quiet_since = 0.0
        self._left_since = 0.0
        """The time since when the final event is pending, in the loop's seconds; 0: none is."""
        self.leave_seconds = STREAM_LEAVE_SECONDS
        watch = edge.watch
        self._quiet_seconds = edge.settings.sse_heartbeat_seconds - watch.interval_seconds

    async def send_nothing(self) -> None:
        """Respond that nothing is left of a replay, so that a browser does not come again."""
        self._edge.kernel.close(self.subscription)
        await self._send({"type": "http.response.start", "status": 204, "headers": []})
        await self._send({"type": "http.response.body", "body": b""})

    async def respond_head(self, _receive: Receive, start: StreamStart, frames: Frames) -> None:
        """Respond with the headers alone: to HEAD, as ``run`` would begin."""
        self._edge.kernel.close(self.subscription)
        await self._send(self._start(start, frames))
        await self._send({"type": "http.response.body", "body": b""})

    async def run(self, receive: Receive, start: StreamStart, frames: Frames) -> None:
        """Send until the reader disconnects or the server stops."""
        edge = self._edge
        self._task = asyncio.current_task()
        listener = asyncio.get_running_loop().create_task(self._listen(receive))
        edge.watch.add(self)
        try:
            await self._send_all(start, frames)
        except Gone:
            self._gone = True
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            edge.watch.remove(self)
            edge.kernel.close(self.subscription)
            listener.cancel()
        if not self._gone:
            await self._send({"type": "http.response.body", "body": b""})

    def _start(self, start: StreamStart, frames: Frames) -> Message:
        """Return the head of the answer."""
        cursor = self._edge.kernel.cursor(start.position)
        place = [
            (b"rowcast-position", cursor.encode()),
            (b"rowcast-resumed", b"true" if start.resumed else b"false"),
        ]
        if start.replay is not None:
            place.append((b"rowcast-replay", b"true"))
        headers = headers_for(frames.media_type, place)
        return {"type": "http.response.start", "status": 200, "headers": headers}

    async def _send_all(self, start: StreamStart, frames: Frames) -> None:
        await self._send(self._start(start, frames))
        channel = self._channel = event_channel_of(self._send)
        name = f"{channel.name} block {frames.name}"
        self._frame = Once(name, lambda event: channel.pack(frames.block(event)))
        if frames.delta:
            self._frame = self._delta_frame(frames)
        await channel.send([channel.pack(retry_block(self._edge))])
        self._takes_notices = True
        try:
            await self._writer.run(channel)
        except Gone:
            raise
        except Exception as failure:  # noqa: BLE001 - a reader is told how its stream ended
            error = as_error(failure, f"the stream of {self.path!r}")
            await channel.send([channel.pack(problem_block(self._edge, error, self.path))])

    def _delta_frame(self, frames: Frames) -> Callable[[Event], Any]:
        """Return what frames an event with what has changed of its record (C16)."""
        deltas, whole, channel = Deltas(frames), self._frame, self._channel

        def frame(event: Event) -> Any:
            envelope = deltas.envelope(event, 0)
            return whole(event) if envelope is None else channel.pack(frames.block(event, envelope))

        return frame

    def _take(self) -> list[Any]:
        """Return the frames to send next."""
        pairs = self.subscription.take(STREAM_BATCH_EVENTS_MAX)
        if self._notices:
            notices, self._notices = self._notices, {}
            return [*notices.values(), *self._framed(pairs)]
        if not pairs:
            heartbeat, self._heartbeat = self._heartbeat, []
            return heartbeat
        return self._framed(pairs)

    def _framed(self, pairs: list[Pair]) -> list[Any]:
        """Return the frames of pairs; a replay's stream closes with its END."""
        frame, last = self._frame, pairs[-1][0] if pairs else None
        if isinstance(last, Replayed) and last.original.kind == END:
            self._writer.close()
        return [frame(event) for event, _ in pairs]

    async def _listen(self, receive: Receive) -> None:
        """Wait for the reader's disconnect."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._writer.close()

    def _cut(self) -> None:
        """Abort a stalled reader, for which ``send`` would wait without end."""
        self._gone = True
        self._writer.close()
        if not cut(self._send) and self._task is not None:
            self._task.cancel()

    def _leave(self, now: float) -> None:
        """Close for a stalled reader, leaving the reason in its buffer."""
        reason = slow_reader(self._edge.settings.stream_send_seconds)
        word = problem_block(self._edge, reason, self.path)
        if not leave_word(self._send, word):
            self._cut()
            return
        self._gone, self._left_since = True, now
        self._writer.close()
        self._edge.kernel.close(self.subscription)

    # -- called by the watch ---------------------------------------------------------------------

    @property
    def caller(self) -> Caller:
        """Who reads."""
        return self.subscription.caller

    def look(self, now: float) -> None:
        """Send a heartbeat when nothing else was sent; abort a stalled reader."""
        writer = self._writer
        if self._left_since:
            if now - self._left_since > self.leave_seconds:
                self._cut()
        elif writer.busy_since:
            if now - writer.busy_since > self._edge.settings.stream_send_seconds:
                self._leave(now)
        elif writer.wrote or not self._quiet_since:
            writer.wrote = False
            self._quiet_since = now
        elif now - self._quiet_since >= self._quiet_seconds:
            self._heartbeat = [self._channel.pack(_HEARTBEAT)]
            writer.ready()

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Queue a notice, unless the reader is stalled."""
        if self._takes_notices and not self._writer.busy_since:
            self._notices[name] = self._channel.pack(notice_block(name, fields))
            self._writer.ready()

    def judge(self) -> None:
        """Raise an Error if the reader is no longer authorised."""
        if self._left_since:  # its subscription is closed
            return
        stay(self._edge.kernel, self.subscription)

    def refuse(self, error: Error) -> None:
        """End with a problem."""
        self._writer.fail(error)

    def stop(self) -> None:
        """Close for shutdown; the reader may resume at its cursor."""
        if self._writer.busy_since:
            self._cut()
        else:
            self._writer.close()
