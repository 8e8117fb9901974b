"""Dispatch of writes to the resource classes at their topics.

The class is user code that may wait, so each such write is a task; exceptions other than Error are
bugs of the class, and are reported with an incident id. It knows no protocol and no store: writes
of the class go through the kernel.

Writes of one connection at one topic stay in order: behind one that the class carries out, later
ones wait for it, also those that it does not override. Over HTTP each request waits for its own
answer, and none for another.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4
from weakref import WeakValueDictionary

from rowcast.codecs import decode, is_structured
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.core.limits import RESOURCE_WRITES_MAX
from rowcast.core.memory_limits import RESOURCE_WRITES_BYTES_MAX
from rowcast.core.overload_limits import RESOURCE_END_SECONDS
from rowcast.core.tables import Table
from rowcast.routes.exact_decimals import decoded_exactly
from rowcast.routes.registry import VERB_OF_KIND, Route
from rowcast.routes.resource import Resource
from rowcast.seams.user_code import is_mistake
from rowcast.store.store import Change
from rowcast.writes.write import Condition, Done, Outcome, Receipt, Step, Write, resolver

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.kernel")


Key = tuple[object, str]
"""A connection and a topic."""

_HELD: Final = ContextVar[frozenset[Key]]("held", default=frozenset())
"""Whose turn it is in a running call: what the class itself writes there does not wait for it."""


class Lane:
    """The writes of one connection at one topic that are not done."""

    __slots__ = ("last", "size", "writes")

    def __init__(self) -> None:
        self.last: asyncio.Task[Outcome | None] | None = None
        self.writes = self.size = 0


class ResourceDispatch:
    """Running writes of resource classes."""

    def __init__(
        self,
        kernel: "Kernel",
        writes_max: int = RESOURCE_WRITES_MAX,
        bytes_max: int = RESOURCE_WRITES_BYTES_MAX,
        end_seconds: float = RESOURCE_END_SECONDS,
    ) -> None:
        self._kernel = kernel
        self._writes_max, self._bytes_max = writes_max, bytes_max
        self._end_seconds = end_seconds
        self._running: dict[asyncio.Task[Outcome | None], tuple[str, Done]] = {}
        """The topic of each write that is not done, and what to call with its outcome."""
        self._lanes: dict[Key, Lane] = {}
        self._in_turn = WeakValueDictionary[str, asyncio.Lock]()
        """One for each topic with writes that ask whether there is a row; held until it is made."""

    def step(self, route: Route) -> Step | None:
        """Return the step that dispatches verbs overridden by the class at a route."""
        entry = route.entry
        if entry is None or not entry.overrides:
            return None
        overrides = entry.overrides

        def hand_over(write: Write) -> bool:
            if write.direct:
                return False
            if VERB_OF_KIND[write.event.kind] in overrides:
                check_alone(route, write)
                _check_condition(route, write)
                self._start(write, partial(self._carry_out, route, write))
                return True
            if not self._lanes or write.part_of or self._lane(write) is None:
                return False
            self._start(write, partial(self._go_on, write))
            return True

        return hand_over

    def _lane(self, write: Write) -> Lane | None:
        """Return the lane that a write has to wait in; None if nothing is before it."""
        key = write.caller.connection, write.event.topic
        return None if key in _HELD.get() else self._lanes.get(key)

    def _enter(self, write: Write, key: Key) -> Lane:
        """Return the lane of a write, with it counted; raises BUSY when too many wait."""
        lane, size = self._lanes.setdefault(key, Lane()), len(write.event.payload)
        if lane.writes and (lane.writes >= self._writes_max or lane.size + size > self._bytes_max):
            raise Error(
                Code.BUSY,
                f"{lane.writes} of your writes with {lane.size} bytes wait for the resource at "
                f"{key[1]!r}; try again in a second",
                retry_after_seconds=1,
            )
        lane.writes, lane.size = lane.writes + 1, lane.size + size
        return lane

    def _start(self, write: Write, call: Callable[[], Awaitable[Outcome | None]]) -> None:
        """Start a call for a write, when those before it in its lane are done."""
        key = write.caller.connection, write.event.topic
        ordered = write.caller.door != "http" and key not in _HELD.get()
        lane = self._enter(write, key) if ordered else None
        earlier = None if lane is None else lane.last
        done, size = write.done, len(write.event.payload)

        def ended(task: asyncio.Task[Outcome | None]) -> None:
            answered = self._running.pop(task, None) is None
            if lane is not None:
                lane.writes, lane.size = lane.writes - 1, lane.size - size
                if lane.last is task:
                    del self._lanes[key]
            if task.cancelled():
                outcome: Outcome | None = stopping()
            elif (failure := task.exception()) is not None:  # GeneratorExit, of a class
                outcome = _failed("a write", key[1], failure)
            else:
                outcome = task.result()
            if outcome is not None and not answered:
                done(outcome)

        task = asyncio.get_running_loop().create_task(_in_turn(key, earlier, call))
        if lane is not None:
            lane.last = task
        self._running[task] = key[1], done
        task.add_done_callback(ended)

    async def _go_on(self, write: Write) -> Outcome | None:
        """Carry out a write that the class does not override, after those before it."""
        try:
            self._writer(write)
        except Error as error:
            return error
        write.passed = True  # hooks, and the numbers of producers, have seen it
        self._kernel.writes.carry_out(write)
        return None

    def _writer(self, write: Write) -> Caller:
        """Return who has sent a write, as it is now; raises when it may not write there any more.

        Those before it in its lane may have taken minutes (L8).
        """
        caller = self._kernel.reauthorization.writer(write.caller)
        if caller is not write.caller:
            self._kernel.rights.check_write(write.event.topic, caller, write.event.kind)
        return caller

    async def stop(self) -> None:
        """Cancel running writes, and answer those that suppress it: nobody waits for them.

        They end with the process.
        """
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=self._end_seconds)
        for task in running:
            if (write := self._running.pop(task, None)) is not None:
                topic, done = write
                log.error("the resource at %r suppresses its cancellation", topic)
                done(stopping())

    async def _carry_out(self, route: Route, write: Write) -> Outcome:
        """Call the class's verb, and report what it did."""
        kernel, event = self._kernel, write.event
        verb = VERB_OF_KIND[event.kind]
        value: object = None
        outcome: Outcome
        caller = write.caller
        try:
            caller = self._writer(write)
            resource = cast("Resource", kernel.resource(route.topic, caller))
            resource.sent, resource.condition = event, write.condition
            value = self._value(route, event)
            if write.condition is not None and _is_unversioned(route):
                async with self._in_turn.setdefault(route.topic, asyncio.Lock()):
                    await _check_existence(route, resource, write.condition)
                    await self._call(resource, write, value)
            else:
                await self._call(resource, write, value)
            outcome = resource.receipt or Receipt(event)
        except Error as error:
            outcome = error
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            outcome = _failed(verb, route.topic, failure)
        refused = outcome if isinstance(outcome, Error) else None
        kernel.listeners.administered(caller, verb, route.topic, value, refused)
        return outcome

    def _value(self, route: Route, event: Event) -> object:
        """Return what a class is given of an event; None of a deletion."""
        if event.kind == DELETE:
            return None
        _check_decodes(event, route.table)
        transcoder = self._kernel.transcoder
        value = transcoder.sent(event)
        if not transcoder.structured(event):
            return value
        said = event.payload, event.content_type
        return decoded_exactly(self._kernel.registry, route.topic, value, *said)

    async def _call(self, resource: Resource, write: Write, value: object) -> None:
        """Call the class's verb, then store the write's changes of facts.

        They are stored afterwards, because the class may write any number of events, and may fail
        after some: then the changes must not apply. A class whose writes are one transaction has
        them in it.
        """
        resource.beside = write.changes
        verb = VERB_OF_KIND[write.event.kind]
        await (resource.delete() if verb == "delete" else getattr(resource, verb)(value))
        if resource.beside:
            await self._keep(resource.beside)

    async def _keep(self, changes: Sequence[Change]) -> None:
        future: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._kernel.committer.keep(changes, resolver(future))
        error = await future
        if error is not None:
            raise error


