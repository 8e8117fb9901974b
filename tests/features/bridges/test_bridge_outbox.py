"""What a bridge may send, in which order, and what becomes of what fails (H8, H10-H12, X13)."""

import random

import pytest

from rowcast.core.events import MESSAGE, Event
from rowcast.core.gateway_limits import GATEWAY_ITEMS_MAX, GATEWAY_TOPIC_EVENTS_HELD_MAX
from rowcast.features.bridges.outbox import Item, Outbox, Rules, backoff_seconds


def event(seq, topic="t"):
    return Event(topic, MESSAGE, b"%d" % seq, seq=seq, qos=1)


def outbox(*topics, **rules):
    box = Outbox(Rules(**rules))
    for seq, topic in enumerate(topics, 1):
        box.take(event(seq, topic))
    return box


def sent(box):
    found = []
    while (item := box.send()) is not None:
        found.append(item.seq)
    return found


def test_a_topic_has_one_event_on_the_way():
    """X13: strict order."""
    box = outbox("a", "a", "b", "a")
    assert [1, 3] == sent(box)
    box.delivered(1)
    assert [2] == sent(box)
    box.delivered(3)
    assert [] == sent(box)
    box.delivered(2)
    assert [4] == sent(box)


def test_in_relaxed_order_all_are_on_the_way():
    """X13: ``ordering: relaxed``."""
    assert [1, 2, 3] == sent(outbox("a", "a", "b", strict=False))


def test_a_failing_event_holds_back_its_topic_only():
    """H11: time-displaced, not blocking."""
    box = outbox("a", "b", "a", "b")
    assert [1, 2] == sent(box)
    assert not box.failed(1, "refused", 100.0)
    box.delivered(2)
    assert [4] == sent(box)
    assert 101.0 == box.wake(100.9)
    assert [] == sent(box)
    assert box.wake(101.0) is None
    assert [1] == sent(box)
    box.delivered(1)
    assert [3] == sent(box)


def test_retries_after_1_2_4_8_seconds_then_the_end():
    """H10."""
    box, now, waits = outbox("a"), 0.0, []
    for _ in range(4):
        assert [1] == sent(box)
        assert not box.failed(1, "refused", now)
        waits.append(box.wake(now) - now)
        now += waits[-1]
        box.wake(now)
    assert [1] == sent(box)
    assert box.failed(1, "refused", now)
    assert ([1.0, 2.0, 4.0, 8.0], 5) == (waits, box.items[1].attempts)
    assert ([], 0) == (sent(box), box.place)
    box.delivered(1)
    assert 1 == box.place


def test_longer_waits_have_a_bound():
    """H10: at most 30 seconds, for larger settings."""
    assert [16.0, 30.0, 30.0] == [backoff_seconds(attempts) for attempts in (5, 6, 60)]


def test_the_place_is_before_the_first_that_is_open():
    """H26: what is not acknowledged is not passed."""
    box = outbox("a", "b", "c")
    assert [1, 2, 3] == sent(box)
    box.delivered(3)
    box.delivered(2)
    assert 0 == box.place
    box.delivered(1)
    assert 3 == box.place


def test_a_lost_connection_sends_again_in_order():
    """H22: what was in hand keeps its place."""
    box = outbox("a", "b", "c", "d")
    assert [1, 2, 3, 4] == sent(box)
    box.delivered(2)
    assert [] == box.lost("gone", 0.0)
    assert [1] == sent(box)  # half of three
    box.delivered(1)
    assert [3] == sent(box)
    box.delivered(3)
    assert [4] == sent(box)
    assert box.items[4].again


@pytest.mark.parametrize("culprit", range(1, 9))
def test_who_makes_the_broker_disconnect_is_found(culprit):
    """H12: by halving what is on the way, and none of the others is blamed."""
    box, buried, now = outbox(*"abcdefgh"), [], 0.0
    for _ in range(100):
        while box.send() is not None:
            pass
        if culprit in box.flying:
            for seq in [seq for seq in box.flying if seq < culprit]:
                box.delivered(seq)
            buried += box.lost("the broker closed the connection", now)
            for seq in buried:
                box.delivered(seq)
        else:
            for seq in list(box.flying):
                box.delivered(seq)
        now += 10.0
        box.wake(now)
        if not box.items:
            break
    assert ([culprit], 8) == (buried, box.place)


def test_many_behind_a_failing_one_are_numbers_only():
    """H11: other topics find room, and the order comes back."""
    count = GATEWAY_TOPIC_EVENTS_HELD_MAX * 3
    box = outbox(*["a"] * count, held_max=2 * GATEWAY_TOPIC_EVENTS_HELD_MAX)
    assert [1] == sent(box)
    box.failed(1, "refused", 0.0)
    assert 0 < box.room
    box.take(event(count + 1, "b"))
    assert [count + 1] == sent(box)
    box.wake(1.0)
    order = []
    while box.items:
        for item in box.missing():
            box.fill(item, event(item.seq, "a"))
        for seq in sent(box):
            order.append(seq)
            box.delivered(seq)
        box.delivered(count + 1)
    assert list(range(1, count + 1)) == order


@pytest.mark.parametrize("strict", [True, False])
def test_what_is_done_before_its_turn_is_not_in_the_way(strict):
    """H24, H28: what is gone from the log, and what is not to be told."""
    box = outbox(*"aab", strict=strict)
    box.restore(9, [Item(7, "c", None)])
    box.delivered(1)
    box.delivered(7)
    assert [] == box.missing()
    assert {2, 3} == set(sent(box))


def test_there_is_a_bound():
    box = outbox(*["a"] * (GATEWAY_ITEMS_MAX + 5), held_max=GATEWAY_ITEMS_MAX * 2)
    assert 0 == box.room


def test_after_a_restart_it_goes_on_with_what_was_open():
    """H21."""
    box = Outbox()
    box.restore(9, [Item(4, "a", None, 2, again=True), Item(7, "a", None)])
    assert (3, 9, [4]) == (box.place, box.upto, [item.seq for item in box.missing()])
    box.fill(box.items[4], event(4, "a"))
    assert [4] == sent(box)
    box.delivered(4)
    box.fill(box.missing()[0], event(7, "a"))
    assert [7] == sent(box)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("strict", [True, False])
def test_a_random_life_delivers_each_once_and_in_order(seed, strict):
    """X13, H8: whatever fails or is lost, all arrive; strict order is kept in each topic."""
    dice = random.Random(seed)
    box = Outbox(Rules(attempts_max=50, flying_max=dice.choice([1, 3, 8]), held_max=20))
    box.rules.strict = strict
    waiting = [event(seq, dice.choice("abc")) for seq in range(1, 120)]
    events = {each.seq: each for each in waiting}
    arrived, now = [], 0.0
    while waiting or box.items:
        while waiting and box.room and dice.random() < 0.7:
            box.take(waiting.pop(0))
        for item in box.missing():
            box.fill(item, events[item.seq])
        box.send()
        chance = dice.random()
        if box.flying and chance < 0.6:
            seq = dice.choice(list(box.flying))
            arrived.append(seq)
            box.delivered(seq)
        elif box.flying and chance < 0.7:
            box.failed(dice.choice(list(box.flying)), "refused", now)
        elif chance < 0.75:
            box.lost("gone", now)
        now += 5.0
        box.wake(now)
    assert sorted(arrived) == list(range(1, 120))
    assert (119, 0) == (box.place, box.held)
    if strict:
        for topic in "abc":
            mine = [seq for seq in arrived if events[seq].topic == topic]
            assert sorted(mine) == mine
