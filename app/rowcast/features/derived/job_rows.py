"""``$SYS/jobs``: a row for each derived table, read and watched like records.

    GET    $SYS/jobs/<table>               state, run, times, cut, rows, the last error
    PUT    $SYS/jobs/<table> {"run": true} runs it now; PATCH does the same
    DELETE $SYS/jobs/<table>               cancels its run

Changing needs the right to administer; ``output``, the end of what the last run printed, is shown
only with that right.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.routes.system_rows import SystemRows

if TYPE_CHECKING:
    from rowcast.features.derived.jobs import Jobs

PATH: Final = "$SYS/jobs"


class JobRows(SystemRows):
    """One row for each derived table."""

    path = PATH
    jobs: ClassVar["Jobs"]

    def names(self) -> Sequence[str]:
        """Return the names of the tables."""
        return list(self.jobs.jobs)

    def row(self, name: str, *, whole: bool) -> dict[str, object] | None:
        """Return the row of a job; ``whole``: with its output, for administrators."""
        job = self.jobs.jobs.get(name)
        if job is None:
            return None
        row = job.row(self.jobs.now(), enabled=self.jobs.plan.enabled)
        if whole and self.kernel.rights.allows(self.caller, "administer", f"{PATH}/{name}"):
            row["output"] = job.output or None
        return row

    async def put(self, value: object) -> None:
        """Run a job now."""
        self.kernel.rights.check_administer(self.topic, self.caller)
        _check(self.id, self.jobs)
        if value != {"run": True}:
            raise Error(
                Code.INVALID,
                f'say {{"run": true}} to run the job of {self.id} now; the rest of its row is '
                "what the server knows of it",
            )
        self.jobs.begin(self.id)

    async def patch(self, value: object) -> None:
        """Run a job now."""
        await self.put(value)

    async def delete(self) -> None:
        """Cancel the run of a job."""
        self.kernel.rights.check_administer(self.topic, self.caller)
        _check(self.id, self.jobs)
        await self.jobs.cancel(self.id)


def job_rows(jobs: "Jobs") -> type[SystemRows]:
    """Return the resource class of jobs."""

    class RowsOfJobs(JobRows):
        """One row for each derived table of one server."""

    RowsOfJobs.jobs = jobs
    return RowsOfJobs


def _check(name: str, jobs: "Jobs") -> None:
    if name not in jobs.jobs:
        near = did_you_mean(name, jobs.jobs)
        raise Error(Code.NOT_FOUND, f"there is no derived table {name!r}{near}")
