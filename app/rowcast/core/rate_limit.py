"""Rate limits: the token bucket, for one and by key. Every rate of the server is one of these.

A bucket holds at most ``burst`` tokens and gets ``rate`` new ones a second; what is done takes
tokens. A limit spends them in one of three ways:

- ``take_if_room``: all of it or nothing; what is not let through is refused.
- ``take``: all of it, into debt if need be, and then the caller waits. For what cannot be undone,
  such as bytes that were read. The mean rate is kept exactly.
- ``take`` now and ``give_back`` later, for what turns out not to count.

It knows no clock: the time is given with each call, in seconds. A clock that goes back gives
nothing. What is counted within a fixed window instead is in ``doors/mqtt/connections/guard.py``
(flapping clients) and ``program/logs.py`` (equal lines).
"""

from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

from rowcast.core.bounded import BoundedCache
from rowcast.core.limits import RATE_BURST_SECONDS

K = TypeVar("K", bound=Hashable)


class TokenBucket:
    """``rate`` tokens a second, and ``burst`` of them saved up, with which it begins.

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
        """Take it, at most so far into debt; return the seconds until the debt is paid."""
        self._fill(now)
        self._room = max(self._room - amount, -debt_max)
        return max(-self._room / self.rate, 0.0)

    def take_if_room(self, amount: float, now: float) -> bool:
        """Take it if there is room for all of it; more than ever fits needs a full bucket."""
        self._fill(now)
        if self._room < min(amount, self._most):
            return False
        self._room -= amount
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is room for one; 0 when there is now."""
        self._fill(now)
        return max(1.0 - self._room, 0.0) / self.rate

    def give_back(self) -> None:
        """Put back one that was taken and does not count."""
        self._room = min(self._most, self._room + 1.0)


class KeyedRateLimit(Generic[K]):
    """A token bucket for each key, such as a caller or an address; at most ``keys_max`` of them.

    The key that was used least recently makes room: its bucket is the one that is most likely full
    by now, which is as good as a new one.
    """

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: float, keys_max: int) -> None:
        self.rate = rate
        self._buckets: BoundedCache[K, TokenBucket] = BoundedCache(keys_max)

    def __len__(self) -> int:
        return len(self._buckets)

    def allows(self, key: K, amount: float, now: float) -> bool:
        """Take tokens of a key if there is room for all; return whether there was."""
        bucket = self._buckets.use(key) or self._buckets.put(key, TokenBucket(self.rate, now))
        return bucket.take_if_room(amount, now)
