"""Time as an argument: a clock is a function, and a version is a hybrid logical timestamp.

A version is one integer: microseconds since 1970 (UTC), or the last version plus one if that is
greater, so time and counter share one number (Kulkarni et al., "Logical Physical Clocks", 2014). It
does not decrease when the wall clock goes back by less than a minute, so it orders writes between
nodes and decides last-writer-wins. It is below 2**53 until the year 2255, so that JavaScript
represents it exactly.

A temporarily wrong wall clock must not leave versions far in the future, over which no later write
could win. There are two rules. A clock jump is ignored until it has lasted (``LeapGuard``). And a
version is at most a minute ahead of the clock (``HybridClock``): a version further ahead, in a
record or on disk, came from a wrong clock, and counts as older than all valid ones.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rowcast.core.limits import CLOCK_BELIEVED_SECONDS, CLOCK_LEAD_SECONDS_MAX

WallClock = Callable[[], float]
"""Returns seconds since 1970-01-01 UTC."""

PER_SECOND: Final = 1_000_000


def version_of(milliseconds: int) -> int:
    """Return the lowest version of a time in milliseconds since 1970 (UTC)."""
    return milliseconds * 1_000


def version_at(text: str) -> int | None:
    """Return the lowest version of an ISO 8601 time, UTC without an offset; None if invalid."""
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
    """A wall clock that ignores jumps in either direction until they have lasted.

    A jump is a difference of more than ``leap_seconds`` between the wall clock and the time
    expected from the monotonic clock ``steady``. Until ``believed_seconds`` after it was first
    seen, time continues from before the jump; a clock that is correct again by then has no effect.
    Thread-safe.
    """

    __slots__ = ("_base", "_believed_seconds", "_doubted", "_leap_seconds", "_steady", "_wall",
                 "leaps", "on_leap")  # fmt: skip

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
        """The wall clock's time when ``steady`` was 0."""
        self._doubted: float | None = None
        """The start of the current unconfirmed jump, in steady time."""
        self.leaps = 0
        """The number of jumps that were ignored at first."""
        self.on_leap: Callable[[float, bool], None] | None = None
        """Callback for each jump: its seconds, and whether it is now accepted."""

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
        if self.on_leap is not None:
            self.on_leap(ahead, believed)


class HybridClock:
    """Returns increasing versions, at most ``lead_seconds`` ahead of the wall clock.

    When the last one is further ahead, because a clock was wrong in this run or an earlier one,
    versions fall back to the bound, less a second so that they do not fall back again at once. So
    they stay greater than all valid versions.
    """

    __slots__ = ("_lead", "_now", "last", "returns")

    def __init__(
        self, now: WallClock, last: int = 0, lead_seconds: float = CLOCK_LEAD_SECONDS_MAX
    ) -> None:
        self._now = now
        self.last = last
        """The newest version that was returned or observed."""
        self._lead = int(lead_seconds * PER_SECOND)
        self.returns = 0
        """How often versions fell back to the wall clock."""

    @property
    def ceiling(self) -> int:
        """The greatest valid version; one further ahead came from a wrong clock."""
        return int(self._now() * PER_SECOND) + self._lead

    def tick(self, count: int = 1) -> int:
        """Return a version greater than every valid one before, the first of ``count`` in a row."""
        now = int(self._now() * PER_SECOND)
        if self.last > now + self._lead:
            self.last = now + self._lead - PER_SECOND
            self.returns += 1
        first = max(self.last + 1, now)
        self.last = first + count - 1
        return first

    def after(self, version: int) -> int:
        """Return a version greater than every one before: this one of another node, if it is valid.

        So the order of versions is that of the log, and a version changes only where the clocks of
        two nodes differ by more than the time between their writes.
        """
        if self.last < version <= self.ceiling:
            self.last = version
            return version
        return self.tick()

    def observe(self, version: int) -> None:
        """Note a version from elsewhere: the next one will be greater."""
        self.last = max(self.last, version)
