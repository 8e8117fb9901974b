"""WebSockets: a connection streams the topics of its URL, and executes commands (``ws_protocol``).

One subscription serves the connection, whatever its number of filters, so the memory of a slow peer
is bounded once, and events are in the order of the log. One task sends; another reads the client's
messages. The URL's stream is number 0 and its envelopes have no ``subscription``.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from rowcast.codecs import CBOR, JSON, MSGPACK, encode_answer, negotiate
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.freshness import STALE_PREFIX
from rowcast.core.limits import (
    SOCKET_PENDING_COMMANDS_MAX,
    STREAM_BATCH_EVENTS_MAX,
)
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.door import HttpDoor
from rowcast.doors.http.messages.asgi import Receive, Scope, Send, headers_of, path_of, text_of
from rowcast.doors.http.messages.problems import as_error, usual_status
from rowcast.doors.http.streams.channels import Gone, SocketChannel
from rowcast.doors.http.streams.custom_socket import ResourceSocket
from rowcast.doors.http.streams.deltas import Deltas
from rowcast.doors.http.streams.frames import Frames, Once
from rowcast.doors.http.streams.replay_words import ReplayWords
from rowcast.doors.http.streams.socket_connection import NORMAL, RESTART, Connection, close_status
from rowcast.doors.http.streams.stream_parameters import FORMATS, Request, request_of
from rowcast.doors.http.streams.stream_start import (
    StreamStart,
    begin,
    begin_another,
    interests_of,
    resource_at,
    streams_itself,
)
from rowcast.doors.http.streams.stream_writer import StreamWriter
from rowcast.doors.http.streams.ws_protocol import obey
from rowcast.doors.http.uvicorn_fastpath import socket_channel_of
from rowcast.features.replay.feed import Feed
from rowcast.features.replay.replays import replays_of
from rowcast.features.websocket_wills.wills import WebSocketWills
from rowcast.kernel.reauthorization import stay
from rowcast.subscriptions.start_position import StartPosition
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

SUBPROTOCOLS: Final = (("rowcast.json", JSON), ("rowcast.cbor", CBOR), ("rowcast.msgpack", MSGPACK))
OWN_STREAM: Final = 0
_OWN: Final = (OWN_STREAM,)


async def serve(edge: HttpDoor, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one WebSocket; errors are sent after the handshake, where browsers can read them."""
    await receive()  # websocket.connect
    await edge.stream_turns.take()
    caller = edge.caller(scope, "ws")
    hooks = edge.kernel.hooks
    protocol, media_type = _spoken(scope)
    socket: Socket | None = None
    hooks.connection(caller)
    try:
        edge.kernel.reader.shedding.check_connect()
        await hooks.connect(caller)
        request = request_of(scope, edge.kernel.now(), leads=edge.kernel.registry.leads)
        media_type = request.format or media_type
        resource = resource_at(edge.kernel, request, caller)
        socket = Socket(edge, scope, caller, media_type, request)
        headers = []
        if request.filters and resource is None:
            start = await socket.open(request)
            headers = [
                (b"rowcast-position", edge.kernel.cursor(start.position).encode()),
                (b"rowcast-resumed", b"true" if start.resumed else b"false"),
            ]
    except Error as error:
        if socket is not None:
            edge.kernel.close(socket.subscription)
        hooks.listeners.notify("refused", caller, reason=error.message, code=usual_status(error))
        await _refuse(send, error, protocol)
        return
    await _accept(socket, send, protocol, headers)
    channel = socket_channel_of(send, binary=media_type != JSON)
    hooks.connected(caller)
    connection: Socket | ResourceSocket = socket
    try:
        if resource is not None:
            connection = ResourceSocket(edge, resource, socket.frames, channel, send)
            await connection.run(receive)
        else:
            await socket.run(receive, channel, send)
    finally:
        hooks.disconnected(caller, connection.close_reason)


def _spoken(scope: Scope) -> tuple[str | None, str]:
    """Return the negotiated subprotocol and the format: by subprotocol, else by Accept."""
    offered = scope.get("subprotocols") or ()
    for name, media_type in SUBPROTOCOLS:
        if name in offered:
            return name, media_type
    try:
        return None, negotiate(text_of(headers_of(scope), b"accept"), FORMATS)
    except Error:
        return None, JSON


async def _accept(
    socket: "Socket", send: Send, protocol: str | None, headers: list[tuple[bytes, bytes]]
) -> None:
    """Finish the handshake; close the subscription if the client left while it was opened."""
    try:
        await send({"type": "websocket.accept", "subprotocol": protocol, "headers": headers})
    except BaseException:
        socket.kernel.close(socket.subscription)
        raise


async def _refuse(send: Send, error: Error, protocol: str | None) -> None:
    await send({"type": "websocket.accept", "subprotocol": protocol})
    code, reason = close_status(error)
    with contextlib.suppress(OSError):
        await send({"type": "websocket.close", "code": code, "reason": reason})


