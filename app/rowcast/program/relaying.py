"""What a follower passes on to the sequencer, wherever that is now."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Final

from rowcast.cluster.lease_keeper import LeaseKeeper
from rowcast.cluster.ports import CONNECT_SECONDS, relay
from rowcast.core.errors import Code, Error
from rowcast.net.relay import Client

OPENING_MAX: Final = 16
"""Connections that are being opened at a time: half of the strangers that the other node has at a
time (``cluster/ports.py``)."""
PRUNE_LEAST: Final = 1_000
"""Connections among which those that have ended are looked for: then each look costs little."""
RETRY_SECONDS: Final = 0.2
"""Between two attempts: another node may be about to take over."""


@dataclass(slots=True)
class Relays:
    """The way of one node; ``life`` is its own."""

    keeper: LeaseKeeper
    life: str
    key: bytes = field(repr=False)
    tls: ssl.SSLContext | None
    opening_max: int = OPENING_MAX
    _opening: asyncio.Semaphore = field(init=False)
    _open: dict[asyncio.Transport, str] = field(init=False, default_factory=dict)
    """The life of the node that each connection goes to; some have ended meanwhile."""
    _prune_at: int = field(init=False, default=PRUNE_LEAST)

    def __post_init__(self) -> None:
        """Bound the connections that are being opened."""
        self._opening = asyncio.Semaphore(self.opening_max)

    def leave_others(self, life: str) -> None:
        """End what goes to another node than this one, which numbers now.

        The other may be stopped, or cut off: it would never end them itself.
        """
        for transport, other in list(self._open.items()):
            if other != life:
                del self._open[transport]
                transport.abort()

    def _keep(self, transport: asyncio.Transport, life: str) -> None:
        self._open[transport] = life
        if len(self._open) >= self._prune_at:
            self._open = {one: at for one, at in self._open.items() if not one.is_closing()}
            self._prune_at = max(PRUNE_LEAST, 2 * len(self._open))

    async def open(
        self, client: Client, protocol: asyncio.Protocol, seconds: float
    ) -> asyncio.Transport:
        """Connect for a client, within so many seconds. Raises BUSY when no node numbers."""
        why = "no node holds the lease"
        try:
            async with asyncio.timeout(seconds):
                while True:
                    holder = self.keeper.holder
                    if holder is not None and holder.life != self.life:
                        try:
                            found = await self._connect(holder.host, holder.port, client, protocol)
                        except Error as error:
                            why = error.message
                        else:
                            self._keep(found, holder.life)
                            return found
                    await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise Error(
                Code.BUSY,
                f"no sequencer is reached ({why}), and this one serves only "
                "declared tables over HTTP; nothing was done; try again in a second",
                retry_after_seconds=1,
            ) from None

    async def _connect(
        self, host: str, port: int, client: Client, protocol: asyncio.Protocol
    ) -> asyncio.Transport:
        async with self._opening:
            return await relay(host, port, self.key, client, protocol, self.tls, CONNECT_SECONDS)
