"""The feature: a job's result is uploaded in parts, and committed as one transaction (M5)."""

from rowcast.features.results.hook_notices import OWNER
from rowcast.features.results.own_topics import Facts
from rowcast.features.results.results import BulkCommit
from rowcast.features.results.rows import PATH, result_rows
from rowcast.features.results.staged_rows import BOUNDS, UploadBounds
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel


class BulkResults(Feature):
    """The results of jobs; ``facts`` reads stored facts of an owner, at any time.

    What is not committed is in files of ``directory``, and found there after a restart; without, in
    the system's for such.
    """

    def __init__(
        self, facts: Facts, bounds: UploadBounds = BOUNDS, directory: str | None = None
    ) -> None:
        self._facts = facts
        self._bounds = bounds
        self._directory = directory
        self._background = Background()
        self._results: BulkCommit | None = None

    def install(self, kernel: Kernel) -> None:
        """Register ``$SYS/results``."""
        results = BulkCommit(kernel, self._facts, kernel.now, self._bounds, self._directory)
        self._results = results
        kernel.rows(PATH, result_rows(results))
        kernel.facts(OWNER, results.notices.restore)

    async def start(self) -> None:
        """Find uploads again, before any port is open: their jobs go on."""
        if self._results is not None:
            await self._results.restore()

    async def opened(self) -> None:
        """Tell hooks of the rows of large results."""
        if self._results is not None:
            self._background.run(self._results.notices.run())

    async def stop(self) -> None:
        """Leave the rest to the next run: what was not committed, and what hooks were not told."""
        await self._background.stop()
        if self._results is not None:
            await self._results.stop()
