"""The feature: large values are checked and encoded in a child process (L11)."""

from rowcast.core.fairness_limits import LARGE_VALUE_BYTES_MIN, LARGE_VALUE_PROCESSES
from rowcast.features.large_values.large_values import LargeValues
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.net.fork_server import Processes
from rowcast.net.worker_processes import WorkerProcesses


class LargeValueProcess(Feature):
    """Values of at least ``bytes_min`` are worked on by ``workers``, which ``processes`` start."""

    def __init__(
        self,
        bytes_min: int = LARGE_VALUE_BYTES_MIN,
        workers: WorkerProcesses | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._bytes_min = bytes_min
        self._workers = workers or WorkerProcesses(
            LARGE_VALUE_PROCESSES, "rowcast-values", processes=processes
        )

    def install(self, kernel: Kernel) -> None:
        """Let writes of large values take a detour, and doors have them encoded."""
        self.values = LargeValues(kernel, self._workers, self._bytes_min)
        kernel.writes.detour = kernel.admission.detour = self.values
        kernel.provide(self.values)

    async def stop(self) -> None:
        """Let waiting writes go on, then end the processes."""
        await self.values.stop()
