"""How much waits for a bridge, and what goes when that is too much (H24, H39)."""

import json
import random

import pytest
from gateway_world import ANN, reading, server, to

from app.gateway.backlog import Backlog, Caps, Policy, Waiting
from remote_broker import RemoteBroker, free_port

OLDEST, NEWEST = Policy.DROP_OLDEST, Policy.DROP_NEWEST


def waiting(seq, size=10):
    return Waiting(seq, seq * 1_000_000, size)


def filled(count, held=0, **caps):
    backlog = Backlog(Caps(**caps))
    for seq in range(1, count + 1):
        backlog.add(waiting(seq), held)
    return backlog


def left(backlog, count):
    return [seq for seq in range(1, count + 1) if not backlog.passes_over(seq)]


@pytest.mark.parametrize(
    ("caps", "held", "kept"),
    [
        ({"events": 10}, 0, range(21, 31)),
        ({"events": 10}, 4, range(25, 31)),
        ({"events": 10, "policy": NEWEST}, 0, range(1, 11)),
        ({"events": 10, "policy": NEWEST}, 4, range(1, 7)),
        ({"size_bytes": 55}, 0, range(26, 31)),
        ({"size_bytes": 55, "policy": NEWEST}, 0, range(1, 6)),
        ({}, 0, range(1, 31)),
    ],
)
def test_what_is_too_much_goes(caps, held, kept):
    backlog = filled(30, held, **caps)
    assert (len(kept), 10 * len(kept)) == (backlog.events, backlog.size_bytes)
    assert 30 - len(kept) == backlog.dropped
    assert list(kept) == left(backlog, 30)


def test_what_is_too_old_goes():
    backlog = filled(30, age_seconds=10, policy=NEWEST)
    backlog.expire(30.0)
    assert list(range(21, 31)) == left(backlog, 30)
    assert 21.0 == backlog.oldest


def test_what_was_dropped_is_told_once_with_its_range():
    backlog = filled(30, events=10)
    told = backlog.tell()
    assert (1, 20, 20, "outbox_max_events") == (told.first, told.last, told.events, told.why)
    assert backlog.tell() is None


def test_what_has_gone_makes_room():
    backlog = filled(12, events=10, policy=NEWEST)
    for seq in (1, 2, 3):
        backlog.taken(waiting(seq))
    for seq in range(13, 17):
        backlog.add(waiting(seq), 0)
    assert [(11, 12), (16, 16)] == list(backlog.holes)
    assert [*range(1, 11), 13, 14, 15] == left(backlog, 16)


def test_what_was_there_before_a_restart_is_counted_before_the_rest():
    backlog = Backlog(Caps(events=5))
    for seq in (8, 9):
        backlog.add(waiting(seq), 0)
    backlog.recount([waiting(seq) for seq in range(1, 8)], 0)
    assert (5, [5, 6, 7, 8, 9]) == (backlog.events, left(backlog, 9))


def test_a_long_outage_takes_little_memory():
    backlog = filled(200_000, size_bytes=10**9)
    assert 200_000 == backlog.events
    assert len(backlog._blocks) < 200


def test_when_it_will_be_full():
    """H39."""
    backlog = Backlog(Caps(events=1000))
    assert backlog.full_in_seconds(0) is None
    for second in range(100):
        for seq in range(5):
            backlog.add(waiting(second * 5 + seq + 1), 0)
        backlog.look(0, 1.0)
    assert pytest.approx(5.0, 0.01) == backlog.growth
    assert pytest.approx(100.0, 0.01) == backlog.full_in_seconds(0)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("policy", [OLDEST, NEWEST])
def test_each_event_is_taken_or_counted_as_dropped(seed, policy):
    dice = random.Random(seed)
    backlog = Backlog(Caps(events=dice.choice([1, 7, 250]), policy=policy))
    seq = took = upto = 0
    for _ in range(2_000):
        if dice.random() < 0.6:
            seq += 1
            backlog.add(waiting(seq), 0)
        elif upto < seq:
            upto += 1
            if not backlog.passes_over(upto):
                took += 1
                backlog.taken(waiting(upto))
            backlog.passed(upto)
        assert backlog.events <= backlog.caps.events
        assert seq == took + backlog.events + backlog.dropped


async def test_a_cap_on_what_waits_while_the_broker_is_away(tmp_path):
    """H24: what is dropped is counted, and told with its range; the rest arrives."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    with RemoteBroker(tmp_path / "there") as broker:
        settings = to(broker, "u/#", outbox_max_events=10)
        async with server(tmp_path / "here") as world:
            await world.gateway.change("b", settings | {"port": free_port()})
            receipts = [await world.say(f"u/{number}", b"%d" % number) for number in range(30)]
            row = await world.engine.resource("$SYS/brokers/b", ANN).get()
            assert (10, 20) == (row["outbox_pending"], row["messages_dropped"])
            store = world.application.store
            await world.until(lambda: store.get(None, "$SYS/gateway/b/dropped"))
            told = json.loads(store.get(None, "$SYS/gateway/b/dropped").payload)
        ends = [world.engine.cursor(receipts[index].event.seq) for index in (0, 19)]
        assert (20, *ends) == (told["in_all"], told["from"], told["to"])
        async with server(tmp_path / "here") as world, reading(broker) as reader:
            await world.until(lambda: world.bridge.backlog.events == 10)
            await world.gateway.change("b", settings)
            await world.idle()
            heard = await reader.wait(10)
        assert [b"%d" % number for number in range(20, 30)] == [said for _, said in heard]
