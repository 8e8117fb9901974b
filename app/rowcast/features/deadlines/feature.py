"""The feature: tells at ``$stale/<topic>`` which records were not written in time (M4)."""

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
        """Watch what is written, and work out from what is stored who is late."""
        self._deadlines = Deadlines(self._kernel, self._tables, self._kernel.now)
        self._background.run(self._deadlines.start())

    async def stop(self) -> None:
        """Watch no more."""
        await self._background.stop()
        if self._deadlines is not None:
            self._deadlines.stop()
