"""What the HTTP ports of a node answer while it has no role: what it waits for."""

from contextlib import AsyncExitStack

from rowcast.core.errors import Code, Error
from rowcast.program.config import Config
from rowcast.program.doors import waiting_doors


class WaitingStatus:
    """The ports of a node without a role; ``/health/ready`` answers 503 with the reason there."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: AsyncExitStack | None = None
        """Closes the ports; None while they are closed."""
        self._why = ""

    async def report(self, why: str) -> None:
        """Answer this from now on; open the ports if they are closed."""
        self._why = why
        if self._open is None:
            self._open = AsyncExitStack()
            await self._open.enter_async_context(waiting_doors(self._config, self._reason))

    def _reason(self) -> Error:
        return Error(Code.BUSY, self._why, retry_after_seconds=1)

    async def end(self) -> None:
        """Close the ports: a role opens its own."""
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.aclose()
