"""The connections of a socket, one after the other: what is sent, received, and sent again.

One task connects and reads, another one sends, so that a server that does not read at the moment
keeps nobody from reading its answers. The first command of each connection sets the will, or is a
ping: its answer says that the caller is let in.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn
from urllib.parse import urlencode
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from rowcast.codecs import JSON, decode_answer, encode
from rowcast.core.errors import Code, Error
from rowcast.core.limits import CLIENT_EVENT_BYTES_MAX
from rowcast.core.python_client_limits import CLIENT_CLOSE_SECONDS, CLIENT_FRAMES_MAX
from rowcast_client.bounds import SocketBounds
from rowcast_client.calls import FORMATS
from rowcast_client.closing import ended, seconds_asked, unopened
from rowcast_client.commands import Command, Commands, Fields, Frame
from rowcast_client.connection import Way
from rowcast_client.following import CONNECTING, LIVE, WAITING, State
from rowcast_client.pace import Pace
from rowcast_client.problem import Problem
from rowcast_client.roster import Roster
from rowcast_client.streams import Stream

BEGIN: Final = "begin"
"""The id of the first command of a connection; those of commands are numbers."""


@dataclass(frozen=True, slots=True)
class Will:
    """What the server writes when the client has vanished: any end but a normal close."""

    topic: str
    value: object
    retain: bool = True
    """Whether it sets the record; otherwise it is a message."""


class Link:
    """What a socket has on the wire."""

    def __init__(
        self,
        way: Way,
        pace: Pace,
        bounds: SocketBounds,
        *,
        meta: bool,
        on_state: State,
        wait: Callable[[float], Awaitable[None]],
    ) -> None:
        self.will: Will | None = None
        self.media_type = FORMATS[way.format]
        self._way = way
        self._pace = pace
        self._bounds = bounds
        words = {"format": way.format} | ({"meta": "true"} if meta else {})
        self._uri = f"ws{way.url.removeprefix('http')}/?{urlencode(words)}"
        self._on_state = on_state
        self._wait = wait
        self._commands = Commands(self._pack, f"socket-{uuid4().hex}")
        self._slots = asyncio.Semaphore(bounds.commands)
        self.roster = Roster(self._say)
        self._outbox: deque[tuple[Frame, Command | None]] = deque()
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._socket: ClientConnection | None = None
        self.is_live = False
        self._is_closing = False
        self._final: Problem | None = None

    # -- opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Connect; raises a Problem that no further attempt would mend."""
        if self._task is not None:
            raise Error(Code.INVALID, "this socket was opened before; make another one")
        loop = asyncio.get_running_loop()
        self._opened = loop.create_future()
        self._task = loop.create_task(self._run())
        try:
            await self._opened
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close normally, which takes the will along."""
        self._is_closing = True
        if self._socket is not None:
            await self._socket.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._end(None)

    async def _run(self) -> None:
        final = Problem(0, {"code": "internal"}, "this socket has failed; its task says why")
        try:
            while True:
                self._on_state(CONNECTING)
                problem = await self._connection()
                if self._is_closing:
                    return
                pause = self._pace.ended(problem, seconds_asked(problem))
                self._on_state(WAITING)
                await self._wait(pause)
        except Problem as problem:
            final = problem
        finally:
            self._end(None if self._is_closing else final)

    def _end(self, problem: Problem | None) -> None:
        """End all that is open; the first reason counts."""
        if self._final is not None:
            return
        self._final = problem or Problem(0, {"code": "busy"}, "this socket is closed")
        self._commands.end(self._final)
        self.roster.end(problem)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(self._final)

    # -- one connection --------------------------------------------------------------------------

    async def _connection(self) -> Problem | None:
        """Use a connection until it ends; return why, None where that is no matter."""
        try:
            socket = self._socket = await self._connect()
        except (OSError, WebSocketException) as failure:
            return unopened(self._way.url, failure)
        self._begin()
        sender = asyncio.create_task(self._send(socket))
        try:
            await self._read(socket)
        except ConnectionClosed as closed:
            return self._closed(ended(self._way.url, closed))
        except Problem as refusal:
            return self._closed(refusal)
        finally:
            self.is_live, self._socket = False, None
            self.roster.lost()
            sender.cancel()
            await asyncio.wait({sender})
            await socket.close()

    async def _connect(self) -> ClientConnection:
        return await connect(
            self._uri,
            additional_headers=self._way.headers,
            ssl=self._way.trust,
            proxy=True if self._way.proxied else None,
            compression=None,
            open_timeout=self._bounds.answer_seconds,
            ping_interval=self._bounds.ping_seconds,
            ping_timeout=self._bounds.ping_seconds,
            close_timeout=CLIENT_CLOSE_SECONDS,
            max_size=CLIENT_EVENT_BYTES_MAX,
            max_queue=CLIENT_FRAMES_MAX,
        )

    def _closed(self, problem: Problem) -> Problem | None:
        """Note the end of a connection; a caller that was let in may be so again."""
        if problem.code is Code.TOO_LARGE:
            self._commands.refuse_longest(problem)
        lost = Problem(0, {"code": "busy"}, f"the answer was lost: {problem.message}")
        self._commands.lost(lost)
        return None if self.is_live and problem.is_final else problem

    def _begin(self) -> None:
        """Queue what a new connection begins with."""
        self._outbox.clear()
        words: Fields = {"op": "ping"} if self.will is None else will_words(self.will)
        self._say({"id": BEGIN} | words)
        for command in self._commands.again():
            self._outbox.append((command.frame, command))
        self.roster.begin()

    async def _send(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                while self._outbox:
                    frame, command = self._outbox.popleft()
                    if command is not None:
                        if command.is_withdrawn:
                            continue
                        command.is_sent = True
                    await socket.send(frame)
                self._more.clear()
                await self._more.wait()

    async def _read(self, socket: ClientConnection) -> NoReturn:
        while True:
            if self.roster.is_stuffed and not self._commands:
                await self._until_room()
            self._take(await socket.recv())

    async def _until_room(self) -> None:
        """Leave the connection unread until a reader has taken half of its current records."""
        self.roster.room.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.pause_seconds):
                await self.roster.room.wait()
                return
        self.roster.wait_no_longer()

    # -- what comes ------------------------------------------------------------------------------

    def _take(self, message: Frame) -> None:
        """Take an event or an answer; raises a Problem if the caller is not let in."""
        fields = self._unpack(message)
        if "kind" in fields:
            self.roster.receive(fields, len(message))
            return
        error, number = fields.get("error"), fields.pop("ack", fields.get("id"))
        outcome: Fields | Problem = fields
        if isinstance(error, dict):
            status = error.get("status")
            outcome = Problem(status if isinstance(status, int) else 500, error)
        if number == BEGIN:
            self._let_in(outcome)
        elif not self.roster.answered(number, outcome):
            self._commands.answered(number, outcome)

    def _let_in(self, outcome: Fields | Problem) -> None:
        if isinstance(outcome, Problem):
            raise outcome
        self.is_live = True
        self._pace.met()
        self._on_state(LIVE)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    # -- subscriptions ---------------------------------------------------------------------------

    def add(self, stream: Stream) -> None:
        """Begin a subscription."""
        self._check()
        self.roster.add(stream)

    def abandon(self, stream: Stream) -> None:
        """End a subscription that was garbage-collected, perhaps by another thread."""
        task = self._task
        if task is not None and not task.done():
            with suppress(RuntimeError):  # the loop is closed, and all with it
                task.get_loop().call_soon_threadsafe(self.roster.remove, stream)

    # -- commands --------------------------------------------------------------------------------

    async def ask(self, fields: Fields, *, can_repeat: bool = True, marked: bool = False) -> Fields:
        """Send a command, again if its answer is lost, and return the answer; raises a Problem."""
        future: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()

        def done(outcome: Fields | Problem) -> None:
            if future.done():
                return
            if isinstance(outcome, Problem):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        try:
            async with asyncio.timeout(self._bounds.answer_seconds), self._slots:
                self._check()
                command = self._commands.add(fields, done, can_repeat=can_repeat, marked=marked)
                if self._socket is not None:
                    self._outbox.append((command.frame, command))
                self._more.set()
                self.roster.room.set()
                try:
                    return await future
                finally:
                    self._commands.withdraw(command)
        except TimeoutError:
            raise _unanswered(self._way.url, self._bounds.answer_seconds) from None

    def _check(self) -> None:
        """Raise unless the socket is open."""
        if self._final is not None:
            raise self._final
        if self._task is None:
            raise Error(Code.INVALID, "open the socket first: async with Socket(rows) as socket")

    def _say(self, fields: Fields) -> None:
        """Queue a frame that nobody waits for."""
        self._outbox.append((self._pack(fields), None))
        self._more.set()

    def _pack(self, fields: Fields) -> Frame:
        packed = encode(fields, self.media_type)
        return packed.decode() if self.media_type == JSON else packed

    def _unpack(self, message: Frame) -> Fields:
        payload = message.encode() if isinstance(message, str) else message
        fields = decode_answer(payload, self.media_type)
        if not isinstance(fields, dict):
            raise Problem(500, {}, f"the server sent {message[:80]!r}, which is no event")
        return fields


def will_words(will: Will) -> Fields:
    """Return the command that sets a will."""
    return {"op": "will", "topic": will.topic, "value": will.value, "retain": will.retain}


def _unanswered(url: str, seconds: float) -> Problem:
    text = (
        f"{url} has not answered within {seconds:g} s: whether it did what was asked is not known"
    )
    return Problem(0, {"code": "busy"}, text)
