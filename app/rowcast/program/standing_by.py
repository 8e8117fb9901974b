"""What is told at the ports of HTTP by a node that has no role yet: what it waits for."""

from contextlib import AsyncExitStack

from rowcast.core.errors import Code, Error
from rowcast.program.config import Config
from rowcast.program.doors import waiting_doors


class StandingBy:
    """The ports of a node that starts; ``/health/ready`` answers 503 with the reason there."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open = AsyncExitStack()
        self._told = ""

    async def tell(self, why: str) -> None:
        """Tell this from now on, and open the ports if they are not."""
        if why == self._told:
            return
        await self.end()
        self._told = why
        error = Error(Code.BUSY, why, retry_after_seconds=1)
        await self._open.enter_async_context(waiting_doors(self._config, error))

    async def end(self) -> None:
        """Close the ports: a role opens its own."""
        await self._open.aclose()
        self._open, self._told = AsyncExitStack(), ""
