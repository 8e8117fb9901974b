"""The feature: makes snapshots of tables in processes of their own, and serves their files."""

from collections.abc import Callable, Mapping, Sequence

from rowcast.features.snapshots.exports import Exports
from rowcast.features.snapshots.jobs import Order
from rowcast.features.snapshots.snapshot_store import SnapshotStore
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class SnapshotExports(Feature):
    """The snapshots in a snapshot store; arguments are those of ``Exports``."""

    def __init__(
        self,
        snapshots: SnapshotStore,
        command: Callable[[Order], Sequence[str]],
        every: Mapping[Order, float],
        audiences: Mapping[str, SnapshotStore],
    ) -> None:
        self._snapshot_store = snapshots
        self._command = command
        self._every = every
        self._audiences = audiences

    def install(self, kernel: Kernel) -> None:
        """Make the exports; nothing is looked at yet."""
        due = (self._command, self._every)
        self.exports = Exports(kernel, self._snapshot_store, *due, kernel.now, self._audiences)

    async def start(self) -> None:
        """Look at what is there, show it, and begin what is due."""
        await self.exports.start()

    async def stop(self) -> None:
        """End exports that are running."""
        await self.exports.stop()
