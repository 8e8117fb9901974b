"""The jobs of a server: which are due, which run, and which tables are stale.

The times of a job are the multiples of its period since 1970 (UTC), as those of schedules: a
restart does not shift them, a time that was missed is caught up once, and none is served twice. A
run that was killed with its server served nothing, and is begun again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rowcast.core.derived_limits import DERIVED_LOOK_SECONDS_MAX
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.features.derived.job import OWNER, Job
from rowcast.features.derived.job_rows import PATH, job_rows
from rowcast.features.derived.places import RunPlaces
from rowcast.features.derived.run import CANCELLED, Plan, Run
from rowcast.features.derived.staleness import Staleness

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.jobs")

_SHORTEST: Final = 0.05
"""Shortest time between two looks, in seconds."""


class Jobs:
    """All jobs of one server; runs of one table never overlap."""

    def __init__(self, kernel: "Kernel", tables: Sequence[Table], plan: Plan) -> None:
        self._kernel = kernel
        self.plan = plan
        self.now = kernel.now
        now = kernel.now()
        self.jobs = {
            table.name: Job(table, table.derived, now) for table in tables if table.derived
        }
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(plan.at_once)
        self._woken = asyncio.Event()
        self._staleness = Staleness(kernel)
        self.runs = 0
        self.failures = 0
        self._changed = kernel.rows(PATH, job_rows(self))

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore what is kept of each job."""
        for owner, name, value in facts:
            if owner == OWNER and name in self.jobs:
                self.jobs[name].restore(value)

    async def start(self) -> None:
        """Remove what killed runs left behind, and read what was told of stale tables."""
        for job in self.jobs.values():
            if job.done_run is not None:
                await asyncio.to_thread(self._places(job).keep, job.done_run)
            await self._staleness.read(job)

    async def run(self) -> None:
        """Run what is due until cancelled; what runs then is ended."""
        try:
            while True:
                self._woken.clear()
                wait = self.look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
        finally:
            await self._end_all()

    async def _end_all(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def look(self) -> float:
        """Begin what is due, tell which tables are stale; return the seconds until the next."""
        now, waits = self._kernel.now(), [DERIVED_LOOK_SECONDS_MAX]
        for job in self.jobs.values():
            if job.name not in self._running and self.plan.enabled:
                if job.is_due(now):
                    self._begin(job)
                else:
                    waits.append(job.due_at(now) - now)
            if self._staleness.look(job, now):
                self._changed(job.name)
        return max(min(waits), _SHORTEST)

    @property
    def running(self) -> int:
        """How many runs there are now."""
        return sum(job.running for job in self.jobs.values())

    @property
    def stale(self) -> int:
        """How many tables are stale."""
        now = self._kernel.now()
        return sum(job.is_stale(now) for job in self.jobs.values())

    def begin(self, name: str) -> None:
        """Run a job now. Raises CONFLICT when it runs already, NOT_ALLOWED when jobs are off."""
        job = self.jobs[name]
        if not self.plan.enabled:
            raise Error(
                Code.NOT_ALLOWED, "jobs are switched off: set jobs.enabled to true", allow=["GET"]
            )
        if name in self._running:
            raise Error(Code.CONFLICT, f"the job of {name} is running already, as run {job.run}")
        self._begin(job)

    async def cancel(self, name: str) -> None:
        """End the run of a job; its table stays as it is. Raises NOT_FOUND without a run."""
        task = self._running.get(name)
        if task is None:
            raise Error(Code.NOT_FOUND, f"the job of {name} is not running")
        task.cancel()
        await asyncio.wait((task,))
        await asyncio.sleep(0)  # its end is noted

    def _begin(self, job: Job) -> None:
        job.queued = True
        task = self._running[job.name] = asyncio.create_task(self._run(job))
        task.add_done_callback(lambda ended: self._ended(job, ended))
        self._changed(job.name)

    async def _run(self, job: Job) -> None:
        run = Run(
            self._kernel, job, self.plan, self._places(job), self._kernel.now, self._teller(job)
        )
        async with self._turns:
            self.runs += 1
            await run.carry_out()
            self.failures += job.error is not None

    def _ended(self, job: Job, task: "asyncio.Task[None]") -> None:
        """Note that a run has ended, also one that was cancelled before it began.

        One that was cancelled has served its period, until the next start of the server.
        """
        if task.cancelled():
            job.period, job.error = job.period_at(self._kernel.now()), CANCELLED
        elif (error := task.exception()) is not None:
            log.error("the job of %s failed", job.name, exc_info=error)
        job.queued = job.running = False
        del self._running[job.name]
        self._changed(job.name)
        self._woken.set()

    def _teller(self, job: Job) -> Callable[[], None]:
        return lambda: self._changed(job.name)

    def _places(self, job: Job) -> RunPlaces:
        return RunPlaces(self.plan.root, job.name)
