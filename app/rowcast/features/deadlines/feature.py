"""The feature: reports records not written in time at ``$stale/<topic>`` (M4)."""

from collections.abc import Sequence

from rowcast.core.tables import Table
from rowcast.features.deadlines.deadlines import Deadlines
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel


class RecordDeadlines(Feature):
    """The deadlines of the tables that have one."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._background = Background()
        self._deadlines: Deadlines | None = None

    def install(self, kernel: Kernel) -> None:
        """Note where to look."""
        self._kernel = kernel

    async def start(self) -> None:
        """Listen to writes, and compute stale records from stored ones."""
        self._deadlines = Deadlines(self._kernel, self._tables, self._kernel.now)
        self._background.run(self._deadlines.start())

    async def stop(self) -> None:
        """Stop listening."""
        await self._background.stop()
        if self._deadlines is not None:
            self._deadlines.stop()
            await self._deadlines.behind.stop()
