"""The public face for code in ``resources/``: all that it may import.

``resources/echo.py`` is a whole example: a class that extends Resource, whose ``connect``
yields what a client is sent. A hook is a class that extends Hook, added with ``hooks.add``; a
listener is a function given to ``server.mqtt.events.on``. Both belong to the server that loads
the file.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar, cast, overload

from rowcast.core.callers import Caller
from rowcast.core.durations import parse_duration
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.limits import SCHEDULE_SECONDS_MIN
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import table_name_for_topic
from rowcast.core.topics import TopicFilter
from rowcast.features.computed.computation import Computation
from rowcast.features.hooks.hook import DROP, Hook, Refusal
from rowcast.features.hooks.hooks import COLLECTING, NO_OPTIONS, Hooks, Listener, Socket
from rowcast.features.local_client.local_client import LocalClient
from rowcast.features.schedules.schedules import Schedule, add_schedule
from rowcast.features.triggers.trigger import Trigger, check_triggers
from rowcast.routes.resource import Incoming, Resource, Stream
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

__all__ = [
    "DROP",
    "Caller",
    "Code",
    "Error",
    "Event",
    "Hook",
    "Incoming",
    "LocalClient",
    "Query",
    "Record",
    "Refusal",
    "Resource",
    "Socket",
    "Stream",
    "SubscribedFilter",
    "Table",
    "Timer",
    "TopicFilter",
    "computed",
    "every",
    "get_table_name_for_topic",
    "hooks",
    "on",
    "server",
    "table_name_for_topic",
]

get_table_name_for_topic = table_name_for_topic
"""The same function under a longer name (F5, F18)."""

log = logging.getLogger("rowcast.resources")


class Timer:
    """Something that happens again and again until cancelled."""

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._task = asyncio.get_running_loop().create_task(_repeat(seconds, call))

    @property
    def running(self) -> bool:
        """Whether it still happens."""
        return not self._task.done()

    def cancel(self) -> None:
        """End it."""
        self._task.cancel()


C = TypeVar("C", bound=Callable[[], object])


@overload
def every(seconds: float, call: Callable[[], object]) -> Timer: ...


@overload
def every(seconds: str | float) -> Callable[[C], C]: ...


def every(seconds: str | float, call: Callable[[], object] | None = None) -> object:
    """Call ``call`` every ``seconds`` from now on; a coroutine function is awaited.

    Without ``call`` it is a decorator for a function of a file in ``resources/``, and ``seconds``
    may be a text such as ``"1m"``: a schedule, which goes by the clock and over restarts (H32).
    """
    period = parse_duration(seconds) if isinstance(seconds, str) else seconds
    if call is not None and period:
        return Timer(period, call)
    if period is None or period < SCHEDULE_SECONDS_MIN:
        raise Error(
            Code.INVALID,
            f"{seconds!r} is no period of a schedule: write one of a second or more as in "
            '@every("30s"), @every("1h30m") or @every("1d")',
        )

    def add(function: C) -> C:
        schedule = Schedule(_name(function), period, function)
        add_schedule(_collecting().collected(Schedule), schedule)
        return function

    return add


F = TypeVar("F", bound=Callable[[Event], object])
K = TypeVar("K", bound=Callable[[dict[str, object]], object])


def on(*filters: str) -> Callable[[F], F]:
    """Call the decorated function for each event at some topics, also after a restart (G23).

    For a file in ``resources/``: ``@on("Sensor/+")``. The function gets an Event; a coroutine
    function is awaited. Raises INVALID for a malformed filter.
    """
    if not filters:
        raise Error(Code.INVALID, '@on needs a topic filter, such as @on("Sensor/+")')
    topics = tuple(map(TopicFilter, filters))

    def add(function: F) -> F:
        collected = _collecting().collected(Trigger)
        collected.append(Trigger(_name(function), topics, function))
        check_triggers(collected)
        return function

    return add


@overload
def computed(name: str) -> Callable[[K], K]: ...


@overload
def computed(name: K) -> K: ...


def computed(name: object) -> object:
    """Compute an attribute that the schema declares with ``@computed`` alone (A9).

    The decorated function gets a record, as a dictionary of its stored attributes, and returns the
    value. ``@computed("Order.total")`` is for a function, ``@computed`` for a method ``total`` of a
    class ``Order``; neither has ``self``. Raises INVALID for an asynchronous one.
    """

    def add(label: str, function: Callable[..., object]) -> object:
        _collecting().collected(Computation).append(Computation(label, function))
        return staticmethod(function)

    if isinstance(name, str):
        return lambda function: add(name, function)
    return add(getattr(name, "__qualname__", ""), cast("Callable[..., object]", name))


def _name(function: Callable[..., object]) -> str:
    """Return the name of what a file in ``resources/`` registers: its file and its own."""
    file = function.__module__.rpartition(".")[2]
    return f"{file}.{getattr(function, '__qualname__', type(function).__name__)}"


async def _repeat(seconds: float, call: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            result = call()
            if inspect.isawaitable(result):
                await result
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            log.exception("a timer of a resource failed; it goes on")


H = TypeVar("H", bound=Hook | type[Hook])


class _Added:
    """Takes the hooks of the file that is being loaded."""

    def add(self, hook: H, options: Mapping[str, object] = NO_OPTIONS) -> H:
        """Add a hook, or a class of hooks as its decorator; return what was given."""
        _collecting().add(hook() if isinstance(hook, type) else hook, options)
        return hook


class _Events:
    """Takes the listeners of the file that is being loaded (G17)."""

    @overload
    def on(self, name: str) -> Callable[[Listener], Listener]: ...

    @overload
    def on(self, name: str, listener: Listener) -> Listener: ...

    def on(self, name: str, listener: Listener | None = None) -> object:
        """Call ``listener`` whenever ``name`` happens; without one it is a decorator."""
        if listener is None:
            return lambda given: self.on(name, given)
        _collecting().on(name, listener)
        return listener


class _Mqtt:
    events = _Events()


class _Server:
    mqtt = _Mqtt()

    def client(self, name: str) -> LocalClient:
        """Return a client inside the process, for use once the server has started."""
        client = LocalClient(name)
        _collecting().clients.append(client)
        return client


def _collecting() -> Hooks:
    """Return the hooks of the server that is loading; raises NOT_ALLOWED when none is."""
    found = COLLECTING.get(None)
    if found is None:
        raise Error(
            Code.NOT_ALLOWED,
            "hooks and listeners are added at the top of a file in resources/, while the server "
            "loads it; move the call there",
        )
    return found


hooks = _Added()
server = _Server()
