"""`scripts/bench deadlines`: what it takes for a delay."""

import json

import pytest

from bench import frames
from bench.deadlines_cli import Told, line, take

FACTS = {"last_seen": "1970-01-01T00:01:00.500Z", "deadline_seconds": 30}


def stale(number: int) -> bytes:
    return frames.publish(f"$stale/Sensor/{number}", json.dumps(FACTS).encode())


def test_m4_whole_messages_are_taken_and_a_part_is_left() -> None:
    data = bytearray(stale(1) + frames.acks(frames.PUBACK, [3]) + stale(2) + stale(3)[:-5])
    assert [Told(90.5, 100.0)] * 2 == take(data, 100.0)
    assert stale(3)[:-5] == data
    assert [] == take(data, 101.0)
    data += stale(3)[-5:]
    assert [Told(90.5, 102.0)] == take(data, 102.0)


@pytest.mark.parametrize(("late", "verdict"), [(2, "NO"), (1, "yes")])
def test_m4_the_goal_is_of_the_99th_percentile(late: int, verdict: str) -> None:
    said = line([0.02] * (100 - late) + [0.2] * late)
    assert said.startswith("told after its deadline, ms: p50 20.0, p99 ")
    assert said.endswith(f"within 100: {verdict}")
