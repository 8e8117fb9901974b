"""Time as an argument: a clock is a function, and a version is a hybrid logical timestamp.

A version is one integer: microseconds since 1970 (UTC), or one more than the last when that is not
greater, so time and counter share one number (Kulkarni et al., "Logical Physical Clocks", 2014). It
does not go back when the wall clock does by less than a minute, so it orders writes between nodes
and decides last-writer-wins. It stays below 2**53 until the year 2255, so that JavaScript reads it
exactly.

A wall clock that is wrong for a while must not leave versions of another year behind, which no
write of this year could win over. There are two rules. A leap is not believed before it has lasted
(``LeapGuard``). And a version is at most a minute ahead of the clock (``HybridClock``): what is
further ahead, in a record or on the disk, came from a clock that was wrong, and counts as older
than all that is not.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from rowcast.core.limits import CLOCK_BELIEVED_SECONDS, CLOCK_LEAD_SECONDS_MAX

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


class LeapGuard:
    """A wall clock whose leaps, either way, are not believed before they have lasted.

    A leap is a difference of more than ``leap_seconds`` between what the clock says and what it
    should say by the time that has passed, which ``steady`` tells. Until ``believed_seconds`` have
    passed since it was first seen, the time is that of before, and goes on; a clock that is right
    again by then has changed nothing. It may be called by any thread.
    """

    __slots__ = ("_base", "_believed_seconds", "_doubted", "_leap_seconds", "_steady", "_wall",
                 "leaps", "tell")  # fmt: skip

    def __init__(
        self,
        wall: WallClock,
        steady: Callable[[], float],
        leap_seconds: float = CLOCK_LEAD_SECONDS_MAX,
        believed_seconds: float = CLOCK_BELIEVED_SECONDS,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._leap_seconds = leap_seconds
        self._believed_seconds = believed_seconds
        self._base = wall() - steady()
        """What the wall clock said when steady time was 0."""
        self._doubted: float | None = None
        """Since when, in steady time, it says something that is not believed."""
        self.leaps = 0
        """How often it was not believed."""
        self.tell: Callable[[float, bool], None] | None = None
        """Hears of each leap, in seconds, and whether it is believed now."""

    def __call__(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        wall, steady = self._wall(), self._steady()
        ahead = wall - steady - self._base
        if -self._leap_seconds <= ahead <= self._leap_seconds:
            self._base += ahead
            self._doubted = None
            return wall
        doubted = self._doubted
        if doubted is None:
            self._doubted = steady
            self.leaps += 1
            self._say(ahead, believed=False)
        elif steady - doubted >= self._believed_seconds:
            self._base += ahead
            self._doubted = None
            self._say(ahead, believed=True)
            return wall
        return wall - ahead

    def _say(self, ahead: float, *, believed: bool) -> None:
        if self.tell is not None:
            self.tell(ahead, believed)


class HybridClock:
    """Hands out versions that increase, and are at most ``lead_seconds`` ahead of the wall clock.

    When the last one is further ahead, because a clock was wrong in this run or an earlier one,
    versions return to the bound, less a second so that they do not return again at once. So they
    stay greater than all that are not too far ahead to count.
    """

    __slots__ = ("_lead", "_now", "last", "returns")

    def __init__(
        self, now: WallClock, last: int = 0, lead_seconds: float = CLOCK_LEAD_SECONDS_MAX
    ) -> None:
        self._now = now
        self.last = last
        """The newest version that was handed out or seen."""
        self._lead = int(lead_seconds * PER_SECOND)
        self.returns = 0
        """How often versions had to return to the wall clock."""

    @property
    def ceiling(self) -> int:
        """The greatest version that counts: one further ahead came from a clock that was wrong."""
        return int(self._now() * PER_SECOND) + self._lead

    def tick(self) -> int:
        """Return a version greater than every one before, but for those that do not count."""
        now = int(self._now() * PER_SECOND)
        if self.last > now + self._lead:
            self.last = now + self._lead - PER_SECOND
            self.returns += 1
        self.last = max(self.last + 1, now)
        return self.last

    def observe(self, version: int) -> None:
        """Take note of a version from elsewhere: the next one will be greater."""
        self.last = max(self.last, version)
