"""The feature: trims the log to its limits, and ends expiring objects (A5, A6, E17)."""

from collections.abc import Sequence

from rowcast.core.tables import Table
from rowcast.features.retention.expiries import EndOfRecords, Expiries
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Keep


class LogRetention(Feature):
    """The sweeper of the log, and the expiry timer.

    ``keep`` are the limits of tables that declare none; ``sweep_seconds`` is the time between two
    sweeps, and ``search_seconds`` between two searches for what is over, of which the timer knows.
    """

    def __init__(
        self, tables: Sequence[Table], keep: Keep, sweep_seconds: float, search_seconds: float
    ) -> None:
        self._tables = tables
        self._keep = keep
        self._sweep_seconds = sweep_seconds
        self._search_seconds = search_seconds
        self._background = Background()
        self._expiries: Expiries | None = None

    def install(self, kernel: Kernel) -> None:
        """Keep the kernel."""
        self._kernel = kernel

    async def start(self) -> None:
        """Start sweeping, and end objects that expired while the server was off."""
        kernel = self._kernel
        own = [(log.table.branch, log.keep) for log in kernel.own_logs]
        settings = RetentionSettings(self._keep, self._sweep_seconds, own)
        self.retention = Retention(kernel, self._tables, settings, kernel.removal_now)
        self._background.run(self.retention.run())
        sources = [EndOfRecords(kernel, kernel.removal_now), *kernel.expiry_sources]
        expiries = self._expiries = Expiries(sources, kernel.removal_now)
        kernel.committer.on_rare.append(expiries.written)
        kernel.on_expiry_scheduled.append(expiries.note)
        kernel.on_removal_time.append(lambda: expiries.note(0.0))
        expiries.start()
        self._background.run(expiries.search(self._search_seconds))

    async def stop(self) -> None:
        """Stop both."""
        if self._expiries is not None:
            await self._expiries.stop()
        await self._background.stop()
