"""Kills around a bridge (H4, H21, H26, M8); `scripts/kill gateway` does more of them."""

import random
from types import SimpleNamespace

import kill_gateway_many
import pytest
from kill_gateway import Bridged, run

from remote_broker import BINARY, NEEDS_MOSQUITTO
from rowcast.mqtt.packets import Publish
from serving import PATIENCE_SECONDS


@pytest.mark.timeout(10 * PATIENCE_SECONDS)
@pytest.mark.parametrize(
    "rowcast",
    [
        pytest.param(
            False,
            marks=NEEDS_MOSQUITTO,
        ),
        True,
    ],
)
def test_a_few_rounds_lose_nothing_and_double_nothing_unmarked(tmp_path, rowcast):
    play = run(tmp_path, rounds=3, seed=5, rowcast=rowcast)
    assert all(pair.sent == pair.arrived == pair.acknowledged > 0 for pair in play.pairs)
    assert not (rowcast and play.again.total())


@pytest.mark.parametrize(
    ("exact", "heard", "words"),
    [
        (False, ((1, "a:1", False), (3, "a:3", False)), "lost"),
        (False, ((1, "a:1", False), (1, "a:1", False)), "not marked"),
        (True, ((1, "a:1", False), (1, "a:1", True)), "not marked"),
    ],
)
def test_a_fault_is_noticed(exact, heard, words):
    play = Bridged(SimpleNamespace(settings={}), None, random.Random(1), exact)
    with pytest.raises(AssertionError, match=words):
        for n, event, again in heard:
            marks = {"rowcast-id": event} | ({"rowcast-again": "1"} if again else {})
            play._look(play.pairs[0], n, marks, may_repeat=False)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(not BINARY, reason="mosquitto is not installed")
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_many_messages_through_outages_kills_and_poison(tmp_path):
    """H4, H6, H10, H12, H26, H41: `scripts/kill gateway --messages` does this with a million."""
    report = kill_gateway_many.run(tmp_path, 3_000, seed=3)
    assert report.play.written == report.play.arrived.total() + report.letters == 3_000
    assert report.letters >= 2


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (((1, ""), (3, "")), "lost"),
        (((1, ""), (2, ""), (1, "")), "not marked"),
        (((1, ""), (2, ""), (1, "1"), (2, "1"), (4, "1")), "lost"),
    ],
)
def test_a_fault_among_many_is_noticed(heard, words):
    play = kill_gateway_many.Play(None, None, random.Random(1), 10)
    with pytest.raises(AssertionError, match=words):
        for n, again in heard:
            marks = {"user_property": (("rowcast-again", again),)} if again else None
            play._look(Publish("edge/open/good/0-0", b"%d x" % n, 1, False, False, 1, marks))
