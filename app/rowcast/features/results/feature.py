"""The feature: a job's result is uploaded in parts, and committed as one transaction (M5)."""

from rowcast.features.results.results import BulkCommit, Facts
from rowcast.features.results.rows import PATH, result_rows
from rowcast.features.results.staged_rows import BOUNDS, UploadBounds
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class BulkResults(Feature):
    """The results of jobs; ``facts`` reads stored facts of an owner, at any time.

    What is not committed is in files of ``directory``, by default the system's for such.
    """

    def __init__(
        self, facts: Facts, bounds: UploadBounds = BOUNDS, directory: str | None = None
    ) -> None:
        self._facts = facts
        self._bounds = bounds
        self._directory = directory
        self._results: BulkCommit | None = None

    def install(self, kernel: Kernel) -> None:
        """Register ``$SYS/results``."""
        results = BulkCommit(kernel, self._facts, kernel.now, self._bounds, self._directory)
        self._results = results
        kernel.rows(PATH, result_rows(results))

    async def stop(self) -> None:
        """Remove what was not committed."""
        if self._results is not None:
            self._results.uploads.close_all()
