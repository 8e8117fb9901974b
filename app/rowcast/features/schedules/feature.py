"""The feature: calls functions of ``resources/`` periodically (H32)."""

from collections.abc import Iterable, Sequence

from rowcast.features.schedules.schedules import OWNER, Schedule, Schedules, Writer
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel


class ScheduledCalls(Feature):
    """The schedules that the files in ``resources/`` have registered, and their clients."""

    def __init__(self, schedules: Sequence[Schedule], clients: Iterable[Writer] = ()) -> None:
        self._collected = schedules
        self._clients = clients
        self._background = Background()

    def install(self, kernel: Kernel) -> None:
        """Restore the last calls."""
        self._schedules = Schedules(kernel, self._collected, kernel.now, self._clients)
        kernel.facts(OWNER, self._schedules.restore)

    async def opened(self) -> None:
        """Start calling; functions may use the server like any client."""
        self._background.run(self._schedules.run())

    async def stop(self) -> None:
        """Cancel running calls, and stop."""
        await self._background.stop()
