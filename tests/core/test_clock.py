"""Versions increase, and stay near the wall clock, whatever it does (P6)."""

from hypothesis import given
from hypothesis import strategies as st

from rowcast.core.clock import (
    PER_SECOND,
    HybridClock,
    LeapGuard,
    milliseconds_of,
    seconds_of,
    version_of,
)

NOW = 1_700_000_000.0
DAYS = 86_400


@given(st.lists(st.floats(min_value=0, max_value=58), min_size=1), st.floats(0, 58))
def test_versions_strictly_increase(back, last):
    """A clock that goes back and forth by less than a minute."""
    moments = iter(back)
    clock = HybridClock(lambda: NOW - next(moments), int((NOW + 1 - last) * PER_SECOND))
    first = clock.last
    versions = [clock.tick() for _ in back]
    assert sorted(set(versions)) == versions
    assert versions[0] > first
    assert 0 == clock.returns


@given(st.lists(st.floats(min_value=0, max_value=4e9), min_size=1), st.integers(0, 2**60))
def test_versions_are_at_most_a_minute_ahead(times, last):
    """P6: whatever the clock has said before, in this run or an earlier one."""
    moments = iter(times)
    clock = HybridClock(lambda: next(moments), last)
    for moment in times:
        assert 0 <= seconds_of(clock.tick()) - moment + 1e-6 <= 61


def test_versions_return_when_the_clock_was_ahead():
    """P6: they go on from the bound, and increase from there."""
    time = [NOW + 400 * DAYS]
    clock = HybridClock(lambda: time[0])
    clock.tick()
    time[0] = NOW
    versions = [clock.tick() for _ in range(1000)]
    assert sorted(set(versions)) == versions
    assert NOW < seconds_of(versions[0]) < seconds_of(versions[-1]) <= NOW + 60
    assert 1 == clock.returns
    assert clock.ceiling == int((NOW + 60) * PER_SECOND)


class Times:
    """A wall clock and the time that has passed, both the test's."""

    def __init__(self):
        self.wall = NOW
        self.steady = 50.0
        self.told = []
        self.guard = LeapGuard(lambda: self.wall, lambda: self.steady)
        self.guard.on_leap = lambda ahead, believed: self.told.append((round(ahead), believed))

    def pass_time(self, seconds):
        self.wall += seconds
        self.steady += seconds
        return round(self.guard() - NOW, 6)


@given(st.sampled_from([400 * DAYS, 61, -61, -400 * DAYS]))
def test_a_short_leap_is_not_seen(leap):
    """P6: the time goes on as if there were none, and goes on after it."""
    times = Times()
    times.wall += leap
    seen = [times.pass_time(seconds) for seconds in (0, 1, 1, 57)]
    times.wall -= leap
    seen += [times.pass_time(seconds) for seconds in (0, 1, 100)]
    assert [0, 1, 2, 59, 59, 60, 160] == seen
    assert ([(leap, False)], 1) == (times.told, times.guard.leaps)


@given(st.sampled_from([400 * DAYS, -400 * DAYS]))
def test_a_leap_that_lasts_is_believed(leap):
    """P6: a clock that was wrong and is set right stays so."""
    times = Times()
    times.wall += leap
    seen = [times.pass_time(seconds) for seconds in (0, 59, 1, 5)]
    assert [0, 59, leap + 60, leap + 65] == seen
    assert [(leap, False), (leap, True)] == times.told


def test_a_small_leap_is_believed_at_once():
    """A time server steps by less than a minute; versions bridge that."""
    times = Times()
    times.wall += 59
    assert 59 == times.pass_time(0)
    times.wall -= 50
    assert 10 == times.pass_time(1)
    assert [] == times.told


def test_two_leaps_are_two():
    times = Times()
    for _ in range(2):
        times.wall += 1000
        times.pass_time(1)
        times.wall -= 1000
        times.pass_time(1)
    assert 2 == times.guard.leaps


def test_a_version_holds_the_time():
    clock = HybridClock(lambda: 1_700_000_000.123)
    assert 1_700_000_000.123 == seconds_of(clock.tick())
    assert 1_700_000_000_123 == milliseconds_of(clock.tick())


def test_versions_of_one_moment_count_up():
    clock = HybridClock(lambda: 5.0)
    assert [version_of(5_000), version_of(5_000) + 1] == [clock.tick(), clock.tick()]


def test_a_version_from_elsewhere_is_overtaken():
    clock = HybridClock(lambda: 5.0)
    clock.observe(version_of(9_000) + 7)
    clock.observe(3)
    assert version_of(9_000) + 8 == clock.tick()


def test_javascript_reads_versions_exactly():
    clock = HybridClock(lambda: 8_000_000_000.0)  # in the year 2223
    assert clock.tick() < 2**53
