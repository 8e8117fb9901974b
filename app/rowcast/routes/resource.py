"""A resource: the behaviour at a path, for code in ``resources/`` to extend.

Every verb has the behaviour of the table or topic at its path; a class overrides verbs and may call
``super()``. Every door calls it: an overridden ``put`` is called for a PUT over HTTP, a put on a
WebSocket and a retained PUBLISH alike. It does not know the door.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import ClassVar, Final, Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.facts import Change
from rowcast.core.limits import STREAM_ITEMS_MAX
from rowcast.core.queries import Query
from rowcast.seams.authorizer import Authorizer
from rowcast.seams.user_code import is_mistake
from rowcast.seams.visibility import Visibility
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from rowcast.writes.commit import Committer
from rowcast.writes.write import Condition, Receipt

log = logging.getLogger("rowcast.resource")

OVERRIDABLE: Final = ("get", "put", "patch", "post", "delete", "publish", "subscribe", "connect")


class Emitter:
    """An event emitter with named events."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[..., object]]] = {}
        self._running: set[asyncio.Future[None]] = set()  # tasks of listeners, until done

    def on(self, name: str, listener: Callable[..., object]) -> Callable[..., object]:
        """Call ``listener`` on each event ``name``; a coroutine function runs as a task."""
        self._listeners.setdefault(name, []).append(listener)
        return listener

    def emit(self, name: str, *arguments: object) -> None:
        """Call the listeners, in the order of registration."""
        for listener in list(self._listeners.get(name, ())):
            self._call(listener, arguments)

    def _emit_safely(self, name: str) -> None:
        """Call the listeners; who closes many streams goes on when one of them fails."""
        for listener in list(self._listeners.get(name, ())):
            try:
                self._call(listener, ())
            except BaseException as failure:
                if not is_mistake(failure):
                    raise
                log.exception("a listener for %r failed", name)

    def _call(self, listener: Callable[..., object], arguments: tuple[object, ...]) -> None:
        result = listener(*arguments)
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_finished(result))
            self._running.add(task)
            task.add_done_callback(self._running.discard)


async def _finished(result: Awaitable[object]) -> None:
    """Wait for a listener; what it raises is logged."""
    try:
        await result
    except BaseException as failure:
        if not is_mistake(failure):
            raise
        log.exception("a listener failed")


class Incoming(Emitter):
    """A client's messages, as an asynchronous iterator; also emits ``data`` and ``close``.

    At most ``items_max`` messages are buffered; ``put`` waits while it is full.
    """

    def __init__(self, items_max: int = STREAM_ITEMS_MAX) -> None:
        self._items_max = items_max
        super().__init__()
        self._items: deque[object] = deque()
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, item: object) -> None:
        """Add a message; waits while too many are unread."""
        self.emit("data", item)
        if "data" in self._listeners:
            return
        await self._room.wait()
        self._items.append(item)
        if len(self._items) >= self._items_max:
            self._room.clear()
        self._changed.set()

    def close(self) -> None:
        """Close the stream: the client has disconnected."""
        if not self._closed:
            self._closed = True
            self._changed.set()
            self._room.set()
            self._emit_safely("close")

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> object:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._room.set()
        return self._items.popleft()


class Stream(Emitter):
    """A client's output: a subscription's events and values of ``send``; emits ``close``."""

    def __init__(
        self,
        subscription: Subscription | None = None,
        on_close: Callable[[], None] | None = None,
        items_max: int = STREAM_ITEMS_MAX,
    ) -> None:
        super().__init__()
        self._items_max = items_max
        self.subscription = subscription
        self._on_close = on_close
        self._items: deque[object] = deque()
        self._changed = asyncio.Event()
        self.closed = False
        if subscription is not None:
            subscription.on_ready = self._changed.set

    def send(self, item: object) -> None:
        """Send a value to the client; raises BUSY when it does not read."""
        if self.closed:
            return
        if len(self._items) >= self._items_max:
            raise Error(Code.BUSY, f"the client has not read {self._items_max} messages")
        self._items.append(item)
        self._changed.set()

    def close(self) -> None:
        """Close the stream; listeners to ``close`` are called once."""
        if not self.closed:
            self.closed = True
            if self._on_close is not None:
                self._on_close()
            self._changed.set()
            self._emit_safely("close")

    async def __aiter__(self) -> AsyncIterator[object]:
        """Yield sent values and, as (event, interest) pairs, the subscription's events.

        The stream is closed whenever the iteration ends.
        """
        try:
            while True:
                self._changed.clear()
                while self._items:
                    yield self._items.popleft()
                if self.closed:
                    return
                pairs = self.subscription.take(self._items_max) if self.subscription else []
                for pair in pairs:
                    yield pair
                if not pairs and not self._items:
                    await self._changed.wait()
        finally:
            self.close()


