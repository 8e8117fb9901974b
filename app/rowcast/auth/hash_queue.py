"""The queue of password checks, while more wait than can be hashed at once (L11, P3).

Hashing is slow by design, so one sender could make all others wait. Waiting checks are in lanes,
one for each address (of IPv6 its /48), which are served round-robin; when too many wait, a random
one of the longest lane is refused. A flood therefore waits for itself and gets no more than its
share.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rowcast.core.authentication_limits import PASSWORD_CHECKS_AT_ONCE, PASSWORD_CHECKS_WAITING_MAX
from rowcast.core.errors import Code, Error

_Waiter = asyncio.Future[None]


class HashQueue:
    """``at_once`` at a time, ``waiting_max`` that wait; ``draw`` gives a number below another."""

    def __init__(
        self,
        at_once: int = PASSWORD_CHECKS_AT_ONCE,
        waiting_max: int = PASSWORD_CHECKS_WAITING_MAX,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        self._free = at_once
        self._waiting_max = waiting_max
        self._draw = draw
        self._lanes: OrderedDict[str, list[_Waiter]] = OrderedDict()
        """Waiting checks by lane; the lane that is next comes first."""
        self._waiting = 0

    @asynccontextmanager
    async def turn(self, lane: str) -> AsyncIterator[None]:
        """Wait for a turn. Raises BUSY for one that is sent away."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(lane)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, lane: str) -> None:
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._lanes.setdefault(lane, []).append(waiter)
        self._waiting += 1
        if self._waiting > self._waiting_max:
            self._send_away()
        try:
            await waiter
        except asyncio.CancelledError:
            if not self._leave(lane, waiter) and not waiter.cancelled() and not waiter.exception():
                self._next()  # it was its turn in the same moment
            raise

    def _next(self) -> None:
        """Give a turn that is over to the first of the next lane."""
        while self._lanes:
            lane, waiters = self._lanes.popitem(last=False)
            waiter = waiters.pop(0)
            self._waiting -= 1
            if waiters:
                self._lanes[lane] = waiters
            if not waiter.done():  # else its client is gone in the same moment
                waiter.set_result(None)
                return
        self._free += 1

    def _send_away(self) -> None:
        most = max(map(len, self._lanes.values()))
        longest = [lane for lane, waiters in self._lanes.items() if len(waiters) == most]
        lane = longest[self._draw(len(longest))]
        waiter = self._lanes[lane][self._draw(most)]
        self._leave(lane, waiter)
        if not waiter.done():
            waiter.set_exception(Error(Code.BUSY, "too many are signing in; try again in a moment"))

    def _leave(self, lane: str, waiter: _Waiter) -> bool:
        """Remove a waiting check; return whether it was there."""
        waiters = self._lanes.get(lane, [])
        if waiter not in waiters:
            return False
        waiters.remove(waiter)
        self._waiting -= 1
        if not waiters:
            del self._lanes[lane]
        return True
