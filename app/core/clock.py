"""Time as an argument: a clock is a function, and a version is a hybrid logical timestamp.

A version is one 64-bit integer: 48 bits of milliseconds since 1970 (UTC) and 16 bits of counter
(Kulkarni et al., "Logical Physical Clocks", 2014). It never goes back, even when the wall clock
does, so it orders writes between nodes and decides last-writer-wins.
"""

from collections.abc import Callable

WallClock = Callable[[], float]
"""Returns seconds since 1970-01-01 UTC."""

COUNTER_BITS = 16


def version_of(milliseconds: int, counter: int = 0) -> int:
    """Return the version for a time in milliseconds and a counter."""
    return milliseconds << COUNTER_BITS | counter


def seconds_of(version: int) -> float:
    """Return the time of a version, in seconds since 1970 (UTC)."""
    return (version >> COUNTER_BITS) / 1000


class HybridClock:
    """Hands out versions that strictly increase."""

    __slots__ = ("_last", "_now")

    def __init__(self, now: WallClock, last: int = 0) -> None:
        self._now = now
        self._last = last

    def tick(self) -> int:
        """Return a version greater than every one before."""
        self._last = max(self._last + 1, int(self._now() * 1000) << COUNTER_BITS)
        return self._last

    def observe(self, version: int) -> None:
        """Take note of a version from elsewhere: the next one will be greater."""
        self._last = max(self._last, version)
