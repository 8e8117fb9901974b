"""A wake: what a bridge waits for, which is that something is to be done, or a time.

An acknowledgement that lets something go on wakes it at once. News of the log wake it at once too,
but not within a millisecond of the last time: who writes one thing after the other would pay for
the sending of each before it could go on, and the bridge for one call of the system for each. So a
single write is sent without delay, and many are gathered (H3).
"""

import asyncio

from rowcast.core.gateway_limits import GATEWAY_GATHER_SECONDS


class DebouncedEvent:
    """Wakes one task."""

    def __init__(self, gather_seconds: float = GATEWAY_GATHER_SECONDS) -> None:
        self._gather_seconds = gather_seconds
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._last = 0.0
        """When it last woke, by the loop's clock."""
        self._later: asyncio.TimerHandle | None = None

    def now(self) -> None:
        """Wake it."""
        self._event.set()

    def soon(self) -> None:
        """Wake it, at most so often."""
        left = self._last + self._gather_seconds - self._loop.time()
        if left <= 0:
            self._event.set()
        elif self._later is None:
            self._later = self._loop.call_later(left, self._event.set)

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is woken, at most so long."""
        alarm = None if seconds is None else self._loop.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            for timer in (alarm, self._later):
                if timer is not None:
                    timer.cancel()
            self._later = None
        await asyncio.sleep(0)  # who wrote what woke it hears of that first (H3)
        self._event.clear()
        self._last = self._loop.time()
