"""The delivery rate limit: how fast one reader is given retained messages (E19).

What a page held is counted when it has been read, and paid for before the next one is: nothing is
lost and no more than a page is in memory. Those who write, and other readers, wait for nobody here.
"""

import asyncio
from collections.abc import Sequence

from rowcast.core.events import SNAPSHOT
from rowcast.core.limits import RETAINED_BURST_RECORDS
from rowcast.core.rate_limit import TokenBucket
from rowcast.subscriptions.subscribed_filters import Pair


class DeliveryRateLimit:
    """At most so many retained messages in a second for one reader."""

    __slots__ = ("_bucket", "_due", "_loop")

    def __init__(self, rate: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._bucket = TokenBucket(rate, self._due, min(RETAINED_BURST_RECORDS, rate))

    async def keep(self) -> None:
        """Wait until what was counted is within the rate."""
        seconds = self._due - self._loop.time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def count(self, pairs: Sequence[Pair]) -> None:
        """Count a page: the records of undeclared topics in it."""
        records = sum(event.kind == SNAPSHOT and event.table is None for event, _ in pairs)
        now = self._loop.time()
        self._due = now + self._bucket.take(records, now)
