"""Token buckets and the meter of one client (D57), with a clock in the test's hand."""

import pytest

from rowcast.core.buckets import Bucket
from rowcast.core.limits import RATE_BURST_SECONDS
from rowcast.doors.mqtt.connections.rates import RateSettings


def test_what_was_saved_up_may_come_at_once():
    bucket = Bucket(10, 0)
    assert [0.0] * 10 == [bucket.take(1, 0) for _ in range(10 * RATE_BURST_SECONDS)]


def test_a_debt_is_paid_by_waiting():
    bucket = Bucket(10, 0)
    bucket.take(10 * RATE_BURST_SECONDS, 0)
    assert 2.5 == bucket.take(25, 0)
    assert (1.5, 0.0) == (bucket.take(0, 1), bucket.take(0, 2.5))


def test_no_more_is_saved_up_than_fits():
    bucket = Bucket(10, 0)
    bucket.take(0, 1_000)
    assert 1.0 == bucket.take(10 * RATE_BURST_SECONDS + 10, 1_000)


def test_the_mean_rate_is_kept_whatever_the_portions():
    """D57: a hundred portions of seven, each as early as allowed."""
    bucket, now = Bucket(10, 0), 0.0
    for _ in range(100):
        now += bucket.take(7, now)
    assert 700 - 10 * RATE_BURST_SECONDS == pytest.approx(now * 10)


def test_a_clock_that_goes_back_gives_nothing():
    bucket = Bucket(10, 100)
    bucket.take(10 * RATE_BURST_SECONDS, 100)
    assert bucket.take(1, 50) > 0


def test_taking_only_when_there_is_room():
    bucket = Bucket(2, 0)
    assert [True, True, False] == [bucket.take_if_room(1, 0) for _ in range(3)]
    assert [False, True] == [bucket.take_if_room(1, now) for now in (0.4, 0.6)]


def test_more_than_ever_fits_needs_a_full_bucket():
    bucket = Bucket(2, 0)
    assert [True, False] == [bucket.take_if_room(100, now) for now in (0, 10)]
    assert bucket.take_if_room(100, 50)


def test_a_rate_below_one_lets_one_through():
    bucket = Bucket(0.1, 0)
    assert [True, False, True] == [bucket.take_if_room(1, now) for now in (0, 9, 10.5)]


def test_without_limits_nothing_is_counted():
    assert RateSettings().meter(0) is None


@pytest.mark.parametrize(
    ("settings", "wait"),
    [
        (RateSettings(messages=10), 1.0),
        (RateSettings(bytes=1_000), 4.0),
        (RateSettings(messages=10, bytes=1_000), 4.0),
        (RateSettings(subscribes=1), 0.0),
    ],
)
def test_the_longest_wait_of_the_meter_counts(settings, wait):
    meter = settings.meter(0)
    assert wait == meter.read(4_000 + 1_000 * RATE_BURST_SECONDS, 10 + 10 * RATE_BURST_SECONDS, 0)


def test_filters_are_counted_only_when_granted():
    meter = RateSettings(subscribes=2).meter(0)
    assert [True, False, True] == [meter.may_subscribe(count, 0) for count in (1, 2, 1)]
    assert RateSettings(messages=1).meter(0).may_subscribe(1_000, 0)
