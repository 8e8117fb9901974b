"""The feature: the result of a job is brought in parts, and committed as one transaction (M5)."""

from rowcast.features.results.results import BulkCommit, Facts
from rowcast.features.results.rows import PATH, result_rows
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class BulkResults(Feature):
    """The results of jobs; ``facts`` reads what an owner stored, and may be asked at any time."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def install(self, kernel: Kernel) -> None:
        """Take results at ``$SYS/results``."""
        kernel.rows(PATH, result_rows(BulkCommit(kernel, self._facts, kernel.now)))
