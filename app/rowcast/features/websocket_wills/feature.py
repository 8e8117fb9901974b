"""The feature: wills of WebSocket clients (C21)."""

from rowcast.features.websocket_wills.wills import OWNER, WebSocketWills
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class WillsOfWebSockets(Feature):
    """What is written when a connection is lost."""

    def install(self, kernel: Kernel) -> None:
        """Take wills from the door of WebSockets."""
        self.wills = WebSocketWills(kernel)
        kernel.provide(self.wills)
        kernel.facts(OWNER, self.wills.restore)

    async def start(self) -> None:
        """Write what a killed server has left."""
        self.wills.write_all()

    async def stop(self) -> None:
        """Leave the rest to the next start."""
        self.wills.stopping = True
