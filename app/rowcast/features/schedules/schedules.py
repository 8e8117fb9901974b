"""Schedules: periodic calls of functions in ``resources/`` (H32).

The times of a schedule are the multiples of its period since 1970 (UTC): a restart does not shift
them, and each has a number. The number of the last completed one is a fact, so a time missed while
the server was down is caught up once, and none is repeated. The fact has the period, too, because
another period counts otherwise. A server is one process, so no other worker does the same.

Writes of a call with an in-process client are marked (``core/marked_calls.py``), so a call repeated
after a kill repeats its writes without further effect.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.limits import SCHEDULE_LOOK_SECONDS_MAX, SCHEDULES_MAX
from rowcast.core.marked_calls import CALL, MarkedCall
from rowcast.seams.user_code import is_mistake
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.schedules")

OWNER: Final = "schedule"
"""The owner of the facts of completed calls."""
_FACT: Final = Struct(">Qd")
"""A number, and the period in seconds; an earlier version stored the number only."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A function and its period."""

    name: str
    seconds: float
    call: Callable[[], object]


def add_schedule(schedules: list[Schedule], schedule: Schedule) -> None:
    """Add a schedule; raises CONFLICT for a duplicate name, TOO_LARGE for too many."""
    if any(other.name == schedule.name for other in schedules):
        raise Error(
            Code.CONFLICT,
            f"two schedules are called {schedule.name!r}; give one of the functions another name",
        )
    if len(schedules) >= SCHEDULES_MAX:
        raise Error(Code.TOO_LARGE, f"there are {SCHEDULES_MAX} schedules already; let one do more")
    schedules.append(schedule)


class Schedules:
    """All schedules of one server."""

    def __init__(
        self,
        kernel: "Kernel",
        schedules: Sequence[Schedule],
        now: WallClock,
    ) -> None:
        self._kernel = kernel
        self._schedules = schedules
        self._now = now
        self._begun: dict[str, int] = {}
        """The number of each schedule's newest call."""
        self.running: dict[str, asyncio.Task[None]] = {}

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore completed calls; ``facts`` are those of the owner."""
        periods = {schedule.name: schedule.seconds for schedule in self._schedules}
        for owner, name, value in facts:
            seconds = periods.get(name)
            if owner != OWNER or seconds is None:
                continue
            if len(value) == _FACT.size:
                number, stored = _FACT.unpack(value)
                self._begun[name] = number if stored == seconds else int(number * stored // seconds)
            elif (number := int.from_bytes(value, "big")) <= self._now() // seconds:
                self._begun[name] = number  # a greater one is that of a shorter period

    async def run(self) -> None:
        """Run due calls until cancelled."""
        try:
            while self._schedules:  # noqa: ASYNC110 - nothing tells of a clock
                await asyncio.sleep(min(self.look(), SCHEDULE_LOOK_SECONDS_MAX))
        finally:
            for task in self.running.values():
                task.cancel()
            await asyncio.gather(*self.running.values(), return_exceptions=True)

    def look(self) -> float:
        """Start due calls; return the seconds until the next one."""
        now, waits = self._now(), []
        for schedule in self._schedules:
            number, passed = divmod(now, schedule.seconds)
            waits.append(schedule.seconds - passed)
            self._look_at(schedule, int(number))
        return min(waits)

    def _look_at(self, schedule: Schedule, number: int) -> None:
        known = self._begun.get(schedule.name)
        if known is None:  # a new schedule starts at its next time
            self._begun[schedule.name] = number
            self._keep(schedule, number)
        elif number > known and schedule.name not in self.running:
            self._begun[schedule.name] = number
            task = asyncio.create_task(self._do(schedule, number))
            self.running[schedule.name] = task

    async def _do(self, schedule: Schedule, number: int) -> None:
        # Its time is what also grows when the period changes.
        call = MarkedCall(f"schedule {schedule.name}", int(number * schedule.seconds))
        CALL.set(call)  # this task's own
        try:
            result = schedule.call()
            if inspect.isawaitable(result):
                await result
        except BaseException as failure:
            if not is_mistake(failure):
                raise
            log.exception("the schedule %s failed; it is called again in time", schedule.name)
        finally:
            call.end()
            del self.running[schedule.name]
        self._keep(schedule, number)

    def _keep(self, schedule: Schedule, number: int) -> None:
        fact = _FACT.pack(number, schedule.seconds)
        self._kernel.committer.keep((Change(OWNER, schedule.name, fact),))
