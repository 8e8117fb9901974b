"""The feature: logs events of clients and of the server under ``$SYS/events`` (O6)."""

from rowcast.features.client_events.client_events import TABLE, ClientEvents
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import OwnLog
from rowcast.store.store import Keep


class ClientEventLog(Feature):
    """The client event log; earlier events are kept even if it is not ``enabled``."""

    def __init__(self, keep: Keep, version: str, *, enabled: bool) -> None:
        self._keep = keep
        self._version = version
        self._enabled = enabled
        self._events: ClientEvents | None = None

    def install(self, kernel: Kernel) -> None:
        """Add its part of the log."""
        kernel.own_logs.append(OwnLog(TABLE, self._keep))
        if self._enabled:
            self._events = ClientEvents(kernel, kernel.now)

    async def start(self) -> None:
        """Log the start, and listen."""
        if self._events is not None:
            await self._events.start(version=self._version)

    async def stop(self) -> None:
        """Log the stop."""
        if self._events is not None:
            self._events.stop()
