"""The hooks of one server: registration, and dispatch of each point.

There are five kinds (G11-G15): stop at the first refusal (on_connect, on_publish); chain of
transformations in order of registration (on_publish_received, on_publish_deliver, on_subscribe);
notify all (events); first that handles it wins (store_retained, get_retained); all must allow
(can_read). The list of a point is built when a hook is added, so a point without hooks costs one
check (G16).

``server.mqtt.events`` of the resources are listeners here, too. The server's own writes and reads
bypass the hooks that authorise. It knows no protocol; ``hook_calls.py`` makes calls safe.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.event_mistakes import mistake_in
from rowcast.core.events import PUT, Event, Record
from rowcast.core.freshness import told_of
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.bindable import Bindable
from rowcast.features.hooks.bounds import BOUNDS, HookBounds
from rowcast.features.hooks.hook import DROP, PLAIN, POINTS, Hook
from rowcast.features.hooks.hook_calls import Attached, Call, Figures
from rowcast.rows.topic_rows import Row
from rowcast.seams.hook_points import HookPoints
from rowcast.seams.listeners import Listeners
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

HAPPENINGS: Final = (
    "connection",
    "connected",
    "auth-failed",
    "disconnected",
    "subscribe",
    "publish",
    "unsubscribe",
)
"""Events of ``server.mqtt.events`` (G17, G18), on every door (X2)."""

NO_OPTIONS: Final[Mapping[str, object]] = MappingProxyType({})

Listener = Callable[..., object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Socket:
    """The peer of a connection by ``mqtt``, ``http``, ``ws`` or ``sse``, and why it closed."""

    peer: str
    door: str
    error: str | None = None


class Hooks(HookPoints):
    """Hooks and listeners, in the order in which they were added."""

    def __init__(self, bounds: HookBounds = BOUNDS) -> None:
        super().__init__(Listeners())
        self.bounds = bounds
        self._hooks: list[tuple[Hook, Attached, Mapping[str, object]]] = []
        self._begun: list[tuple[Hook, Attached]] = []
        self.clients: list[Bindable] = []
        """In-process clients created by files in ``resources/``."""
        self._collected: dict[type, list[object]] = {}
        self._attached: list[Attached] = []
        self._calls: dict[str, tuple[Call, ...]] = dict.fromkeys((*POINTS, *HAPPENINGS), ())
        self.writing = False
        """Whether there are hooks of writes; without them a write costs this check only."""
        self.write_waits = False
        """Whether any of them is asynchronous, or stores retained values."""
        self.notified_of_writes = False
        """Whether there are listeners for successful writes."""
        self.storing = False
        """Whether a hook stores retained values of undeclared topics."""
        self.reading = False
        """Whether a hook authorises reads."""
        self.changed: Callable[[], None] = lambda: None
        """Called when a hook was added."""

    # -- registration ------------------------------------------------------------------------------

    def add(self, hook: Hook, options: Mapping[str, object] = NO_OPTIONS) -> None:
        """Add a hook; ``options`` are for its ``init``. Raises INVALID for invalid methods.

        It is called after earlier ones.
        """
        name = hook.id or type(hook).__name__
        attached = Attached(Figures(name), self.bounds)
        calls = [
            Call(attached, point, getattr(hook, point)) for point in POINTS if hook.provides(point)
        ]
        for call in calls:
            if call.waits and call.point in PLAIN:
                raise Error(
                    Code.INVALID,
                    f"{call.point} of the hook {name!r} is async, but it is asked for every "
                    "message and cannot wait; make it a plain function, and do what takes time "
                    "beforehand, such as in on_connect",
                )
        self._hooks.append((hook, attached, options))
        self._attach(attached, calls)

    def on(self, name: str, listener: Listener) -> None:
        """Call ``listener`` on each event ``name``; raises INVALID for an unknown name."""
        if name not in HAPPENINGS:
            known = ", ".join(HAPPENINGS)
            raise Error(
                Code.INVALID,
                f"there is no event {name!r}{did_you_mean(name, HAPPENINGS)}; known are {known}",
            )
        words = getattr(listener, "__qualname__", type(listener).__name__)
        attached = Attached(Figures(f"{name}: {words}"), self.bounds)
        self._attach(attached, [Call(attached, name, listener)])

    def _attach(self, attached: Attached, calls: list[Call]) -> None:
        self._attached.append(attached)
        of = self._calls
        for call in calls:
            of[call.point] = (*of[call.point], call)
        writing = (*of["on_publish"], *of["on_publish_received"], *of["store_retained"])
        self.notified_of_writes = bool(of["publish"])
        self.writing = bool(writing) or self.notified_of_writes
        self.storing, self.supplying = bool(of["store_retained"]), bool(of["get_retained"])
        self.write_waits = self.storing or any(call.waits for call in writing)
        self.hears_connections = bool(of["connection"])
        self.connecting = bool(of["on_connect"])
        self.subscribing = bool(of["on_subscribe"])
        self.subscribe_waits = any(call.waits for call in of["on_subscribe"])
        self.reading = bool(of["can_read"])
        self.delivering = bool(of["can_read"] or of["on_publish_deliver"])
        self.changed()

    def collected(self, kind: type[T]) -> list[T]:
        """Return the list of what files in ``resources/`` registered of another kind."""
        return cast("list[T]", self._collected.setdefault(kind, []))

    @property
    def registered(self) -> bool:
        """Whether there is any hook or listener."""
        return bool(self._attached)

    def figures(self) -> list[Figures]:
        """Return the statistics of hooks and listeners, in the order of registration (G22)."""
        return [attached.figures for attached in self._attached]

    # -- the server's start and stop ---------------------------------------------------------------

    async def start(self) -> None:
        """Call ``init`` of every hook; raises INVALID when one fails (G1)."""
        for hook, attached, options in self._hooks:
            try:
                await self._within_time(hook.init(options))
            except BaseException as failure:
                if not is_mistake(failure):
                    raise
                await self.stop()
                words = failure.message if isinstance(failure, Error) else _words(failure)
                raise Error(
                    Code.INVALID,
                    f"the hook {attached.figures.id!r} could not begin, so the server does not "
                    f"start: {words}",
                ) from failure
            self._begun.append((hook, attached))

    async def stop(self) -> None:
        """Drain the queues of listeners, then call ``stop`` of hooks in reverse order."""
        for attached in self._attached:
            await attached.settle()
        while self._begun:
            hook, attached = self._begun.pop()
            try:
                await self._within_time(hook.stop())
            except BaseException as failure:  # the others end all the same
                if not is_mistake(failure):
                    raise
                attached.failed("stop", failure)

    async def _within_time(self, result: object) -> None:
        if inspect.isawaitable(result):
            async with asyncio.timeout(self.bounds.seconds):
                await result

    # -- connections and sessions: called by doors -------------------------------------------------

    def connection(self, caller: Caller) -> None:
        """Notify of a new connection, not authenticated yet."""
        self._happened("connection", caller, _socket(caller))

    async def connect(self, caller: Caller, packet: object = None) -> None:
        """Authorise a connection; raises the first refusal (G2, G11)."""
        for call in self._calls["on_connect"]:
            await call.answer(caller, packet)

    def connected(self, caller: Caller) -> None:
        """Notify of an accepted connection (G3)."""
        super().connected(caller)
        self._notify("on_connected", caller)
        if self._calls["connected"]:
            self._happened("connected", caller, _socket(caller))

    def auth_failed(self, caller: Caller, message: str) -> None:
        """Notify of a failed or refused sign-in."""
        self._happened("auth-failed", caller, _socket(caller, message))
        super().auth_failed(caller, message)

    def disconnected(self, caller: Caller, error: str | None = None) -> None:
        """Notify of a closed connection, with the reason unless the client closed it (G3)."""
        super().disconnected(caller, error)
        self._notify("on_disconnect", caller, error)
        self._happened("disconnected", caller, _socket(caller, error))

    def session_created(self, caller: Caller) -> None:
        """Notify of a new session (G9)."""
        self._notify("on_session_created", caller)

    def session_resumed(self, caller: Caller) -> None:
        """Notify of a resumed session (G9)."""
        self._notify("on_session_resumed", caller)

    def session_ended(self, client_id: str) -> None:
        """Notify of a deleted session (G9)."""
        self._notify("on_session_ended", client_id)

    def _notify(self, point: str, *arguments: object) -> None:
        for call in self._calls[point]:
            call.notify(*arguments)

    def _happened(self, name: str, *arguments: object) -> None:
        for call in self._calls[name]:
            call.notify(*arguments)

    # -- notifications by the kernel ---------------------------------------------------------------

    def subscribed(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Notify of a new filter (G18)."""
        super().subscribed(caller, interest)
        self._happened("subscribe", [interest], caller)

    def unsubscribed(self, caller: Caller, text: str) -> None:
        """Notify of a removed filter (G18)."""
        self._happened("unsubscribe", [text], caller)

    def published(self, caller: Caller, event: Event) -> None:
        """Notify of a successful write (G18)."""
        self._happened("publish", event, caller)

    async def room(self) -> None:
        """Wait until each listener for writes has room for many more notices."""
        for call in self._calls["publish"]:
            await call.attached.room()

    async def drain(self) -> None:
        """Wait until the listeners for writes have taken all so far."""
        for call in self._calls["publish"]:
            await call.attached.drain()

    # -- reads: called by the kernel ---------------------------------------------------------------

    def subscribe(self, caller: Caller, interest: SubscribedFilter) -> bool:
        """Let the hooks change a new interest; raises a refusal (G4, G12).

        Returns whether its filter was replaced.
        """
        if caller.door == "server":
            return False
        asked = interest.topics
        for call in self._calls["on_subscribe"]:
            _take(call, interest, call(caller, interest))
        return interest.topics is not asked

    async def subscribe_waiting(self, caller: Caller, interest: SubscribedFilter) -> bool:
        """The same with asynchronous hooks."""
        if not self.subscribe_waits:
            return self.subscribe(caller, interest)
        asked = interest.topics
        for call in self._calls["on_subscribe"]:
            _take(call, interest, await call.answer(caller, interest))
        return interest.topics is not asked

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Whether all hooks let the caller read a topic (G6, G15)."""
        if caller.door == "server":
            return True
        topic = told_of(topic) or topic  # staleness is visible to readers of the topic
        for call in self._calls["can_read"]:
            try:
                if not call(caller, topic):
                    return False
            except Error:  # on failure, deny
                return False
        return True

    def may_see(self, caller: Caller, event: Event) -> bool:
        """Whether a caller may see an event; a row requires its source topic (L12)."""
        if isinstance(event, Row) and not self.may_read(caller, event.about):
            return False
        return self.may_read(caller, event.topic)

    def deliver(self, caller: Caller, event: Event) -> Event | None:
        """Return an event transformed for one reader; None if dropped (G8, G12)."""
        for call in self._calls["on_publish_deliver"]:
            try:
                answer = call(caller, event)
            except Error:
                return None
            if answer is DROP:
                return None
            if isinstance(answer, Event):
                event = answer
            elif answer is not None:
                call.attached.failed(call.point, _wrong(answer, "an Event or DROP"))
                return None
        return event

    # -- writes: called by the kernel --------------------------------------------------------------

    def publish(self, caller: Caller, event: Event) -> Event | None:
        """Return the transformed write; None if dropped; raises a refusal (G5, G7)."""
        for call in self._calls["on_publish"]:
            call(caller, event)
            _check(call, event)
        for call in self._calls["on_publish_received"]:
            event, dropped = _received(call, event, call(caller, event))
            if dropped:
                return None
        return event

    async def authorise(self, caller: Caller, event: Event) -> None:
        """Authorise a write of a resource's own verb; raises a refusal (G5)."""
        for call in self._calls["on_publish"] if caller.door != "server" else ():
            await call.answer(caller, event)

    async def publish_waiting(self, caller: Caller, event: Event) -> Event | None:
        """The same with asynchronous hooks."""
        for call in self._calls["on_publish"]:
            await call.answer(caller, event)
            _check(call, event)
        for call in self._calls["on_publish_received"]:
            event, dropped = _received(call, event, await call.answer(caller, event))
            if dropped:
                return None
        return event

    # -- retained values: the first hook wins ------------------------------------------------------

    async def store(self, topic: str, event: Event) -> bool:
        """Whether a hook has stored a retained value; raises its refusal (G10, G14)."""
        for call in self._calls["store_retained"]:
            answer = await call.answer(topic, event)
            if answer is True:
                return True
            if answer is not None and answer is not False:  # it may be of any kind
                raise call.attached.failed(call.point, _wrong(answer, "True or False"))
        return False

    async def supply(self, topics: TopicFilter) -> list[Record] | None:
        """Return a hook's retained values of a filter; None if no hook has any.

        Raises INTERNAL when the hook fails.
        """
        for call in self._calls["get_retained"]:
            answer = await call.answer(topics.text)
            if answer is None:
                continue
            if not isinstance(answer, list | tuple) or not all(_fits(topics, x) for x in answer):
                raise call.attached.failed(call.point, "it should return a list of events that fit")
            if len(answer) > self.bounds.records:
                raise call.attached.failed(call.point, f"it returned {len(answer)} events")
            facts = {"kind": PUT, "retain": True, "table": None, "seq": 0}
            return [record.changed(**facts) for record in answer]
        return None


