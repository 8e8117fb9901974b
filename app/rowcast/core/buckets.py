"""The token bucket: so many things in a second, with a burst.

It may go into debt, so that what cannot be undone is taken whole and paid for later; the mean rate
is kept exactly. It knows no clock: the time is given with each call.
"""

from rowcast.core.limits import RATE_BURST_SECONDS


class Bucket:
    """Room for so many things a second; at first that of ``burst``, or RATE_BURST_SECONDS."""

    __slots__ = ("_at", "_most", "_room", "rate")

    def __init__(self, rate: float, now: float, burst: float = 0) -> None:
        self.rate = rate
        self._most = max(min(burst, rate) if burst else rate * RATE_BURST_SECONDS, 1.0)
        self._room = self._most
        self._at = now

    def _fill(self, now: float) -> None:
        self._room = min(self._most, self._room + max(now - self._at, 0.0) * self.rate)
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take it, into debt if need be; return the seconds until that is paid."""
        self._fill(now)
        self._room -= amount
        return max(-self._room / self.rate, 0.0)

    def take_if_room(self, amount: float, now: float) -> bool:
        """Take it if there is room for all of it; more than ever fits needs a full bucket."""
        self._fill(now)
        if self._room < min(amount, self._most):
            return False
        self._room -= amount
        return True
