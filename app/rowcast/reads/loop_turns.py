"""Splits long work on the event loop into slices, so that it does not block.

A request may have ten thousand records, and each costs some fifty microseconds before the disk: at
once, that would block the loop for half a second. Work that many clients may ask for at once also
takes turns with theirs: the loop runs one slice, whoever it is for, and then all that came in
meanwhile (``LoopTurns``).
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LOOP_TURN_ITEMS: Final = 100
"""Records per turn of the loop: some milliseconds."""
LOOP_SLICE_SECONDS: Final = 0.001
"""One slice of long work: a write of another client passes the loop three times, and is to take
twice its two milliseconds at most."""


async def in_turns(items: Sequence[T], size: int = LOOP_TURN_ITEMS) -> AsyncIterator[Sequence[T]]:
    """Yield slices of the items, one per turn of the loop."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


async def each(items: Sequence[T], size: int = LOOP_TURN_ITEMS) -> AsyncIterator[T]:
    """Yield the items one by one, a slice of them per turn of the loop."""
    async for some in in_turns(items, size):
        for item in some:
            yield item


class LoopTurns:
    """Lets one slice of long work run in each turn of the loop, first come, first served.

    ``clock`` is a monotonic time in seconds, ``slice_seconds`` that of one slice.
    """

    def __init__(
        self,
        slice_seconds: float = LOOP_SLICE_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running = False

    async def take(self) -> float:
        """Wait for a turn; return the time when its slice is over."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._running:
            self._running = True
            loop.call_soon(self._give, loop)
        await turn
        return self._clock() + self._slice_seconds

    def _give(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                loop.call_soon(self._give, loop)
                return
        self._running = False

    async def each(self, items: Sequence[T]) -> AsyncIterator[T]:
        """Yield the items, as many in a turn as its slice has time for, at least one."""
        over = await self.take()
        for number, item in enumerate(items):
            if number and self._clock() >= over:
                over = await self.take()
            yield item
