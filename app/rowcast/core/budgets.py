"""The budget: a token bucket of which something is taken before it is known whether it counts.

It holds ``most`` and is filled again within ``seconds``. What turns out not to count is given back.
It knows no clock: the time is given with each call.
"""


class Budget:
    """So many at once, and on the average so many within ``seconds``."""

    __slots__ = ("_at", "_most", "_rate", "_room")

    def __init__(self, most: float, seconds: float, now: float) -> None:
        self._most = most
        self._rate = most / seconds
        self._room = most
        self._at = now

    def wait(self, now: float) -> float:
        """Return the seconds until there is room for one; 0 when there is now."""
        self._room = min(self._most, self._room + max(now - self._at, 0.0) * self._rate)
        self._at = now
        return max(1.0 - self._room, 0.0) / self._rate

    def take(self, now: float, debt: float = 0.0) -> None:
        """Take one; where there is no room it goes into debt, at most so far."""
        self.wait(now)
        self._room = max(self._room - 1.0, -debt)

    def give_back(self) -> None:
        """Put back one that was taken and does not count."""
        self._room = min(self._most, self._room + 1.0)
