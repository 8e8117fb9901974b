"""Versions strictly increase, whatever the wall clock does."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import HybridClock, milliseconds_of, seconds_of, version_of


@given(st.lists(st.floats(min_value=0, max_value=4e9), min_size=1), st.integers(0, 2**60))
def test_versions_strictly_increase(times, last):
    moments = iter(times)
    clock = HybridClock(lambda: next(moments), last)
    versions = [clock.tick() for _ in times]
    assert sorted(set(versions)) == versions
    assert versions[0] > last


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
