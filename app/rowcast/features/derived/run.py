"""One run of a job: a snapshot of its tables, its process, and the commit of its result.

Fenced by its number, which is a fact in the log before anything starts: a run has a directory of
its own, and only the run that waits for its process takes the result from there. What a forgotten
process of an earlier run writes, nobody reads.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Protocol

from rowcast.core.errors import Code, Error
from rowcast.features.derived.commit import Counts, Result, ResultBounds
from rowcast.features.derived.job import COUNTS, Job
from rowcast.features.derived.places import RESULT, SNAPSHOT, RunPlaces
from rowcast.features.derived.process import carry_out
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Change

log = logging.getLogger("rowcast.jobs")

CANCELLED: Final = "it was cancelled"
"""Why a run has no result whose end was asked for."""


class Plan(Protocol):
    """How jobs are run: what ``program`` knows of files, commands and the environment."""

    @property
    def enabled(self) -> bool:
        """Whether jobs are run."""

    @property
    def seconds(self) -> float:
        """Time of one run."""

    @property
    def at_once(self) -> int:
        """Runs at the same time."""

    @property
    def bounds(self) -> ResultBounds:
        """How large a result may be."""

    @property
    def root(self) -> Path:
        """Where the directories of runs are."""

    def export(self, tables: Sequence[str], out: Path) -> Sequence[str]:
        """Return the command that makes a snapshot of tables below a directory."""

    def work(self, job: str, snapshot: Path, result: Path) -> Sequence[str]:
        """Return the command of a job; raises Error when it has no file in the directory."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a job: without the settings of the server."""


@dataclass(slots=True)
class Run:
    """One run."""

    kernel: Kernel
    job: Job
    plan: Plan
    places: RunPlaces
    now: Callable[[], float]
    changed: Callable[[], None]

    async def carry_out(self) -> None:
        """Run it to its end, whatever that is; the job has the outcome. Cancel it to end it."""
        job = self.job
        job.running, job.queued = True, False
        job.run += 1
        job.began_at, job.ended_at, job.progress = self.now(), None, None
        job.output, job.reading = "", {}
        period = job.period_at(job.began_at)
        self.changed()
        error: str | None = None
        try:
            await self._keep(job.fact())
            async with asyncio.timeout(self.plan.seconds):
                result = await self._made()
            await self._commit(result, period)
        except TimeoutError:
            error = f"it took more than {self.plan.seconds:g} seconds and was ended"
        except Error as refusal:
            error = refusal.message
        except OSError as refusal:
            error = f"it cannot be started: {refusal.strerror}"
        except asyncio.CancelledError:
            job.ended_at = self.now()
            raise
        except Exception:
            log.exception("the job of %s failed", job.name)
            error = "it failed within the server; the log has more"
        await self._end(period, error)

    async def _end(self, period: int, error: str | None) -> None:
        job = self.job
        if error is not None:
            log.warning("the job of %s failed: %s", job.name, error)
        kept = job.done_run if job.done_run is not None else _run_of(self.places, job)
        await asyncio.to_thread(self.places.keep, kept)
        job.running, job.error, job.ended_at = False, error, self.now()
        if error is not None:
            job.period = period
            self.kernel.committer.keep((job.fact(),))
        self.changed()

    async def _keep(self, fact: Change) -> None:
        """Have the number of this run in the log, before it can leave anything behind."""
        self.kernel.committer.keep((fact,))
        await self.kernel.committer.durable()

    async def _made(self) -> Result:
        """Make the snapshot, run the job, and read its result. Raises Error."""
        job, plan = self.job, self.plan
        place = await asyncio.to_thread(self.places.begin, job.run)
        plan.work(job.rule.job, place, place / RESULT)  # refused before anything is copied
        command = plan.export(job.rule.sources, place / SNAPSHOT)
        made = await carry_out(command, None, lambda _facts: None)
        if made.code:
            self._fail("the process that copies its tables", made.code, made.output)
        snapshot = await asyncio.to_thread(self.places.snapshot_of, place)
        command = plan.work(job.rule.job, snapshot, place / RESULT)
        done = await carry_out(command, plan.environment(), self._take_report)
        job.output = done.output
        if done.code:
            self._fail("its process", done.code, done.output)
        cut = str(job.reading.get("cut", ""))
        result = Result(self.kernel, job.table, (job.rule.job, cut), plan.bounds, place)
        try:
            rows = await result.read(place / RESULT)
        except (OSError, ValueError) as error:
            result.close()
            raise Error(Code.UNPROCESSABLE, "its result cannot be read") from error
        except BaseException:
            result.close()
            raise
        job.reading = {**job.reading, "rows_out": rows}
        return result

    def _fail(self, what: str, code: int, output: str) -> NoReturn:
        self.job.output = output
        how = f"signal {-code}" if code < 0 else f"code {code}"
        raise Error(
            Code.UNPROCESSABLE,
            f"{what} ended with {how}; its row shows the end of its output to administrators",
        )

    def _take_report(self, facts: Mapping[str, object]) -> None:
        """Take in what the process tells of itself."""
        part = facts.get("progress")
        if isinstance(part, int | float):
            self.job.progress = float(part)
        kinds = {"cut": str, "rows_in": int, "rows_out": int}
        known = {
            name: facts[name] for name, kind in kinds.items() if isinstance(facts.get(name), kind)
        }
        self.job.reading = {**self.job.reading, **known}
        self.changed()

    async def _commit(self, result: Result, period: int) -> None:
        """Commit the result with the fact of this run; it ends before this does.

        What is staged and not yet to be seen is given up when this is cancelled.
        """
        committing = asyncio.ensure_future(self._committed(result, period))
        try:
            await asyncio.shield(committing)
        finally:
            result.close()
            await asyncio.wait((committing,))

    async def _committed(self, result: Result, period: int) -> None:
        made: list[Job] = []

        def conclude(counts: Counts) -> list[Change]:
            made[:] = [self._after(counts, period)]
            return [made[0].fact()]

        await result.commit(conclude)
        for name in ("period", "done_at", "done_run", "cut", *COUNTS):
            setattr(self.job, name, getattr(made[0], name))
        self.job.reading, self.job.progress = {}, None

    def _after(self, counts: Counts, period: int) -> Job:
        """Return what is known of the job after its result; called within the commit."""
        job, now = self.job, self.now()
        written, removed = counts
        done = replace(job, period=period, ended_at=now, done_at=now, error=None)
        done.done_run, done.cut = job.run, str(job.reading.get("cut", ""))
        for name, value in {**job.reading, "changed": written, "removed": removed}.items():
            if name in COUNTS and isinstance(value, int):
                setattr(done, name, value)
        return done


def _run_of(places: RunPlaces, job: Job) -> int | None:
    """Return the earlier run whose directory stays, where it is not known which had a result.

    It is the newest there is.
    """
    if not places.directory.is_dir():
        return None
    runs = [int(item.name) for item in places.directory.iterdir() if item.name.isdigit()]
    return max((run for run in runs if run != job.run), default=None)
