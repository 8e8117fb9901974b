"""Splits long work on the event loop into slices, so that it does not block.

A request may have ten thousand records, and each costs some fifty microseconds before the disk: at
once, that would block the loop for half a second. Work that many clients may ask for at once also
takes turns with theirs: the loop runs one slice, whoever it is for, and then all that came in
meanwhile (``LoopTurns``). While somebody waits for a write, the loop rests between two slices: else
the writer thread would wait for the interpreter's lock each time that it comes back from the disk.
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
LOOP_REST_SECONDS: Final = 0.001
"""One rest between two slices: the least that asyncio's timers know."""
LOOP_RESTS_MAX: Final = 3
"""Rests before one slice, so that long work goes on at a quarter of its pace at least."""


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

    ``clock`` is a monotonic time in seconds, ``slice_seconds`` that of one slice. While others are
    waited for, at most ``rests_max`` rests of ``rest_seconds`` come before a slice.
    """

    def __init__(
        self,
        slice_seconds: float = LOOP_SLICE_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
        rest_seconds: float = LOOP_REST_SECONDS,
        rests_max: int = LOOP_RESTS_MAX,
    ) -> None:
        self.waited_for: Callable[[], bool] = lambda: False
        """Whether somebody waits for what is quick, such as a write that is on its way."""
        self._rest_seconds = rest_seconds
        self._rests_max = rests_max
        self._rests = 0
        """How many there were since the last slice."""
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
        if self._waiting and self._rests < self._rests_max and self.waited_for():
            self._rests += 1
            loop.call_later(self._rest_seconds, self._give, loop)
            return
        self._rests = 0
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


class JoinedTurns(LoopTurns):
    """The turns of work that many ask for at once, who wait for each other: one asks for all."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns
        self._clock = turns._clock
        self._one = asyncio.Semaphore(1)

    async def take(self) -> float:
        """Wait for a turn behind all who have asked before; return when its slice is over."""
        async with self._one:
            return await self._turns.take()
