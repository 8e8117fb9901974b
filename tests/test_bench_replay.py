"""The benchmark of replays: its figures, and that it runs. No time is asserted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.replay.cli import TIMER, compare, drift, lines, measure, spacing, verdict
from bench.replay.readers import Heard
from serving import PATIENCE_SECONDS


def heard(*times):
    return [Heard(("put", f"Sensor/{n}", "1", f"e:{n}"), at) for n, at in enumerate(times)]


def test_an_error_is_of_one_pause_and_a_drift_of_all_before():
    recorded, replayed = [0.0, 1.0, 3.0], [50.0, 50.1, 50.5]
    assert [0.0, 0.2] == [round(it, 6) for it in spacing(recorded, replayed, 10)]
    assert [0.0, 0.0, 0.2] == [round(it, 6) for it in drift(recorded, replayed, 10)]


@pytest.mark.parametrize(
    ("past", "said"),
    [
        (heard(5, 6, 7.01), ""),
        (heard(5, 6, 7.2), "off by more than 20 ms"),
        (heard(5, 6), "not what was recorded"),
        ([*heard(5, 6), heard(7)[0]], "not what was recorded"),
    ],
)
def test_a_list_or_a_spacing_that_differs_is_told(past, said):
    found = [compare("SSE", 1, heard(0, 1, 2), past, {})]
    assert said in verdict(found)
    assert bool(said) == bool(verdict(found))
    assert ("NOT EQUAL" in lines(found)[-1]) == (said == "not what was recorded")


def test_what_the_machine_adds_misses_no_goal():
    assert not verdict([compare(TIMER, 1, heard(0, 1, 2), heard(0, 1, 9), {})])


@pytest.mark.slow
@pytest.mark.timeout(3 * PATIENCE_SECONDS)
def test_m6_each_door_replays_what_it_was_told(tmp_path):
    """M6, V6: kinds, topics, payloads and cursors, of the real program at two speeds."""
    found = measure(tmp_path, 60, [1, 10], seed=1)
    doors = ["SSE", "WebSocket", "MQTT", TIMER]
    live = [("SSE, live", 0), ("WebSocket, live", 0)]
    assert [*live, *[(door, speed) for speed in (1, 10) for door in doors]] == [
        (one.door, one.speed) for one in found
    ]
    assert {(60, True)} == {(one.events, one.equal) for one in found}
    assert len(found) + 2 == len(lines(found))
