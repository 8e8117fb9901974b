"""The delivery rate limit of retained messages to one reader (E19).

A page is counted when it has been read, and delays the next one: nothing is lost, and at most one
page is in memory. Writers and other readers are not delayed.
"""

import asyncio
from collections.abc import Sequence

from rowcast.core.events import SNAPSHOT
from rowcast.core.limits import RETAINED_BURST_RECORDS
from rowcast.core.rate_limit import TokenBucket
from rowcast.subscriptions.subscribed_filters import Pair


class DeliveryRateLimit:
    """A maximum of retained messages per second for one reader."""

    __slots__ = ("_bucket", "_due", "_loop")

    def __init__(self, rate: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._bucket = TokenBucket(rate, self._due, min(RETAINED_BURST_RECORDS, rate))

    async def keep(self) -> None:
        """Wait until the counted messages are within the rate."""
        seconds = self._due - self._loop.time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def count(self, pairs: Sequence[Pair]) -> None:
        """Count a page: the records of undeclared topics in it."""
        records = sum(event.kind == SNAPSHOT and event.table is None for event, _ in pairs)
        now = self._loop.time()
        self._due = now + self._bucket.take(records, now)
