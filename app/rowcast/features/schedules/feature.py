"""The feature: calls functions of ``resources/`` periodically (H32)."""

from collections.abc import Sequence

from rowcast.features.schedules.schedules import OWNER, Schedule, Schedules
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel


class ScheduledCalls(Feature):
    """The schedules that the files in ``resources/`` have registered."""

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        self._collected = schedules
        self._background = Background()

    def install(self, kernel: Kernel) -> None:
        """Restore the last calls."""
        self._schedules = Schedules(kernel, self._collected, kernel.now)
        kernel.facts(OWNER, self._schedules.restore)

    async def opened(self) -> None:
        """Start calling; functions may use the server like any client."""
        self._background.run(self._schedules.run())

    async def stop(self) -> None:
        """Cancel running calls, and stop."""
        await self._background.stop()