def _fits(topics: TopicFilter, record: object) -> bool:
    return isinstance(record, Event) and topics.matches(record.topic)


def _take(call: Call, interest: SubscribedFilter, answer: object) -> None:
    if isinstance(answer, SubscribedFilter):
        interest.take(answer)
    elif answer is not None:
        raise call.attached.failed(call.point, _wrong(answer, "an SubscribedFilter"))


def _received(call: Call, event: Event, answer: object) -> tuple[Event, bool]:
    if answer is DROP:
        return event, True
    if isinstance(answer, Event):
        event = answer
    elif answer is not None:
        raise call.attached.failed(call.point, _wrong(answer, "an Event or DROP"))
    _check(call, event)
    return event, False


def _check(call: Call, event: Event) -> None:
    """Raise INTERNAL if a hook has made an event, or changed it to one, that cannot be written."""
    if mistake := mistake_in(event):
        raise call.attached.failed(call.point, f"it made an event whose {mistake}")


def _wrong(answer: object, wanted: str) -> str:
    return f"it returned {type(answer).__name__} instead of {wanted} or None"


def _socket(caller: Caller, error: str | None = None) -> Socket | None:
    return Socket(caller.peer, caller.door, error) if caller.peer else None


def _words(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"


COLLECTING: ContextVar[Hooks] = ContextVar("rowcast hooks")
"""The hooks of the server whose resources are being loaded, for hooks of the files."""
