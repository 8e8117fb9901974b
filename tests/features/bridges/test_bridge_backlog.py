"""How much waits for a bridge, and what goes when that is too much (H24, H39)."""

import random

import pytest

from rowcast.features.bridges.backlog import Backlog, Caps, Held, Policy, Waiting

OLDEST, NEWEST, CONFLATE = Policy.DROP_OLDEST, Policy.DROP_NEWEST, Policy.CONFLATE


def waiting(seq, size=10, topic=""):
    return Waiting(seq, seq * 1_000_000, size, topic or f"t/{seq % 3}")


def filled(count, held=0, **caps):
    backlog = Backlog(Caps(**caps))
    for seq in range(1, count + 1):
        backlog.add(waiting(seq), Held(held, held * 10))
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
        ({"size_bytes": 55}, 3, range(29, 31)),
        ({"events": 10, "policy": CONFLATE}, 0, range(25, 31)),
        ({"events": 2, "policy": CONFLATE}, 0, [29, 30]),
        ({"events": 10, "policy": CONFLATE}, 6, [27, 28, 29, 30]),
        ({"size_bytes": 55, "policy": CONFLATE}, 0, [28, 29, 30]),
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
    assert 21.0 == backlog.oldest()


def test_what_was_dropped_is_told_once_with_its_range():
    backlog = filled(30, events=10)
    told = backlog.take_dropped()
    assert (1, 20, 20, "outbox_max_events") == (told.first, told.last, told.events, told.why)
    assert backlog.take_dropped() is None


def test_what_has_gone_makes_room():
    backlog = filled(12, events=10, policy=NEWEST)
    for seq in (1, 2, 3):
        backlog.taken(waiting(seq))
    for seq in range(13, 17):
        backlog.add(waiting(seq))
    assert [(11, 12), (16, 16)] == list(backlog.holes)
    assert [*range(1, 11), 13, 14, 15] == left(backlog, 16)


def test_what_was_there_before_a_restart_is_counted_before_the_rest():
    backlog = Backlog(Caps(events=5))
    for seq in (8, 9):
        backlog.add(waiting(seq))
    backlog.recount([waiting(seq) for seq in range(1, 8)])
    assert (5, [5, 6, 7, 8, 9]) == (backlog.events, left(backlog, 9))


@pytest.mark.slow
def test_a_long_outage_takes_little_memory():
    backlog = filled(200_000, size_bytes=10**9)
    assert 200_000 == backlog.events
    assert len(backlog._blocks) < 200


@pytest.mark.parametrize(
    ("caps", "seconds"),
    [
        ({"events": 1000}, 100.0),
        ({"size_bytes": 20_000}, 300.0),
        ({"age_seconds": 120}, 20.0),
        ({"events": 1000, "size_bytes": 20_000, "age_seconds": 9_000}, 100.0),
        ({}, None),
    ],
)
def test_when_it_will_be_full(caps, seconds):
    """H39: whichever cap is reached first, if nothing goes and as much comes as lately."""
    backlog = Backlog(Caps(**caps))
    held = Held(oldest=0.0)
    assert backlog.full_in_seconds(Held(), 0.0) is None
    for second in range(100):
        for seq in range(5):
            backlog.add(waiting(second * 5 + seq + 1))
        backlog.look(held, 1.0, second + 1.0)
    assert pytest.approx(5.0, 0.01) == backlog.growth
    assert (seconds and pytest.approx(seconds, 0.01)) == backlog.full_in_seconds(held, 100.0)
    for _ in range(50):
        backlog.look(Held(oldest=100.0), 1.0, 100.0)
    assert backlog.full_in_seconds(Held(oldest=100.0), 100.0) is None


def test_a_cap_that_is_reached_refuses():
    """H24: refuse; nothing that was written goes."""
    backlog = filled(30, events=10, size_bytes=10_000, age_seconds=60, policy=Policy.REFUSE)
    assert (30, 0) == (backlog.events, backlog.dropped)
    backlog.expire(1e9)
    assert list(range(1, 31)) == left(backlog, 30)
    assert "outbox_max_events" == backlog.full(Held(), 1, 0.0)
    for seq in range(1, 25):
        backlog.taken(waiting(seq))
    told = [
        backlog.full(*asked)
        for asked in (
            (Held(), 1, 30.0), (Held(4), 1, 30.0), (Held(1, 9_900), 99, 30.0), (Held(), 1, 100.0),
            (Held(oldest=0.0), 1, 70.0),
        )
    ]  # fmt: skip
    assert ["", "outbox_max_events", "outbox_max_bytes", *["outbox_max_age_seconds"] * 2] == told


@pytest.mark.parametrize("seed", range(30))
def test_conflated_each_topic_ends_with_its_newest(seed):
    """H24: conflate; what is taken of a topic is in order, and its last value is never lost."""
    dice = random.Random(seed)
    most = dice.choice([5, 20, 200])
    backlog = Backlog(Caps(events=most, policy=CONFLATE))
    topics = [f"t/{number}" for number in range(dice.choice([1, 4, most - 2]))]
    log, newest, arrived, upto, seq = {}, {}, {}, 0, 0
    for step in range(3_000):
        if step < 2_500 and dice.random() < 0.7:
            seq += 1
            log[seq] = waiting(seq, 10, dice.choice(topics))
            newest[log[seq].topic] = seq
            backlog.add(log[seq])
            assert backlog.events <= most
        elif upto < seq:
            upto += 1
            if not backlog.passes_over(upto):
                arrived.setdefault(log[upto].topic, []).append(upto)
                backlog.taken(log[upto])
            backlog.passed(upto)
        if dice.random() < 0.01:  # a restart
            again = Backlog(backlog.caps, floor=backlog.floor, dropped=backlog.dropped)
            again.conflated, again.counted = backlog.conflated, False
            again.recount([log[number] for number in range(upto + 1, seq + 1)])
            assert (again.events, again.size_bytes) == (backlog.events, backlog.size_bytes)
            backlog = again
        taken = sum(map(len, arrived.values()))
        assert seq == taken + backlog.events + backlog.dropped
    while upto < seq:
        upto += 1
        if not backlog.passes_over(upto):
            arrived.setdefault(log[upto].topic, []).append(upto)
    assert newest == {topic: numbers[-1] for topic, numbers in arrived.items()}
    assert all(sorted(numbers) == numbers for numbers in arrived.values())


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("policy", [OLDEST, NEWEST, CONFLATE])
def test_each_event_is_taken_or_counted_as_dropped(seed, policy):
    dice = random.Random(seed)
    backlog = Backlog(Caps(events=dice.choice([1, 7, 250]), policy=policy))
    seq = took = upto = 0
    for _ in range(2_000):
        if dice.random() < 0.6:
            seq += 1
            backlog.add(waiting(seq))
        elif upto < seq:
            upto += 1
            if not backlog.passes_over(upto):
                took += 1
                backlog.taken(waiting(upto))
            backlog.passed(upto)
        assert backlog.events <= backlog.caps.events
        assert seq == took + backlog.events + backlog.dropped
