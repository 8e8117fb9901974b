"""Calls of hooks: measured, with a timeout, and with isolated failures.

A hook is user code on the event loop. So each call is timed, and slow ones are listed by name
(G22); exceptions other than Error are bugs of the hook: they are logged under an incident id, which
the caller gets, and counted. Listeners cannot refuse. ``hooks.py`` defines the points.

An asynchronous call is a task of its own, because a hook may suppress its cancellation and go on
for ever: then nobody waits for it any more, and what was behind it goes on.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from uuid import uuid4

from rowcast.core.errors import Code, Error
from rowcast.core.limits import HOOK_LOG_SECONDS, HOOK_SLOW_SECONDS
from rowcast.features.hooks.bounds import BOUNDS, HookBounds
from rowcast.seams.user_code import is_mistake

log = logging.getLogger("rowcast.features.hooks")


Answer = tuple[object, BaseException | None]
"""What an asynchronous call has returned, or raised."""


@dataclass(slots=True)
class Figures:
    """The statistics of a hook: ``slow`` calls took longer than HOOK_SLOW_SECONDS.

    ``stuck`` calls go on though they were cancelled, when their time was over.
    """

    id: str
    calls: int = 0
    failures: int = 0
    slow: int = 0
    stuck: int = 0
    total_seconds: float = 0.0
    max_seconds: float = 0.0


@dataclass(slots=True)
class Attached:
    """A registered hook, or listener."""

    figures: Figures
    bounds: HookBounds = BOUNDS
    clock: Callable[[], float] = perf_counter
    notices: "deque[tuple[Call, tuple[object, ...]]]" = field(default_factory=deque)
    worker: asyncio.Task[None] | None = None
    waiting: "list[asyncio.Future[None]]" = field(default_factory=list)
    """Who waits until some are answered."""
    queued: int = 0
    """Notifications that were ever queued."""
    answered: int = 0
    """Those that were answered."""
    stuck: "set[asyncio.Task[Answer]]" = field(default_factory=set)
    """Calls that go on though they were cancelled."""
    _incident: str = ""
    _quiet_until: float = float("-inf")
    _slow_quiet_until: float = float("-inf")

    def note(self, point: str, started: float) -> None:
        """Count a call that began at ``started``, and log it if it was slow."""
        now = self.clock()
        seconds = now - started
        figures = self.figures
        figures.calls += 1
        figures.total_seconds += seconds
        figures.max_seconds = max(figures.max_seconds, seconds)
        if seconds <= HOOK_SLOW_SECONDS:
            return
        figures.slow += 1
        if now >= self._slow_quiet_until:
            self._slow_quiet_until = now + HOOK_LOG_SECONDS
            log.warning(
                "the hook %r took %.0f ms in %s; %d of its %d calls took more than %.0f ms",
                figures.id,
                seconds * 1000,
                point,
                figures.slow,
                figures.calls,
                HOOK_SLOW_SECONDS * 1000,
            )

    def failed(self, point: str, failure: BaseException | str) -> Error:
        """Count and log a failure; immediate repeats share the incident."""
        self.figures.failures += 1
        now = self.clock()
        if now >= self._quiet_until:
            self._incident = uuid4().hex[:8]
            self._quiet_until = now + HOOK_LOG_SECONDS
            words = "incident %s: %s of the hook %r failed: %s"
            raised = failure if isinstance(failure, BaseException) else None
            log.error(words, self._incident, point, self.figures.id, failure, exc_info=raised)
        return Error(
            Code.INTERNAL,
            f"a hook failed; the server's log says why at incident {self._incident}",
            incident=self._incident,
        )

    async def end(self, point: str, task: "asyncio.Task[Answer]") -> None:
        """Cancel a call, and wait a moment; leave alone one that goes on all the same."""
        task.cancel()
        await asyncio.wait((task,), timeout=self.bounds.end_seconds)
        if task.done():
            return
        self.stuck.add(task)
        self.figures.stuck += 1
        task.add_done_callback(self._ended)
        words = "the hook %r suppresses its cancellation in %s: it goes on, and nobody waits for it"
        log.error(words, self.figures.id, point)

    def _ended(self, task: "asyncio.Task[Answer]") -> None:
        self.stuck.discard(task)
        self.figures.stuck -= 1

    # -- asynchronous notifications ----------------------------------------------------------------

    def later(self, call: "Call", arguments: tuple[object, ...]) -> None:
        """Queue a notification for an asynchronous listener, in order."""
        most = self.bounds.notices
        if len(self.notices) >= most:
            self.failed(call.point, f"{most} notices wait for it; this one is lost")
            return
        self.queued += 1
        self.notices.append((call, arguments))
        if self.worker is None:
            self.worker = asyncio.get_running_loop().create_task(self._deliver_notices())

    async def _deliver_notices(self) -> None:
        try:
            while self.notices:
                call, arguments = self.notices.popleft()
                try:
                    await call.answer(*arguments)
                except Error as error:
                    call.complain(error)
                self.answered += 1
                if self.waiting:
                    self._let_go()
        finally:
            self.worker = None

    async def room(self) -> None:
        """Wait until half of the queue is free: the other half is for who does not wait."""
        while self.queued - self.answered > self.bounds.notices // 2:
            await self._next()

    async def drain(self) -> None:
        """Wait until all that is queued now is answered."""
        queued = self.queued
        while self.answered < queued:
            await self._next()

    async def _next(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future

    def _let_go(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def settle(self) -> None:
        """Wait, with a timeout, until the queue is processed; drop the rest."""
        if self.worker is not None:
            await asyncio.wait((self.worker,), timeout=self.bounds.seconds)
        if self.worker is not None:
            self.worker.cancel()
        self.notices.clear()


class Call:
    """One method of a hook, or one listener, at one point."""

    __slots__ = ("attached", "function", "point", "waits")

    def __init__(self, attached: Attached, point: str, function: Callable[..., object]) -> None:
        self.attached = attached
        self.point = point
        self.function = function
        self.waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with async __call__
        )
        """Whether its result must be awaited."""

    def __call__(self, *arguments: object) -> object:
        """Return the result of a synchronous function; raises its Error, or INTERNAL for a bug."""
        attached = self.attached
        started = attached.clock()
        try:
            result = self.function(*arguments)
        except Error:
            raise
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            raise attached.failed(self.point, failure) from None
        finally:
            attached.note(self.point, started)
        if result is None or result is True:  # the common case: a closer check takes a microsecond
            return result
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise attached.failed(
                self.point, "it returned something to await; define it with async def"
            )
        return result

    async def answer(self, *arguments: object) -> object:
        """Return the result, synchronous or not, within its timeout; raises likewise."""
        if not self.waits:
            return self(*arguments)
        attached, bounds = self.attached, self.attached.bounds
        if len(attached.stuck) >= bounds.stuck:
            many = f"{bounds.stuck} of its calls go on though they were cancelled"
            raise attached.failed(self.point, f"{many}, so it is not called")
        started = attached.clock()
        task = asyncio.get_running_loop().create_task(self._run(arguments))
        in_time = False
        try:
            await asyncio.wait((task,), timeout=bounds.seconds)
            in_time = task.done()
        finally:  # who waits may be cancelled, too
            if not in_time:
                await attached.end(self.point, task)
            attached.note(self.point, started)
        if not in_time:
            raise attached.failed(self.point, f"no answer within {bounds.seconds} s")
        result, failure = task.result()
        if failure is None:
            return result
        if isinstance(failure, Error):
            raise failure
        raise attached.failed(self.point, failure)

    async def _run(self, arguments: tuple[object, ...]) -> Answer:
        """Call an asynchronous function; what it raises is returned, as the loop ends of some."""
        try:
            result = self.function(*arguments)
            return await result if inspect.isawaitable(result) else result, None
        except GeneratorExit:
            raise
        except BaseException as failure:  # noqa: BLE001 - it is told to who waits
            return None, failure

    def notify(self, *arguments: object) -> None:
        """Notify a listener; its result and failure are ignored."""
        if self.waits:
            self.attached.later(self, arguments)
            return
        try:
            self(*arguments)
        except Error as error:
            self.complain(error)

    def complain(self, error: Error) -> None:
        """Log a listener's Error; bugs were logged before."""
        if "incident" not in error.detail:
            self.attached.failed(self.point, f"it can refuse nothing: {error.message}")
