"""The feature: bridges to other MQTT brokers, configured or created at run time (H2)."""

from collections.abc import Callable, Sequence
from typing import Any

from rowcast.features.bridges.gateway import Gateway
from rowcast.features.bridges.plan import Plan
from rowcast.features.bridges.state import OWNER
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class Bridges(Feature):
    """The bridges of one server; arguments are those of ``Gateway``."""

    def __init__(self, plans: Sequence[Plan], make: Callable[[dict[str, Any]], Plan]) -> None:
        self._plans = plans
        self._make = make
        self._facts: list[tuple[str, str, bytes]] = []

    def install(self, kernel: Kernel) -> None:
        """Register the rows of bridges, and restore their state."""
        self.gateway = Gateway(kernel, self._plans, self._make, kernel.now)
        kernel.facts(OWNER, self._facts.extend)

    async def opened(self) -> None:
        """Connect to the other brokers."""
        self.gateway.start(self._facts)
        self._facts.clear()

    async def stop(self) -> None:
        """Disconnect; undelivered events are sent after the next start."""
        await self.gateway.stop()