class KernelCalls(Protocol):
    """The kernel's interface for resources and system rows."""

    reader: Reader
    committer: Committer
    rights: Authorizer
    visibility: Visibility

    def authorise_read(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may read a topic."""

    async def read_value(self, topic: str, caller: Caller, query: Query | None) -> object:
        """Return a record's value, or a collection's records as a list; None: there is none."""

    async def write_value(
        self,
        topic: str,
        kind: str,
        value: object,
        caller: Caller,
        sent: Event | None = None,
        condition: Condition | None = None,
    ) -> Receipt:
        """Write a plain value, bypassing the resource class at its topic."""

    async def create_value(self, topic: str, value: object, caller: Caller) -> Receipt:
        """Create a record from a plain value."""

    def open_stream(
        self, topic: str, caller: Caller, interest: SubscribedFilter | None = None
    ) -> Subscription:
        """Return a new subscription to one topic, or to all of a collection."""

    def close(self, subscription: Subscription) -> None:
        """Close a subscription."""


class Resource:
    """The behaviour at a path. Extend it in ``resources/*.py``; the class's name is its path.

    ``path`` overrides that. An instance serves one request: of ``caller``, for ``topic`` and
    ``id``; ``receipt`` is that of its last write.
    """

    path: ClassVar[str | None] = None
    versioned: ClassVar[bool] = False
    """Whether the verbs of rows under ``$`` check ``condition``.

    For the others ``is_there`` checks ``If-Match: *`` and ``If-None-Match: *``, and versions are
    refused.
    """

    silent: ClassVar[str] = ""
    """Why nothing is ever published at the path; a subscription is refused with it.

    ``connect`` serves its clients all the same.
    """

    def __init__(self, kernel: KernelCalls, topic: str, record_id: str, caller: Caller) -> None:
        self.kernel = kernel
        self.topic = topic
        self.id = record_id
        self.caller = caller
        self.condition: Condition | None = None
        """The condition on the record; checked by the verbs of this class when they write."""
        self.sent: Event | None = None
        """The client's event, if this is a write."""
        self.beside: Sequence[Change] = ()
        """Changes of facts that are stored after this call, such as the identifier of a PUBLISH of
        QoS 2; who stores them in the transaction of its own writes empties it."""
        self.receipt: Receipt | None = None
        self.began = ""
        """The topic of background work started by a POST."""
        self.interest: SubscribedFilter | None = None
        """A connected client's interest, after hooks; for one subscription."""

    async def is_there(self) -> bool | None:
        """Whether there is a row, for rows under ``$`` without versions; None: it is not known."""
        return None

    async def get(self, query: Query | None = None) -> object:
        """Return the record's value, or a collection's values as a list; None: no record."""
        return await self.kernel.read_value(self.topic, self.caller, query)

    async def put(self, value: object) -> object:
        """Set the record to ``value``."""
        return await self._write(PUT, value)

    async def patch(self, value: object) -> object:
        """Merge ``value`` into the record (RFC 7396)."""
        return await self._write(PATCH, value)

    async def post(self, value: object) -> object:
        """Create a record of the collection under a new id; return the id."""
        self.receipt = await self.kernel.create_value(self.topic, value, self.caller)
        return self.receipt.event.topic.rpartition("/")[2]

    async def delete(self) -> object:
        """Remove the record."""
        return await self._write(DELETE, None)

    async def publish(self, message: object) -> object:
        """Send ``message`` to the topic's subscribers; the record does not change."""
        return await self._write(MESSAGE, message)

    def subscribe(self) -> AsyncIterable[object]:
        """Return the stream for a subscriber of this topic: values, or (event, interest) pairs."""
        interest, self.interest = self.interest, None
        subscription = self.kernel.open_stream(self.topic, self.caller, interest)
        return Stream(subscription, lambda: self.kernel.close(subscription))

    def connect(self, incoming: Incoming | None = None) -> AsyncIterable[object]:  # noqa: ARG002
        """Return the stream for a connected client; ``incoming`` has its messages, None for SSE."""
        return self.subscribe()

    async def _write(self, kind: str, value: object) -> object:
        self.receipt = await self.kernel.write_value(
            self.topic, kind, value, self.caller, self.sent, self.condition
        )
        return self.receipt
