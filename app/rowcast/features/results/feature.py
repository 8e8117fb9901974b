"""The feature: a job's result is uploaded in parts, and committed as one transaction (M5)."""

from rowcast.features.results.results import BulkCommit, Facts
from rowcast.features.results.rows import PATH, result_rows
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class BulkResults(Feature):
    """The results of jobs; ``facts`` reads stored facts of an owner, at any time."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def install(self, kernel: Kernel) -> None:
        """Register ``$SYS/results``."""
        kernel.rows(PATH, result_rows(BulkCommit(kernel, self._facts, kernel.now)))
