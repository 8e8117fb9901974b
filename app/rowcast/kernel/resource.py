"""A resource: the behaviour at a path, for code in ``resources/`` to extend.

Every verb has the behaviour of the table or topic at its path; a class overrides the verbs it wants
changed and calls ``super()`` for the rest. Every door leads here: an overridden ``put`` is called
for a PUT over HTTP, a put on a WebSocket and a retained PUBLISH alike. It must not know which door
it was.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import ClassVar, Final, Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import STREAM_ITEMS_MAX
from rowcast.core.queries import Query
from rowcast.kernel.authorizer import Authorizer
from rowcast.kernel.commit import Committer
from rowcast.kernel.visibility import Visibility
from rowcast.kernel.write import Condition, Receipt
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

log = logging.getLogger("rowcast.resource")

OVERRIDABLE: Final = ("get", "put", "patch", "post", "delete", "publish", "subscribe", "connect")


class Emitter:
    """Something that others can listen to by name."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[..., object]]] = {}
        self._running: set[asyncio.Future[object]] = set()  # listeners' tasks, kept until they end

    def on(self, name: str, listener: Callable[..., object]) -> Callable[..., object]:
        """Call ``listener`` whenever ``name`` happens; a coroutine function runs as a task."""
        self._listeners.setdefault(name, []).append(listener)
        return listener

    def emit(self, name: str, *arguments: object) -> None:
        """Tell the listeners, in the order in which they came."""
        for listener in list(self._listeners.get(name, ())):
            result = listener(*arguments)
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                self._running.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[object]") -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a listener failed", exc_info=task.exception())


class Incoming(Emitter):
    """What a client sends, as an asynchronous iterator; also emits ``data`` and ``close``.

    At most STREAM_ITEMS_MAX messages wait for a reader; an edge that fills it waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._items: deque[object] = deque()
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, item: object) -> None:
        """Give the reader a message; waits while too many are unread."""
        self.emit("data", item)
        if "data" in self._listeners:
            return
        await self._room.wait()
        self._items.append(item)
        if len(self._items) >= STREAM_ITEMS_MAX:
            self._room.clear()
        self._changed.set()

    def close(self) -> None:
        """End the stream: the client is gone."""
        if not self._closed:
            self._closed = True
            self._changed.set()
            self._room.set()
            self.emit("close")

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
    """What a client is sent: a subscription's events and what ``send`` adds; emits ``close``."""

    def __init__(
        self,
        subscription: Subscription | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
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
        if len(self._items) >= STREAM_ITEMS_MAX:
            raise Error(Code.BUSY, f"the client has not read {STREAM_ITEMS_MAX} messages")
        self._items.append(item)
        self._changed.set()

    def close(self) -> None:
        """End the stream; listeners to ``close`` are called once."""
        if not self.closed:
            self.closed = True
            if self._on_close is not None:
                self._on_close()
            self._changed.set()
            self.emit("close")

    async def __aiter__(self) -> AsyncIterator[object]:
        """Yield what was sent and, as (event, interest) pairs, what the subscription brings.

        The end of the iteration is the end of the stream, however it comes.
        """
        try:
            while True:
                self._changed.clear()
                while self._items:
                    yield self._items.popleft()
                if self.closed:
                    return
                pairs = self.subscription.take(STREAM_ITEMS_MAX) if self.subscription else []
                for pair in pairs:
                    yield pair
                if not pairs and not self._items:
                    await self._changed.wait()
        finally:
            self.close()


class KernelCalls(Protocol):
    """The kernel as resources know it: its verbs, and what system rows ask of it."""

    reader: Reader
    committer: Committer
    rights: Authorizer
    visibility: Visibility

    def authorise_read(self, topic: str, caller: Caller) -> None:
        """Raise unless the caller may be given what is at a topic."""

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
        """Carry out a write of a plain value, past any resource class at its topic."""

    async def create_value(self, topic: str, value: object, caller: Caller) -> Receipt:
        """Create a record from a plain value."""

    def open_stream(
        self, topic: str, caller: Caller, interest: SubscribedFilter | None = None
    ) -> Subscription:
        """Return a new subscription to one topic, or to all below a collection."""

    def close(self, subscription: Subscription) -> None:
        """End a subscription."""


class Resource:
    """The behaviour at a path. Extend it in ``resources/*.py``; the class's name is its path.

    ``path`` changes that. An instance lives for one request: ``topic`` and ``id`` say what it is
    about, ``caller`` who asks, ``receipt`` what the last write through it became.
    """

    path: ClassVar[str | None] = None

    def __init__(self, kernel: KernelCalls, topic: str, record_id: str, caller: Caller) -> None:
        self.kernel = kernel
        self.topic = topic
        self.id = record_id
        self.caller = caller
        self.condition: Condition | None = None
        """What must hold of the record; the verbs of this class check it where they write."""
        self.sent: Event | None = None
        """What the client sent, when this is a write."""
        self.receipt: Receipt | None = None
        self.began = ""
        """Topic of the work that a POST began and that goes on behind its answer."""
        self.interest: SubscribedFilter | None = None
        """What a connected client watches, as hooks left it; it serves one subscription."""

    async def get(self, query: Query | None = None) -> object:
        """Return the record's value, or a collection's values as a list; None: no record."""
        return await self.kernel.read_value(self.topic, self.caller, query)

    async def put(self, value: object) -> object:
        """Make ``value`` the record."""
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
        """Send ``message`` to the topic's subscribers; the record is left as it is."""
        return await self._write(MESSAGE, message)

    def subscribe(self) -> AsyncIterable[object]:
        """Return what a subscriber of this topic receives: values, or (event, interest) pairs."""
        interest, self.interest = self.interest, None
        subscription = self.kernel.open_stream(self.topic, self.caller, interest)
        return Stream(subscription, lambda: self.kernel.close(subscription))

    def connect(self, incoming: Incoming | None = None) -> AsyncIterable[object]:  # noqa: ARG002
        """Return what a connected client receives; ``incoming`` is what it sends, None for SSE."""
        return self.subscribe()

    async def _write(self, kind: str, value: object) -> object:
        self.receipt = await self.kernel.write_value(
            self.topic, kind, value, self.caller, self.sent, self.condition
        )
        return self.receipt
