"""Expiries: what has a time at which it is over ends at that time (A5, E17).

One timer, set for the nearest of all such times. Only that one time is in memory: a write that ends
earlier moves the timer, and when it rings, whatever is due is ended and the store is asked, by an
index, when the next is. So a million records with an end cost neither memory nor a scan, and a
restart needs nothing but a first look. Between two looks there is a short rest, so that records
that end one after the other are ended together.

It is the only search for what is over; ``search`` repeats it at an interval, should the timer have
missed something. It knows nothing of what ends: each kind is an ``Ending``.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf

from rowcast.core.clock import WallClock
from rowcast.core.errors import Error
from rowcast.core.events import RETAINED
from rowcast.core.limits import SWEEP_RECORDS_MAX
from rowcast.kernel.expired_records import delete_expired
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.seams import Ending
from rowcast.kernel.write import Outcome, Receipt

log = logging.getLogger("rowcast.expiries")

Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""Calls something after so many seconds: ``loop.call_later``."""


class EndOfRecords:
    """Deletes records whose time is over, by writes that every subscriber hears of."""

    def __init__(
        self, kernel: Kernel, now: WallClock, *, ended_together: int = SWEEP_RECORDS_MAX
    ) -> None:
        self._kernel = kernel
        self._now = now
        self._ended_together = ended_together

    async def end_due(self) -> float:
        """Delete what is over; return when the next record is."""
        await delete_expired(self._kernel, self._now, commit_records=self._ended_together)
        soonest = await self._kernel.reader.next_expiry()
        return inf if soonest is None else soonest


class Expiries:
    """Ends what is over when it is over; the loop's own.

    ``rest_seconds`` is the time between two looks: what ends within it is ended together, a
    twentieth of a second late at most, and a store with many tables is not asked more often.
    ``look_seconds`` is the longest wait for the next, because a clock may be set meanwhile.
    ``retry_seconds`` is how soon what could not be ended is tried again; it doubles each time, up
    to ``look_seconds``.
    """

    def __init__(
        self,
        endings: Sequence[Ending],
        now: WallClock,
        later: Later | None = None,
        *,
        rest_seconds: float = 0.05,
        look_seconds: float = 60.0,
        retry_seconds: float = 1.0,
    ) -> None:
        self._endings = endings
        self._now = now
        self._later = later or asyncio.get_running_loop().call_later
        self._rest_seconds = rest_seconds
        self._look_seconds = look_seconds
        self._retry_seconds = self._patience = retry_seconds
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._resting = self._stopped = False
        self.looks = 0
        """How often it looked."""

    def start(self) -> None:
        """Look at once: something may have ended while the server was off."""
        self.note(0.0)

    async def stop(self) -> None:
        """Look no more; wait for a look that has begun."""
        self._stopped = True
        self._cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def appended(self, outcomes: Sequence[Outcome]) -> None:
        """Take note of the records among what was written that will be over."""
        for outcome in outcomes:
            event = outcome.event if type(outcome) is Receipt and not outcome.late else None
            if event is not None and event.expires_at and event.kind in RETAINED:
                self.note(event.expires_at)

    def note(self, at: float) -> None:
        """Take note of a time at which something will be over."""
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
        wait = min(max(0.0, self._next - self._now()), self._look_seconds)
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
        self._next = inf  # what is noted meanwhile may be missing in what the store answers
        soonest = 0.0
        try:
            soonest = min([await ending.end_due() for ending in self._endings], default=inf)
        except Error as error:
            log.warning("what is over could not be ended; tried again: %s", error.message)
        except Exception:
            log.exception("what is over could not be ended; tried again")
        self._next = min(self._next, soonest)
        rest = self._rest_seconds
        if soonest <= self._now():
            rest = self._patience
            self._patience = min(2 * rest, self._look_seconds)
        else:
            self._patience = self._retry_seconds
        if not self._stopped:
            self._timer = self._later(rest, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._resting = False
        self._arm()
