"""A debounced event: wakes a bridge's task, at once or with a minimum interval.

An acknowledgement wakes it at once. New events of the log do, too, but not within a millisecond of
the last time: otherwise sequential writers would wait for the sending of each event, and each would
cost a system call. So a single write is sent without delay, and many are batched (H3).
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
        """Wake it, with the minimum interval."""
        left = self._last + self._gather_seconds - self._loop.time()
        if left <= 0:
            self._event.set()
        elif self._later is None:
            self._later = self._loop.call_later(left, self._event.set)

    async def wait(self, seconds: float | None) -> None:
        """Wait until woken, with a timeout."""
        alarm = None if seconds is None else self._loop.call_later(seconds, self._event.set)
        try:
            await self._event.wait()
        finally:
            for timer in (alarm, self._later):
                if timer is not None:
                    timer.cancel()
            self._later = None
        await asyncio.sleep(0)  # let writers get their answers first (H3)
        self._event.clear()
        self._last = self._loop.time()
