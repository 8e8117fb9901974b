"""The expiry timer: ends expiring objects at their time (A5, E17).

There is one timer, set for the nearest expiry. Only that time is in memory: a write with an earlier
expiry moves the timer, and when it fires, due objects are ended and the next expiry is read from an
index of the store. So a million expiring records need neither memory nor a scan, and a restart
needs only a first check. Between two checks there is a short pause, so that successive expiries are
batched.

It is the only search for what is over; ``search`` repeats it at an interval, should the timer have
missed something. It knows no kinds of objects: each is an ``ExpirySource``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf, nextafter
from typing import Final

from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.events import RETAINED
from rowcast.core.limits import SWEEP_RECORDS_MAX
from rowcast.kernel.expired_records import delete_expired
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import ExpirySource
from rowcast.writes.write import Receipt

log = logging.getLogger("rowcast.expiries")

GIVEN_WAY_SECONDS: Final = 1.0
"""Between two looks while a result may replace what is over: minutes, and it stays until then."""
REST_SECONDS: Final = 0.05
"""Expiries within it are ended together, so late at most: it limits the queries of a store with
many tables."""
TIMER_SECONDS_MAX: Final = 60.0
"""A clock that was changed meanwhile is noticed by then."""
RETRY_SECONDS: Final = 1.0
"""A disk that is full, or a log that is behind, often takes the next try."""

Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""Calls a function after a delay in seconds: ``loop.call_later``."""


class EndOfRecords:
    """Deletes expired records, by writes that subscribers get.

    A record whose deletion a resource class refuses is tried again after ``retry_seconds``, which
    double up to ``retry_seconds_max``. Until then only what expires later is looked for, so that it
    neither delays the others nor costs a write at each of their expiries.
    """

    def __init__(
        self,
        kernel: Kernel,
        now: WallClock,
        *,
        ended_together: int = SWEEP_RECORDS_MAX,
        retry_seconds: float = RETRY_SECONDS,
        retry_seconds_max: float = TIMER_SECONDS_MAX,
    ) -> None:
        self._kernel = kernel
        self._now = now
        self._ended_together = ended_together
        self._retry_seconds = self._patience = retry_seconds
        self._retry_seconds_max = retry_seconds_max
        self._passed = 0.0
        """Records that expired by then were tried, and those left were refused; 0: none were."""
        self._retry_at = 0.0

    async def expire_due(self) -> float:
        """Delete expired records; return the next expiry, or when refused ones are tried again."""
        now, reader = self._now(), self._kernel.reader
        if not 0 < self._retry_at - now <= self._retry_seconds_max:  # or the clock was set back
            self._passed = 0.0
        blocked = (
            await delete_expired(
                self._kernel, self._now, since=self._passed, commit_records=self._ended_together
            )
        ).blocked
        soonest = await reader.next_expiry()
        if soonest is None or soonest > now:
            self._passed, self._patience = 0.0, self._retry_seconds
            return inf if soonest is None else soonest
        if self._kernel.committer.yields:
            return max(soonest, self._now() + GIVEN_WAY_SECONDS)
        return soonest if blocked else await self._pass_refused(now)

    async def _pass_refused(self, now: float) -> float:
        """Pass what expired by now and was refused; return when to look again."""
        if self._passed == 0.0:
            self._retry_at = now + self._patience
            self._patience = min(2 * self._patience, self._retry_seconds_max)
        self._passed = now
        later = await self._kernel.reader.expired(inf, 1, (nextafter(now, inf), 0))
        return min(self._retry_at, later[0].expires_at if later else inf)


class Expiries:
    """The timer of all expiry sources; used on the loop.

    ``rest_seconds`` is the minimum interval of checks, ``timer_seconds_max`` the longest timer, and
    ``retry_seconds`` the delay after a failure, which doubles up to ``timer_seconds_max``. How
    often it is looked besides, should the timer have missed something, ``search`` is told.
    """

    def __init__(
        self,
        sources: Sequence[ExpirySource],
        now: WallClock,
        later: Later | None = None,
        *,
        rest_seconds: float = REST_SECONDS,
        timer_seconds_max: float = TIMER_SECONDS_MAX,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._sources = sources
        self._now = now
        self._later = later or asyncio.get_running_loop().call_later
        self._rest_seconds = rest_seconds
        self._timer_seconds_max = timer_seconds_max
        self._retry_seconds = self._patience = retry_seconds
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._resting = self._stopped = False
        self.looks = 0
        """The number of checks."""

    def start(self) -> None:
        """Check at once: objects may have expired while the server was off."""
        self.note(0.0)

    async def stop(self) -> None:
        """Stop; waits for a running check."""
        self._stopped = True
        self._cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def written(self, receipt: Receipt) -> None:
        """Note an expiring record."""
        event = receipt.event
        if event.expires_at and event.kind in RETAINED and not receipt.late:
            self.note(event.expires_at)

    def note(self, at: float) -> None:
        """Note an expiry time."""
        if at < self._next:
            self._next = at
            self._arm()

    async def search(self, seconds: float) -> None:
        """Look at this interval besides, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            self.note(0.0)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._resting or self._stopped or self._next == inf:
            return
        self._cancel()
        wait = min(max(0.0, self._next - self._now()), self._timer_seconds_max)
        self._timer = self._later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._next > self._now():
            self._arm()
            return
        self._resting = True
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        self.looks += 1
        self._next = inf  # times noted meanwhile may be missing in the store's answer
        soonest = 0.0
        try:
            soonest = min([await ending.expire_due() for ending in self._sources], default=inf)
        except Error as error:
            log.warning("what is over could not be ended; tried again: %s", error.message)
        except Exception:
            log.exception("what is over could not be ended; tried again")
        self._next = min(self._next, soonest)
        rest = self._rest_seconds
        if soonest <= self._now():
            rest = self._patience
            self._patience = min(2 * rest, self._timer_seconds_max)
        else:
            self._patience = self._retry_seconds
        if not self._stopped:
            self._timer = self._later(rest, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._resting = False
        self._arm()
