"""The hook pipeline of writes: authorise, transform, notify.

It is used only if there are hooks (``Hooks.writing``). Synchronous hooks are called directly. With
an asynchronous hook, the writes of each caller are queued and processed in sequence, so that they
reach the log in order; callers do not wait for each other. A dropped message is acknowledged and
not announced (G7).

It knows neither protocols nor the store; the kernel runs the resulting write.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import MESSAGE, PATCH, RETAINED, Event
from rowcast.core.result_limits import RESULT_SLICE_ROWS
from rowcast.core.topics import TopicFilter, split_delayed
from rowcast.features.hooks.delivery_filter import HookStage
from rowcast.features.hooks.hooks import Hooks
from rowcast.routes.registry import Route
from rowcast.seams.hook_points import WriteGate
from rowcast.seams.user_code import is_mistake
from rowcast.subscriptions.stage import Stage
from rowcast.writes.write import Condition, Done, Outcome, Receipt, Step, Write

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.features.hooks")

Work = Callable[[], Awaitable[None]]
"""A job of a queue; it answers its write and never raises."""


class CallerQueue:
    """The queued writes of one caller."""

    __slots__ = ("size", "steps", "task")

    def __init__(self) -> None:
        self.steps: deque[tuple[Work, Callable[[Error], None], int]] = deque()
        self.size = 0
        """Bytes of their payloads."""
        self.task: asyncio.Task[None] | None = None


class HookPipeline(WriteGate):
    """The hook pipeline of one kernel."""

    def __init__(self, kernel: "Kernel", hooks: Hooks) -> None:
        self._kernel = kernel
        self._hooks = hooks
        self._lanes: dict[object, CallerQueue] = {}
        """By connection: a caller is another one after a change of its rights."""

    def stage(self, caller: Caller) -> Stage | None:
        """Return the stage of delivery hooks for a caller; None if there is none."""
        return HookStage(self._hooks, caller) if self._hooks.delivering else None

    def step(self, route: Route) -> Step | None:  # noqa: ARG002 - they hear of every topic
        """Return the step that calls the hooks of writes, if there are any."""
        return self._ask_first if self._hooks.writing else None

    def _ask_first(self, write: Write) -> bool:
        if write.passed or write.caller.door == "server":
            return False
        self._submit(write)
        return True

    def _submit(self, write: Write) -> None:
        """Run the hooks, then let the kernel continue with the resulting write."""
        if self._hooks.write_waits:

            async def step() -> None:
                try:
                    became, left = await self.one(write.event, write.caller, write.condition)
                except Error as error:
                    write.done(error)
                else:
                    self._go_on(write, became, left)

            self._queue(write.caller, step, write.done, len(write.event.payload))
            return
        try:
            became = self._ask(write.event, write.caller)
        except Error as error:
            write.done(error)
        else:
            self._go_on(write, became, write.condition)

    def _go_on(self, write: Write, became: Event | None, condition: Condition | None) -> None:
        if became is not None:
            write.event, write.passed = became, True
            write.meet(condition)
            write.done = self.notifying(write.caller, write.done)
            self._kernel.writes.carry_out(write)
            return
        receipt, done = Receipt(write.event), write.done
        if write.changes:
            self._kernel.committer.keep(write.changes, lambda error: done(error or receipt))
        else:
            done(receipt)

    async def one(
        self, event: Event, caller: Caller, condition: Condition | None
    ) -> tuple[Event | None, Condition | None]:
        """Run the hooks of one write; return the resulting event, and remaining checks.

        A dropped event is None.
        """
        if not self._hooks.write_waits:
            return self._ask(event, caller), condition
        became = await self._ask_waiting(event, caller)
        if became is None or not self._hooks.storing or became.kind not in RETAINED:
            return became, condition
        return await self._store(became, condition)

    async def _store(
        self, event: Event, condition: Condition | None
    ) -> tuple[Event, Condition | None]:
        """Offer a retained value to hooks that store them (G10, X20).

        A stored one continues as a message: it is announced, and no record is written.
        """
        topic = event.topic
        if self._kernel.registry.route(topic).entry is not None:
            return event, condition
        self._kernel.admission.check_size(event)
        if condition is not None or event.kind == PATCH:
            kept = await self._hooks.supply(TopicFilter(topic))
            if kept is None:  # this topic belongs to a table
                return event, condition
            if event.kind == PATCH:
                raise Error(
                    Code.NOT_ALLOWED, f"the value at {topic!r} is kept by a hook; put the whole"
                )
            if condition is not None:
                condition.check(next(iter(kept), None), topic)
        if not await self._hooks.store(topic, event):
            return event, condition
        return event.changed(kind=MESSAGE), None

    @property
    def may_drop(self) -> bool:
        """Whether there are hooks of writes."""
        return self._hooks.writing

    async def together(
        self,
        events: Sequence[Event],
        caller: Caller,
        go_on: Callable[[list[Event | None]], Awaitable[None]],
    ) -> None:
        """Run the hooks of atomic writes; raises the first refusal, with the write's ``index``.

        ``go_on`` is called with the results, in order with the caller's other writes.
        """
        if not self._hooks.writing or caller.door == "server":
            await go_on(list(events))
            return
        if not self._hooks.write_waits:
            await go_on([self._ask_at(*item, caller) for item in enumerate(events)])
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def refuse(error: Error) -> None:
            if not future.done():
                future.set_exception(error)

        async def step() -> None:
            try:
                await go_on(await self._ask_each(events, caller))
            except Error as error:
                refuse(error)
            else:
                if not future.done():
                    future.set_result(None)

        self._queue(caller, step, refuse, sum(len(event.payload) for event in events))
        await future

    def notifying(self, caller: Caller, done: Done) -> Done:
        """Wrap ``done`` to notify listeners of a successful write."""
        if not self._hooks.notified_of_writes:
            return done

        def notified(outcome: Outcome) -> None:
            if isinstance(outcome, Receipt):
                self._hooks.published(caller, outcome.event)
            done(outcome)

        return notified

    async def notify(self, caller: Caller, events: Sequence[Event]) -> None:
        """Notify listeners of many writes, as fast as they take them; return once all have."""
        for at, event in enumerate(events):
            await self._hooks.room()
            self._hooks.published(caller, event)
            if not at % RESULT_SLICE_ROWS:
                await asyncio.sleep(0)  # yield to the loop
        await self._hooks.drain()

    # -- calls -------------------------------------------------------------------------------------

    def _ask(self, event: Event, caller: Caller) -> Event | None:
        delay = self._check(event, caller)
        return _as_sent(event, self._hooks.publish(caller, event), delay)

    async def _ask_waiting(self, event: Event, caller: Caller) -> Event | None:
        # many writes may have waited before this one, each for seconds (L8)
        delay = self._check(event, self._kernel.reauthorization.writer(caller))
        return _as_sent(event, await self._hooks.publish_waiting(caller, event), delay)

    def _ask_at(self, index: int, event: Event, caller: Caller) -> Event | None:
        with _numbered(index):
            return self._ask(event, caller)

    async def _ask_each(self, events: Sequence[Event], caller: Caller) -> list[Event | None]:
        became: list[Event | None] = []
        for index, event in enumerate(events):
            with _numbered(index):
                became.append(await self._ask_waiting(event, caller))
        return became

    def _check(self, event: Event, caller: Caller) -> str:
        """Raise the Error of a write that is refused anyway, before calling hooks.

        A hook sees a delayed write with its final topic; returns the prefix to restore.
        """
        topic = self._kernel.registry.route(event.topic).topic
        self._kernel.rights.check_write(topic, caller, event.kind)
        delay, event.topic = split_delayed(event.topic)
        return delay

    def __contains__(self, caller: object) -> bool:
        return isinstance(caller, Caller) and caller.connection in self._lanes

    def after(
        self, caller: Caller, call: Callable[[], None], refuse: Callable[[Error], None]
    ) -> None:
        """Call after the caller's queued writes; now if there are none."""
        if caller.connection not in self._lanes:
            call()
            return

        async def step() -> None:
            call()

        self._queue(caller, step, refuse)

    # -- queues ------------------------------------------------------------------------------------

    def _queue(
        self, caller: Caller, step: Work, refuse: Callable[[Error], None], size: int = 0
    ) -> None:
        lane = self._lanes.get(caller.connection)
        if lane is None:
            lane = self._lanes[caller.connection] = CallerQueue()
        bounds = self._hooks.bounds
        too_large = lane.size and lane.size + size > bounds.writes_bytes
        if len(lane.steps) >= bounds.writes or too_large:
            waits = f"{len(lane.steps)} of your writes with {lane.size} bytes"
            refuse(
                Error(
                    Code.BUSY,
                    f"{waits} wait for a hook; try again in a second",
                    retry_after_seconds=1,
                )
            )
            return
        lane.steps.append((step, refuse, size))
        lane.size += size
        if lane.task is None:
            lane.task = asyncio.get_running_loop().create_task(self._walk(caller, lane))

    async def _walk(self, caller: Caller, lane: CallerQueue) -> None:
        """Process a caller's queue in order."""
        while lane.steps:
            # it stays queued, so that it is answered at shutdown
            step, _, size = lane.steps[0]
            try:
                await step()
            except BaseException as failure:
                if not is_mistake(failure):
                    raise
                log.exception("a write of %s failed on its way through the hooks", caller.user)
            lane.steps.popleft()
            lane.size -= size
        self._lanes.pop(caller.connection, None)

    async def stop(self) -> None:
        """Refuse all queued writes."""
        lanes = list(self._lanes.values())
        for lane in lanes:
            if lane.task is not None:
                lane.task.cancel()
                await asyncio.wait((lane.task,))
            for _, refuse, _ in lane.steps:
                refuse(stopping())
        self._lanes.clear()


def _as_sent(event: Event, became: Event | None, delay: str) -> Event | None:
    """Return the resulting event; a hook cannot change its writer and delay."""
    if became is not None and became is not event:
        became.client = event.client
    if became is not None and delay:
        became.topic = delay + became.topic
    return became


@contextmanager
def _numbered(index: int) -> Iterator[None]:
    """Give the refusal of one of several writes its number, as that of admission has one."""
    try:
        yield
    except Error as error:
        error.detail = {**error.detail, "index": index}
        raise
