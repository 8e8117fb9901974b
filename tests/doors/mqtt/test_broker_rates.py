"""The meter of one client (D57), with a clock in the test's hand."""

import pytest

from rowcast.core.limits import RATE_BURST_SECONDS
from rowcast.doors.mqtt.connections.rates import RateSettings


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