def _failed(verb: str, topic: str, failure: BaseException) -> Error:
    """Log what a class has raised; return the Error for its caller."""
    incident = uuid4().hex[:8]
    log.error("incident %s: %s of %r failed", incident, verb, topic, exc_info=failure)
    return Error(Code.INTERNAL, f"the resource failed; the server's log has {incident}")


async def _in_turn(
    key: Key,
    earlier: asyncio.Task[Outcome | None] | None,
    call: Callable[[], Awaitable[Outcome | None]],
) -> Outcome | None:
    if earlier is not None:
        await asyncio.wait((earlier,))
    _HELD.set(_HELD.get() | {key})
    return await call()


def _check_decodes(event: Event, table: Table | None) -> None:
    """Raise what a table says of bytes that are no value; open ones, and messages, take any."""
    said = event.content_type
    typed = not table.open if table is not None else said is not None and is_structured(said)
    if typed and event.payload and event.kind in {PUT, PATCH}:
        decode(event.payload, said)


def check_alone(route: Route, write: Write) -> None:
    """Raise NOT_ALLOWED for a write of an atomic batch that a class overrides."""
    if write.part_of:
        raise Error(
            Code.NOT_ALLOWED,
            f"the resource at {route.topic!r} has its own {VERB_OF_KIND[write.event.kind]}, which "
            f"cannot be part of {write.part_of}",
        )


def _check_condition(route: Route, write: Write) -> None:
    """Raise INVALID for a condition on the version of a row of the server that has none."""
    condition = write.condition
    if (
        condition is not None
        and _is_unversioned(route)
        and (condition.seqs is not None or condition.not_seqs)
    ):
        raise _no_version(route)


def _is_unversioned(route: Route) -> bool:
    resource = route.entry.resource if route.entry is not None else None
    return resource is not None and route.topic.startswith("$") and not resource.versioned


async def _check_existence(route: Route, resource: Resource, condition: Condition) -> None:
    """Raise PRECONDITION unless there is a row, or is none, as a condition wants (RFC 9110, 13.1).

    INVALID where the class cannot tell. ``strict`` is left to the class, which says NOT_FOUND.
    """
    if condition.exists is None or condition.strict:
        return
    there = await resource.is_there()
    if there is None:
        raise _no_version(route)
    if there is not condition.exists:
        known = "is a row already" if there else "is no row, but one is required"
        raise Error(Code.PRECONDITION, f"there {known} at {route.topic!r}")


def _no_version(route: Route) -> Error:
    return Error(
        Code.INVALID,
        f"the resource at {route.topic!r} has no versions, so a write takes no condition; leave "
        "If-Match and If-None-Match out",
    )
