"""The feature: runs the jobs of derived tables, and refuses other writers of them (W4)."""

import asyncio
from collections.abc import Sequence

from rowcast.core.tables import Table
from rowcast.features.derived.job import OWNER
from rowcast.features.derived.jobs import Jobs
from rowcast.features.derived.places import RunPlaces
from rowcast.features.derived.run import Plan
from rowcast.features.derived.writing import only_its_job
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel


class DerivedTables(Feature):
    """The derived tables of a server; ``plan`` None: another process runs their jobs."""

    def __init__(self, tables: Sequence[Table], plan: Plan | None) -> None:
        self._tables = [table for table in tables if table.derived is not None]
        self._plan = plan
        self._background = Background()
        self.jobs: Jobs | None = None

    def install(self, kernel: Kernel) -> None:
        """Refuse writes of clients, show the jobs, and have what is known of them restored."""
        if not self._tables:
            return
        kernel.steps.add("rows", only_its_job)
        if self._plan is None:
            return
        jobs = self.jobs = Jobs(kernel, self._tables, self._plan)
        kernel.facts(OWNER, jobs.restore)
        kernel.figures["jobs/runs"] = lambda: jobs.runs
        kernel.figures["jobs/failures"] = lambda: jobs.failures
        kernel.figures["jobs/running"] = lambda: jobs.running
        kernel.figures["jobs/stale"] = lambda: jobs.stale

    async def start(self) -> None:
        """Look at what killed runs left behind."""
        if self._plan is not None:
            names = {table.name for table in self._tables}
            await asyncio.to_thread(RunPlaces.forget_others, self._plan.root, names)
        if self.jobs is not None:
            await self.jobs.start()

    async def opened(self) -> None:
        """Run what is due."""
        if self.jobs is not None:
            self._background.run(self.jobs.run())

    async def stop(self) -> None:
        """End what runs; it is begun again at the next start."""
        await self._background.stop()
