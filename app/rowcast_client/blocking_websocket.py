"""``Socket`` and ``Presence`` without asyncio: the same ones, on an event loop in a thread.

So a connection is kept up, and a presence with it, also while the program does something else. Any
thread may call them.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, Self, TypeVar, Unpack

from rowcast.core.errors import Code, Error
from rowcast_client.bounds import USUAL, SocketBounds
from rowcast_client.calls import Answer, Written
from rowcast_client.connection import Client
from rowcast_client.events import Event
from rowcast_client.following import State
from rowcast_client.link import Will
from rowcast_client.presence import Presence
from rowcast_client.websocket import Condition, Socket, SocketSubscription, Watching

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rowcast socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; an interrupt of the caller cancels it."""
        if not self.is_running:
            coroutine.close()
            raise Error(Code.INVALID, "this is not open: with SyncSocket(rows) as socket")
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()


class _Connected(Protocol):
    """What has a connection that is kept up."""

    async def open(self) -> None:
        """Connect; raises a Problem."""

    async def close(self) -> None:
        """Close it normally."""


class _InThread:
    """The life of something connected, on a loop of its own."""

    def __init__(self, connected: _Connected) -> None:
        self._loop = _Loop()
        self._connected = connected

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect, and set the will; raises a Problem."""
        self._loop.start()
        try:
            self._loop.call(self._connected.open())
        except BaseException:
            self._loop.stop()
            raise

    def close(self) -> None:
        """Close it normally: a socket's will is not written, a presence says that it is gone."""
        if not self._loop.is_running:
            return
        self._loop.call(self._connected.close())
        self._loop.stop()


class SyncSocket(_InThread):
    """One WebSocket of a client, like ``Socket``; use it with ``with``.

    ``on_state`` is called by another thread.
    """

    def __init__(
        self,
        rows: Client,
        *,
        will: Will | None = None,
        meta: bool = False,
        patient: bool = False,
        on_state: State | None = None,
        bounds: SocketBounds = USUAL,
    ) -> None:
        self._socket = Socket(
            rows, will=will, meta=meta, patient=patient, on_state=on_state, bounds=bounds
        )
        super().__init__(self._socket)

    def get(self, topic: str) -> Answer:
        """Read a record, after the writes that were sent before."""
        return self._loop.call(self._socket.get(topic))

    def put(
        self, topic: str, value: object, *, if_match: str = "", if_none_match: str = ""
    ) -> Written:
        """Set a record's value; once, however often the connection is lost meanwhile."""
        sent = self._socket.put(topic, value, if_match=if_match, if_none_match=if_none_match)
        return self._loop.call(sent)

    def patch(
        self, topic: str, value: object, *, if_match: str = "", if_none_match: str = ""
    ) -> Written:
        """Change some attributes of a record; None removes one (RFC 7396)."""
        sent = self._socket.patch(topic, value, if_match=if_match, if_none_match=if_none_match)
        return self._loop.call(sent)

    def delete(self, topic: str, *, if_match: str = "") -> Written:
        """Remove a record."""
        return self._loop.call(self._socket.delete(topic, if_match=if_match))

    def publish(self, topic: str, value: object, *, once: bool = False) -> Written:
        """Send a message to the subscribers of a topic, as ``Socket.publish``."""
        return self._loop.call(self._socket.publish(topic, value, once=once))

    def ping(self) -> str:
        """Return the cursor of the newest event of the server's log."""
        return self._loop.call(self._socket.ping())

    def set_will(self, will: Will | None) -> None:
        """Replace what the server writes when this program vanishes; None: nothing."""
        self._loop.call(self._socket.set_will(will))

    def subscribe(
        self,
        filter: str,  # noqa: A002 - the word of MQTT
        **options: Unpack[Watching],
    ) -> "SyncSocketSubscription":
        """Yield the current records, then each event once, as ``Socket.subscribe``."""

        async def begun() -> SocketSubscription:
            return self._socket.subscribe(filter, **options)

        return SyncSocketSubscription(self._loop, self._loop.call(begun()))

    def live(
        self, table: str, where: str = "", **options: Unpack[Condition]
    ) -> "SyncSocketSubscription":
        """Yield the records that satisfy conditions, then each step, as ``Socket.live``."""

        async def begun() -> SocketSubscription:
            return self._socket.live(table, where, **options)

        return SyncSocketSubscription(self._loop, self._loop.call(begun()))


class SyncSocketSubscription:
    """The events of a subscription, to be read with ``for``."""

    def __init__(self, loop: _Loop, events: SocketSubscription) -> None:
        self._loop = loop
        self._events = events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._loop.call(self._next()) if self._loop.is_running else None
        if event is None:
            raise StopIteration
        return event

    async def _next(self) -> Event | None:
        return await anext(self._events, None)

    @property
    def cursor(self) -> str:
        """The cursor to continue from with ``since``: after the last event returned."""
        return self._events.cursor

    def close(self) -> None:
        """End it; the socket goes on."""
        if self._loop.is_running:
            self._loop.call(self._events.aclose())


class SyncPresence(_InThread):
    """One record that is ``present`` while this program is there, like ``Presence``."""

    def __init__(
        self,
        rows: Client,
        topic: str,
        *,
        present: object,
        gone: object,
        patient: bool = False,
        on_state: State | None = None,
        bounds: SocketBounds = USUAL,
    ) -> None:
        self._presence = Presence(
            rows,
            topic,
            present=present,
            gone=gone,
            patient=patient,
            on_state=on_state,
            bounds=bounds,
        )
        super().__init__(self._presence)

    @property
    def problem(self) -> object:
        """Why it was refused; None while it is not."""
        return self._presence.problem
