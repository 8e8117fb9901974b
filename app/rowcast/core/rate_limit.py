"""Rate limits: token buckets, single and by key. Every rate of the server uses these.

A bucket holds at most ``burst`` tokens and gets ``rate`` new ones a second; operations take tokens,
in one of three ways:

- ``take_if_room``: all or nothing; excess is refused.
- ``take``: all, below zero if needed, and then the caller waits. For work that has already
  happened, such as bytes read. The mean rate is exact.
- ``take`` now and ``give_back`` later, for operations that turn out not to count.

It has no clock: each call passes the time in seconds. A clock that goes back adds no tokens. Counts
within a fixed window are in ``doors/mqtt/connections/guard.py`` (flapping clients) and
``program/logs.py`` (equal lines).
"""

from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

from rowcast.core.bounded import BoundedCache
from rowcast.core.limits import RATE_BURST_SECONDS

K = TypeVar("K", bound=Hashable)


class TokenBucket:
    """``rate`` tokens a second, at most ``burst`` of them, initially full.

    A burst of 0 is that of RATE_BURST_SECONDS; it is at least 1.
    """

    __slots__ = ("_at", "_most", "_room", "rate")

    def __init__(self, rate: float, now: float, burst: float = 0) -> None:
        self.rate = rate
        self._most = max(burst or rate * RATE_BURST_SECONDS, 1.0)
        self._room = self._most
        self._at = now

    def _fill(self, now: float) -> None:
        self._room = min(self._most, self._room + max(now - self._at, 0.0) * self.rate)
        self._at = now

    def take(self, amount: float, now: float, debt_max: float = inf) -> float:
        """Take tokens, down to ``-debt_max``; return the seconds until the level is zero again."""
        self._fill(now)
        self._room = max(self._room - amount, -debt_max)
        return max(-self._room / self.rate, 0.0)

    def take_if_room(self, amount: float, now: float) -> bool:
        """Take tokens if all are available; an amount above the capacity needs a full bucket."""
        self._fill(now)
        if self._room < min(amount, self._most):
            return False
        self._room -= amount
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until one token is available; 0 if one is available now."""
        self._fill(now)
        return max(1.0 - self._room, 0.0) / self.rate

    def give_back(self) -> None:
        """Return a taken token."""
        self._room = min(self._most, self._room + 1.0)


class KeyedRateLimit(Generic[K]):
    """A token bucket for each key, such as a caller or an address; at most ``keys_max`` of them.

    The least recently used key is evicted: its bucket is the one most likely full by now, and then
    equal to a new one.
    """

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: float, keys_max: int) -> None:
        self.rate = rate
        self._buckets: BoundedCache[K, TokenBucket] = BoundedCache(keys_max)

    def __len__(self) -> int:
        return len(self._buckets)

    def allows(self, key: K, amount: float, now: float) -> bool:
        """Take tokens of a key if all are available; return whether they were."""
        bucket = self._buckets.use(key) or self._buckets.put(key, TokenBucket(self.rate, now))
        return bucket.take_if_room(amount, now)
