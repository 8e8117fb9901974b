"""Time as an argument: a clock is a function, and a version is a hybrid logical timestamp.

A version is one integer: microseconds since 1970 (UTC), or one more than the last when that is not
greater, so time and counter share one number (Kulkarni et al., "Logical Physical Clocks", 2014). It
never goes back, even when the wall clock does, so it orders writes between nodes and decides
last-writer-wins. It stays below 2**53 until the year 2255, so that JavaScript reads it exactly.
"""

from collections.abc import Callable
from datetime import UTC, datetime

WallClock = Callable[[], float]
"""Returns seconds since 1970-01-01 UTC."""

PER_SECOND = 1_000_000


def version_of(milliseconds: int) -> int:
    """Return the least version of a time in milliseconds since 1970 (UTC)."""
    return milliseconds * 1_000


def version_at(text: str) -> int | None:
    """Return the least version of a time as ISO 8601 writes it, UTC if it does not say; or None."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = round(aware.timestamp() * 1000)
    return version_of(milliseconds) if milliseconds >= 0 else None


def milliseconds_of(version: int) -> int:
    """Return the time of a version, in whole milliseconds since 1970 (UTC)."""
    return version // 1_000


def seconds_of(version: int) -> float:
    """Return the time of a version, in seconds since 1970 (UTC)."""
    return version / PER_SECOND


class HybridClock:
    """Hands out versions that strictly increase."""

    __slots__ = ("_last", "_now")

    def __init__(self, now: WallClock, last: int = 0) -> None:
        self._now = now
        self._last = last

    @property
    def last(self) -> int:
        """The newest version that was handed out or seen."""
        return self._last

    def tick(self) -> int:
        """Return a version greater than every one before."""
        self._last = max(self._last + 1, int(self._now() * PER_SECOND))
        return self._last

    def observe(self, version: int) -> None:
        """Take note of a version from elsewhere: the next one will be greater."""
        self._last = max(self._last, version)
