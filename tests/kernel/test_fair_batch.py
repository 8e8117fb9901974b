"""Fair batches: one client's megabytes do not go before everybody else's few bytes (P2)."""

import random
from collections import deque

import pytest

from build import ANN, BEN, Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.kernel.bytes_in_hand import WriteBounds
from rowcast.kernel.fair_batch import FairBatches, level_of
from rowcast.kernel.write import FactsWrite, Group, Write
from rowcast.store.store import Change

CAL = Caller("cal", ALL)


def write(topic, caller, size=1, changes=()):
    made = Write(Event(topic, PUT, b""), caller, print, changes=changes)
    made.size = size
    return made


def facts(name="x"):
    return FactsWrite((Change("s", name, b"1"),), None)


def grouped(*writes):
    group = Group(list(writes))
    for each in writes:
        each.group = group
    return list(writes)


def take(batches, waiting):
    """Take a batch as the committer does; return the topics in it."""
    held = {}
    for item in waiting:
        if isinstance(item, Write):
            held[item.caller] = held.get(item.caller, 0) + item.size
    return [item.event.topic for item in batches.take(waiting, held.values()).writes]


def test_who_wants_little_has_all_of_it():
    levels = [level_of(held, 100) for held in ([10, 80, 90], [1], [40, 50], [99] * 4)]
    assert [45, 100, 100, 25] == levels


def test_a_small_write_does_not_wait_for_large_ones_that_came_before():
    """P2."""
    waiting = deque([write(f"a/{n}", ANN, 40) for n in range(9)] + [write("b", BEN)])
    assert ["a/0", "a/1", "b"] == take(FairBatches(100), waiting)


def test_clients_that_send_the_same_have_the_same():
    waiting = deque(write(f"a/{n}", ANN, 10) for n in range(20))
    waiting += [write(f"b/{n}", BEN, 10) for n in range(20)]
    topics = take(FairBatches(100), waiting)
    assert [5, 5] == [sum(topic[0] == name for topic in topics) for name in "ab"]


def test_what_is_larger_than_its_share_goes_in_every_second_batch():
    """So that what is small waits for one of them, and not for one after the other."""
    batches = FairBatches(100)
    waiting = deque([write("a/1", ANN, 500), write("b/1", BEN, 500), write("a/2", ANN, 500)])
    taken = []
    for number in range(3):
        waiting.append(write(f"c/{number}", CAL))
        taken.append(take(batches, waiting))
    assert [["a/1", "c/0"], ["c/1"], ["b/1", "c/2"]] == taken
    assert ["a/2"] == take(batches, waiting)


def test_what_is_left_at_a_topic_is_not_overtaken():
    waiting = deque([write("x", ANN, 60), write("x", ANN, 60), write("x", BEN), write("y", BEN)])
    assert ["x"] == take(FairBatches(100), waiting)
    assert ["x", "x", "y"] == [item.event.topic for item in waiting]


def test_facts_follow_what_came_before_and_only_plain_writes_overtake_them():
    """D16: facts are on the disk after all that was submitted before."""
    waiting = deque([write("a/1", ANN, 60), write("a/2", ANN, 60), facts()])
    waiting += [write("b", BEN), write("c", CAL, changes=(Change("s", "x", None),))]
    batch = FairBatches(100).take(waiting, [120, 1, 1])
    assert ["a/1", "b"] == [item.event.topic for item in batch.writes]
    assert [] == batch.keeps
    left = [item.event.topic if isinstance(item, Write) else "facts" for item in waiting]
    assert ["a/2", "facts", "c"] == left


def test_a_group_is_taken_or_left_as_a_whole():
    """B11."""
    group = grouped(*(write(f"a/{n}", ANN, 30) for n in range(3)))
    waiting = deque([write("a/x", ANN, 20), *group, write("b", BEN)])
    batches = FairBatches(100)
    assert ["a/x", "b"] == take(batches, waiting)
    assert ["a/0", "a/1", "a/2"] == take(batches, waiting)


@pytest.mark.parametrize("seed", range(30))
def test_all_is_taken_once_and_in_order_of_callers_and_topics(seed):
    rng, waiting = random.Random(seed), deque()
    for _ in range(rng.randint(1, 60)):
        caller, topic = rng.choice((ANN, BEN, CAL)), str(rng.randrange(5))
        if rng.random() < 0.15:
            waiting.append(facts())
        elif rng.random() < 0.2:
            waiting += grouped(*(write(topic, caller, rng.randint(1, 90)) for _ in range(3)))
        else:
            changes = (Change("s", "x", b"1"),) if rng.random() < 0.2 else ()
            waiting.append(write(topic, caller, rng.choice((1, 5, 70, 300)), changes))
    came, went, batches = list(waiting), [], FairBatches(100)
    while waiting:
        batch = batches.take(waiting, [50, 50])
        assert len(batch)
        for some, keeping in batch.stretches():
            went += some if keeping is None else [*some, keeping]
        assert batch.size == sum(item.size for item in batch.writes)
    assert len(came) == len(went) and set(came) == set(went)
    order = {item: place for place, item in enumerate(went)}
    for number, item in enumerate(came):
        for later in came[number + 1 :]:
            if _must_follow(item, later):
                assert order[item] < order[later]


def _must_follow(item, later):
    if isinstance(later, FactsWrite):
        return True
    if isinstance(item, FactsWrite):
        return bool(later.changes)
    return item.caller is later.caller or item.event.topic == later.event.topic


async def test_versions_rise_with_numbers_also_where_writes_were_overtaken():
    """M2: a time is a place in the log."""
    room = Server(bounds=WriteBounds(batch=6 * (WRITE_BYTES + 1)))
    room.writer.held = True
    told = []
    for caller, count in ((ANN, 5), (BEN, 1), (CAL, 2)):
        for number in range(count):
            event = Event(f"u/{caller.user}{number}", PUT, b"1", "application/json", 1, True)
            room.committer.submit([Write(event, caller, told.append)])
    room.writer.release()
    await room.committer.settle()
    events = [outcome.event for outcome in told]
    assert events == sorted(events, key=lambda event: event.seq)
    assert events == sorted(events, key=lambda event: event.version)
    assert [event.topic for event in events] != sorted(event.topic for event in events)
