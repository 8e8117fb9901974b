"""Has the next append wait a moment for writers who have just been answered.

An append at several machines takes milliseconds, and costs all of them together as much as some
hundred writes. Writers that wait for their answers would form two groups: what one of them writes
next comes just after the append of the other has begun, so each append has half of what it could.
So it waits until as many have come as were answered, at most for a share of the time that the last
append took; a writer who is alone is no reason to wait.
"""

import asyncio
from collections.abc import Callable
from typing import Final

SHARE: Final = 0.5
"""Of the time of the last append: writes that nobody could know of wait longer by no more."""
SECONDS_MAX: Final = 0.01
"""The same after an append that took long, such as one for which a leader was chosen."""


class Regrouping:
    """Whether the next batch may begin; ``go_on`` is called when it may, at the latest."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        most: int,
        go_on: Callable[[], None],
        share: float = SHARE,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self._loop = loop
        self._share, self._seconds_max = share, seconds_max
        self._most = most
        """With so many it begins at once."""
        self._go_on = go_on
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None
        """Set while it waits."""

    def answered(self, count: int, waiting: int, seconds: float) -> None:
        """Note that writers are answered; ``waiting`` others are not, after so many seconds."""
        self._end()
        self._wanted = min(count + waiting, self._most)
        if self._wanted > max(1, waiting):
            pause = min(seconds * self._share, self._seconds_max)
            self._timer = self._loop.call_later(pause, self._over)

    def waits(self, waiting: int) -> bool:
        """Whether the next batch, which would have so many writes, is to wait for more."""
        if self._timer is None:
            return False
        if waiting < self._wanted:
            return True
        self._end()
        return False

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._go_on()
