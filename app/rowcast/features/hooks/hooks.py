"""The hooks of one server: who listens at which point, and how each point is dispatched.

There are five ways (G11-G15): the first refusal ends it (on_connect, on_publish); each
changes what the one before gave, in the order of registration (on_publish_received,
on_publish_deliver, on_subscribe); all are told, whatever one of them does (what happened); the
first that takes it has it (store_retained, get_retained); all must agree (can_read). The list of a
point is made when a hook is added, so a point at which nobody listens costs one look (G16).

``server.mqtt.events`` of the resources are listeners here too. The server's own writes and reads
pass by the hooks that authorise. It knows no protocol, and not how a call is made safe: that is
``hook_calls.py``.
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
from rowcast.core.events import PUT, Event, Record
from rowcast.core.freshness import told_of
from rowcast.core.limits import HOOK_RECORDS_MAX, HOOK_SECONDS_MAX
from rowcast.core.suggestions import did_you_mean
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.bindable import Bindable
from rowcast.features.hooks.hook import DROP, PLAIN, POINTS, Hook
from rowcast.features.hooks.hook_calls import Attached, Call, Figures
from rowcast.kernel.hook_points import HookPoints
from rowcast.kernel.listeners import Listeners
from rowcast.rows.topic_rows import Row
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
"""What ``server.mqtt.events`` tells of (G17, G18), on every door (X2)."""

NO_OPTIONS: Final[Mapping[str, object]] = MappingProxyType({})

Listener = Callable[..., object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Socket:
    """The other end of a connection by ``mqtt``, ``http``, ``ws`` or ``sse``, and why it ended."""

    peer: str
    door: str
    error: str | None = None


class Hooks(HookPoints):
    """Hooks and listeners, in the order in which they were added."""

    def __init__(self) -> None:
        super().__init__(Listeners())
        self._hooks: list[tuple[Hook, Attached, Mapping[str, object]]] = []
        self._begun: list[tuple[Hook, Attached]] = []
        self.clients: list[Bindable] = []
        """Clients inside the process that files in ``resources/`` asked for."""
        self._collected: dict[type, list[object]] = {}
        self._attached: list[Attached] = []
        self._calls: dict[str, tuple[Call, ...]] = dict.fromkeys((*POINTS, *HAPPENINGS), ())
        self.writing = False
        """Whether anyone listens to writes; without it a write costs this one look."""
        self.write_waits = False
        """Whether any of them must be awaited, or keeps what is written."""
        self.told_of_writes = False
        """Whether anyone hears of writes that were carried out."""
        self.storing = False
        """Whether anyone keeps retained values of undeclared topics."""
        self.reading = False
        """Whether anyone decides what may be read."""
        self.changed: Callable[[], None] = lambda: None
        """Called when somebody listens who did not before."""

    # -- who listens -------------------------------------------------------------------------------

    def add(self, hook: Hook, options: Mapping[str, object] = NO_OPTIONS) -> None:
        """Add a hook; ``options`` are for its ``init``. Raises INVALID for what cannot be called.

        It is called after those that were added before.
        """
        name = hook.id or type(hook).__name__
        attached = Attached(Figures(name))
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
        """Call ``listener`` whenever ``name`` happens; raises INVALID for an unknown name."""
        if name not in HAPPENINGS:
            known = ", ".join(HAPPENINGS)
            raise Error(
                Code.INVALID,
                f"there is no event {name!r}{did_you_mean(name, HAPPENINGS)}; known are {known}",
            )
        words = getattr(listener, "__qualname__", type(listener).__name__)
        attached = Attached(Figures(f"{name}: {words}"))
        self._attach(attached, [Call(attached, name, listener)])

    def _attach(self, attached: Attached, calls: list[Call]) -> None:
        self._attached.append(attached)
        of = self._calls
        for call in calls:
            of[call.point] = (*of[call.point], call)
        writing = (*of["on_publish"], *of["on_publish_received"], *of["store_retained"])
        self.told_of_writes = bool(of["publish"])
        self.writing = bool(writing) or self.told_of_writes
        self.storing, self.supplying = bool(of["store_retained"]), bool(of["get_retained"])
        self.write_waits = self.storing or any(call.waits for call in writing)
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
        """Return what each hook and listener has cost, in the order of registration (G22)."""
        return [attached.figures for attached in self._attached]

    # -- the server's start and stop ---------------------------------------------------------------

    async def start(self) -> None:
        """Let every hook begin; raises INVALID when one cannot (G1)."""
        for hook, attached, options in self._hooks:
            try:
                await _within_time(hook.init(options))
            except Exception as failure:
                await self.stop()
                words = failure.message if isinstance(failure, Error) else _words(failure)
                raise Error(
                    Code.INVALID,
                    f"the hook {attached.figures.id!r} could not begin, so the server does not "
                    f"start: {words}",
                ) from failure
            self._begun.append((hook, attached))

    async def stop(self) -> None:
        """Let listeners hear what waits for them, then let the hooks end, the last one first."""
        for attached in self._attached:
            await attached.settle()
        while self._begun:
            hook, attached = self._begun.pop()
            try:
                await _within_time(hook.stop())
            except Exception as failure:  # noqa: BLE001 - the others end all the same
                attached.failed("stop", failure)

    # -- connections and sessions: what the doors tell ---------------------------------------------

    def connection(self, caller: Caller) -> None:
        """Tell that somebody has connected, before it is known who."""
        self._happened("connection", caller, _socket(caller))

    async def connect(self, caller: Caller, packet: object = None) -> None:
        """Ask whether a connection may begin; raises the first refusal (G2, G11)."""
        for call in self._calls["on_connect"]:
            await call.answer(caller, packet)

    def connected(self, caller: Caller) -> None:
        """Tell that a connection was accepted (G3)."""
        super().connected(caller)
        self._notify("on_connected", caller)
        self._happened("connected", caller, _socket(caller))

    def auth_failed(self, caller: Caller, message: str) -> None:
        """Tell that somebody could not prove who it is, or may not come in."""
        self._happened("auth-failed", caller, _socket(caller, message))
        super().auth_failed(caller, message)

    def disconnected(self, caller: Caller, error: str | None = None) -> None:
        """Tell that a connection ended, and why when the client did not wish it (G3)."""
        super().disconnected(caller, error)
        self._notify("on_disconnect", caller, error)
        self._happened("disconnected", caller, _socket(caller, error))

    def session_created(self, caller: Caller) -> None:
        """Tell that a session began (G9)."""
        self._notify("on_session_created", caller)

    def session_resumed(self, caller: Caller) -> None:
        """Tell that a client came back to its session (G9)."""
        self._notify("on_session_resumed", caller)

    def session_ended(self, client_id: str) -> None:
        """Tell that a session is forgotten (G9)."""
        self._notify("on_session_ended", client_id)

    def _notify(self, point: str, *arguments: object) -> None:
        for call in self._calls[point]:
            call.notify(*arguments)

    def _happened(self, name: str, *arguments: object) -> None:
        for call in self._calls[name]:
            call.notify(*arguments)

    # -- what the kernel tells ---------------------------------------------------------------------

    def subscribed(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Tell that a filter is watched now (G18)."""
        super().subscribed(caller, interest)
        self._happened("subscribe", [interest], caller)

    def unsubscribed(self, caller: Caller, text: str) -> None:
        """Tell that a filter is no longer watched (G18)."""
        self._happened("unsubscribe", [text], caller)

    def published(self, caller: Caller, event: Event) -> None:
        """Tell that a write was carried out (G18)."""
        self._happened("publish", event, caller)

    # -- reads: what the kernel asks ---------------------------------------------------------------

    def subscribe(self, caller: Caller, interest: SubscribedFilter) -> bool:
        """Let the hooks change an interest that is about to begin; raises a refusal (G4, G12).

        Returns whether it has another filter now.
        """
        if caller.door == "server":
            return False
        asked = interest.topics
        for call in self._calls["on_subscribe"]:
            _take(call, interest, call(caller, interest))
        return interest.topics is not asked

    async def subscribe_waiting(self, caller: Caller, interest: SubscribedFilter) -> bool:
        """Do likewise where some of the hooks are asynchronous."""
        if not self.subscribe_waits:
            return self.subscribe(caller, interest)
        asked = interest.topics
        for call in self._calls["on_subscribe"]:
            _take(call, interest, await call.answer(caller, interest))
        return interest.topics is not asked

    def may_read(self, caller: Caller, topic: str) -> bool:
        """Tell whether all agree that the caller is given what is at a topic (G6, G15)."""
        if caller.door == "server":
            return True
        topic = told_of(topic) or topic  # of its silence knows who may know of it
        for call in self._calls["can_read"]:
            try:
                if not call(caller, topic):
                    return False
            except Error:  # in doubt it is not shown
                return False
        return True

    def may_see(self, caller: Caller, event: Event) -> bool:
        """Tell whether a caller is given an event: a row only with the topic it is about (L12)."""
        if isinstance(event, Row) and not self.may_read(caller, event.about):
            return False
        return self.may_read(caller, event.topic)

    def deliver(self, caller: Caller, event: Event) -> Event | None:
        """Return what becomes of an event for one reader, None if nothing does (G8, G12)."""
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

    # -- writes: what the kernel asks --------------------------------------------------------------

    def publish(self, caller: Caller, event: Event) -> Event | None:
        """Return what becomes of a write, None if it is dropped; raises a refusal (G5, G7)."""
        for call in self._calls["on_publish"]:
            call(caller, event)
        for call in self._calls["on_publish_received"]:
            event, dropped = _received(call, event, call(caller, event))
            if dropped:
                return None
        return event

    async def authorise(self, caller: Caller, event: Event) -> None:
        """Ask whether a caller may write, where user code decides what; raises a refusal (G5)."""
        for call in self._calls["on_publish"] if caller.door != "server" else ():
            await call.answer(caller, event)

    async def publish_waiting(self, caller: Caller, event: Event) -> Event | None:
        """Do likewise where some of the hooks are asynchronous."""
        for call in self._calls["on_publish"]:
            await call.answer(caller, event)
        for call in self._calls["on_publish_received"]:
            event, dropped = _received(call, event, await call.answer(caller, event))
            if dropped:
                return None
        return event

    # -- retained values: the first that has them --------------------------------------------------

    async def store(self, topic: str, event: Event) -> bool:
        """Tell whether a hook has kept a retained value; raises its refusal (G10, G14)."""
        for call in self._calls["store_retained"]:
            answer = await call.answer(topic, event)
            if answer is True:
                return True
            if answer not in {None, False}:
                raise call.attached.failed(call.point, _wrong(answer, "True or False"))
        return False

    async def supply(self, topics: TopicFilter) -> list[Record] | None:
        """Return the retained values that a hook has of a filter; None if it is nobody's.

        Raises INTERNAL when the hook fails.
        """
        for call in self._calls["get_retained"]:
            answer = await call.answer(topics.text)
            if answer is None:
                continue
            if not isinstance(answer, list | tuple) or not all(_fits(topics, x) for x in answer):
                raise call.attached.failed(call.point, "it should return a list of events that fit")
            if len(answer) > HOOK_RECORDS_MAX:
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
        return answer, False
    if answer is not None:
        raise call.attached.failed(call.point, _wrong(answer, "an Event or DROP"))
    return event, False


def _wrong(answer: object, wanted: str) -> str:
    return f"it returned {type(answer).__name__} instead of {wanted} or None"


def _socket(caller: Caller, error: str | None = None) -> Socket | None:
    return Socket(caller.peer, caller.door, error) if caller.peer else None


async def _within_time(result: object) -> None:
    if inspect.isawaitable(result):
        async with asyncio.timeout(HOOK_SECONDS_MAX):
            await result


def _words(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"


COLLECTING: ContextVar[Hooks] = ContextVar("rowcast hooks")
"""The hooks of the server whose resources are being loaded: where those of the files belong."""