class Socket(Connection):
    """A connection to records and topics."""

    def __init__(
        self, edge: HttpDoor, scope: Scope, caller: Caller, media_type: str, request: Request
    ) -> None:
        super().__init__(edge, media_type)
        self.meta = request.meta
        self.caller = caller
        self.path: str = scope["path"]
        self.will = ""
        """The key of its will; empty without one."""
        self.subscription = Subscription(edge.kernel.reader)
        self._writer = StreamWriter(
            edge.flusher, self._take, self._more, self.subscription.note_blocked
        )
        self.subscription.on_ready = self._writer.ready
        self._frame: Once
        self._listener: asyncio.Task[None]
        self.frames = Frames(edge.kernel, media_type, meta=request.meta, delta=request.delta)
        self._deltas = Deltas(self.frames) if request.delta else None
        self._filters: dict[int, TopicFilter] = {}
        self._asked: set[str] = set()  # filters, without those for silence beside them
        self._last_number = OWN_STREAM
        self._said: deque[bytes] = deque()
        self._said_bytes = 0
        self._said_bytes_high = edge.settings.socket_answers_bytes_high
        self._pending = 0
        self._room = asyncio.Event()
        self._room.set()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def busy_since(self) -> float:
        """Since when the peer is waited for, in the loop's seconds; 0 when it is not."""
        return self._writer.busy_since

    def _stop_sending(self) -> None:
        self._writer.close()
        self._room.set()

    async def run(self, receive: Receive, channel: SocketChannel, send: Send) -> None:
        """Send and listen until either side closes."""
        edge = self._edge
        self._channel, self._asgi_send = channel, send
        name = f"{channel.name} {self.frames.name}"
        self._frame = Once(name, lambda event: channel.pack(self.frames.envelope(event)))
        self._listener = asyncio.get_running_loop().create_task(self._listen(receive))
        edge.watch.add(self)
        try:
            await self._writer.run(channel)
        except Gone:
            self.left()
            await asyncio.wait((self._listener,))
        except Exception as failure:  # noqa: BLE001 - the close frame tells how it ended
            self.end(*close_status(as_error(failure, f"the WebSocket at {self.path!r}")))
        finally:
            edge.watch.remove(self)
            self._end_will()
            edge.kernel.close(self.subscription)
            self._listener.cancel()
        await self._close()

    def end(self, code: int, reason: str = "") -> None:
        """Close with a reason; of a peer that has left or is refused nothing is carried out."""
        super().end(code, reason)
        if self._gone or code != RESTART:  # a close frame waits until the peer reads
            self._listener.cancel()

    def left(self) -> None:
        """Note that the peer has disconnected; what it sent before that is still carried out."""
        super().left()
        self._said.clear()
        self._said_bytes = 0

    def _end_will(self) -> None:
        """Write the will of a lost client; when the server stops, it does so at its next start."""
        wills = self.kernel.service(WebSocketWills)
        if wills is None or not self.will:
            return
        if self._close_code in NORMAL and self._goodbye is None:
            wills.closed(self.will)
        elif self._goodbye is None or self._goodbye[0] != RESTART:
            wills.lost(self.will)

    def check_served(self, topic: str) -> None:
        """Raise unless the process of this connection serves a topic or filter."""
        self._edge.check_served(topic)

    def judge(self) -> None:
        """Raise an Error if the client is no longer authorised to read or to connect."""
        self.caller = stay(self.kernel, self.subscription, self.caller)

    # -- the sender ------------------------------------------------------------------------------

    def _more(self) -> bool:
        return bool(self._said) or self.subscription.ready

    def _take(self) -> list[Any]:
        """Return the frames to send next: answers first, then events."""
        frames: list[Any] = []
        if self._said:
            frames += map(self._channel.pack, self._said)
            self._said.clear()
            self._said_bytes = 0
            self._make_room()
        for event, interest in self.subscription.take(STREAM_BATCH_EVENTS_MAX):
            if self._deltas is not None:
                numbers = _OWN if interest is None else interest.identifiers
                frames += [self._changed(self._deltas, event, number) for number in numbers]
            elif interest is None or interest.identifiers == _OWN:
                frames.append(self._frame(event))
            else:
                frames += [self._numbered(event, number) for number in interest.identifiers]
        return frames

    def _changed(self, deltas: Deltas, event: Event, number: int) -> Any:
        """Return the frame of an event with what has changed of its record (C16)."""
        envelope = deltas.envelope(event, number)
        if envelope is None:
            return self._numbered(event, number)
        if number != OWN_STREAM:
            envelope = self.frames.numbered(envelope, number)
        return self._channel.pack(envelope)

    def _numbered(self, event: Event, number: int) -> Any:
        if number == OWN_STREAM:
            return self._frame(event)
        return self._channel.pack(self.frames.for_subscription(event, number))

    # -- the listener ----------------------------------------------------------------------------

    async def _listen(self, receive: Receive) -> None:
        """Execute the client's commands, in order."""
        try:
            while (payload := await self._received(receive)) is not None:
                await obey(self, payload)
                if self._full:
                    self._room.clear()
                    await self._room.wait()
                if self.caller.connection in self.kernel.committer.pending:
                    await self.kernel.committer.room(self.caller)
            self.left()
        except Error as error:
            self.end(*close_status(error))

    def say(self, fields: dict[str, Any]) -> None:
        """Send a map to the client, in the connection's format."""
        if self._gone:
            return
        said = encode_answer(fields, self.media_type)
        self._said.append(said)
        self._said_bytes += len(said)
        self._writer.ready()

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Send a notice, unless the client is stalled."""
        if not self.busy_since:
            self.say({"event": name, **fields})

    def answer(self, given: object, fields: dict[str, Any]) -> None:
        """Acknowledge a command, if it had an id."""
        if given is not None:
            self.say({"ack": given} | fields)

    def pending_more(self) -> None:
        """Count a pending write."""
        self._pending += 1
        self._settled.clear()

    def pending_less(self) -> None:
        """Count a finished write."""
        self._pending -= 1
        if not self._pending:
            self._settled.set()
        self._make_room()

    async def settled(self) -> None:
        """Wait until every earlier write of this connection is answered.

        Commands take effect in order, but writes do not wait for each other; reads wait for earlier
        writes. No later command is read meanwhile, so their number only falls.
        """
        await self._settled.wait()

    @property
    def _full(self) -> bool:
        """Whether reading commands pauses, because too many wait for the disk or for the reader."""
        commands = self._pending + len(self._said)
        return commands >= SOCKET_PENDING_COMMANDS_MAX or self._said_bytes >= self._said_bytes_high

    def _make_room(self) -> None:
        if not self._full:
            self._room.set()

    # -- subscriptions ---------------------------------------------------------------------------

    async def open(self, request: Request) -> StreamStart:
        """Start the URL's stream."""
        interests = interests_of(request)
        for interest in interests:
            interest.identifiers = _OWN
        begun = await begin(self.kernel, self.subscription, interests, request.start, self.caller)
        self._asked.update(interest.topics.text for interest in interests)
        return begun

    async def subscribe(
        self, text: str, start: StartPosition, *, commits: bool = False, conflate: float = 0.0
    ) -> tuple[int, StreamStart]:
        """Start another stream; return its number."""
        topics = TopicFilter(text)
        interests = self.subscription.interests
        if text in interests and (text in self._asked or not text.startswith(STALE_PREFIX)):
            raise Error(
                Code.CONFLICT,
                f"this connection has a subscription to {text!r} already: "
                f"{interests[text].identifiers[0]}",
            )
        if streams_itself(self.kernel, topics, text):
            raise Error(
                Code.NOT_ALLOWED,
                f"{text!r} streams by its own code; open a WebSocket at {path_of(text)!r}",
            )
        most = self._edge.settings.socket_subscriptions_max
        if len(interests) >= most:
            raise Error(Code.BUSY, f"a connection has at most {most} subscriptions")
        number = self._last_number + 1
        interest = SubscribedFilter(
            topics, identifiers=(number,), commits=commits, conflate=conflate
        )
        begun = await begin_another(self.kernel, self.subscription, interest, start, self.caller)
        self._last_number = number
        self._filters[number] = interest.topics
        self._asked.add(interest.topics.text)
        return number, begun

    async def replay(self, words: ReplayWords, topic: str) -> tuple[int, StreamStart]:
        """Start a replay; return its number."""
        return await self.subscribe(words.of(topic, str(self._last_number + 1)), StartPosition())

    def feed(self, number: object) -> Feed:
        """Return the feed of one of its replays; raises NOT_FOUND, NOT_ALLOWED."""
        topics = self._filters.get(number) if type(number) is int else None
        return replays_of(self.kernel).own(self.subscription, topics.text if topics else "")

    def unsubscribe(self, number: object) -> bool:
        """Close a stream; return whether it existed."""
        topics = self._filters.pop(number, None) if type(number) is int else None
        if topics is None:
            return False
        self.kernel.listeners.notify("unsubscribed", self.caller, filter=topics.text)
        self._asked.discard(topics.text)
        self._leave(number, TopicFilter(STALE_PREFIX + topics.text))
        return self._leave(number, topics)

    def _leave(self, number: object, topics: TopicFilter) -> bool:
        """Close an interest unless another number has it too; return whether the number had it."""
        interests = self.subscription.interests
        numbers = interests[topics.text].identifiers if topics.text in interests else ()
        if number not in numbers:
            return False
        left = tuple(other for other in numbers if other != number)
        if left:
            interests[topics.text].identifiers = left
            return True
        return self.kernel.unwatch(self.subscription, topics)
