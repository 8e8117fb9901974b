"""Freshness is a function of a record's version and of the time (M4)."""

from rowcast.core.freshness import bound, is_stale, seen_at, told_of
from rowcast.core.tables import Table

SENSOR = Table("Sensor", "Sensor", deadline_seconds=30)


def test_stale_from_the_deadline_on():
    version = 1_000 * 1_000_000
    assert 1_000 == seen_at(version)
    assert [False, False, True] == [
        is_stale(SENSOR, version, now) for now in (1_000, 1_030, 1_030.001)
    ]
    assert version == bound(SENSOR, 1_030)


def test_what_is_told_is_about_another_topic():
    assert ("Sensor/1", None, None) == (
        told_of("$stale/Sensor/1"), told_of("Sensor/1"), told_of("x/$stale/1")
    )  # fmt: skip
