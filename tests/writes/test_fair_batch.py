"""Fair batches: one client's megabytes do not go before everybody else's few bytes (P2)."""

import random
from collections import deque
from dataclasses import replace

import pytest

from build import ANN, BEN, Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.store.store import Change
from rowcast.writes.fair_batch import FairBatches, level_of
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import FactsWrite, Group, Write

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


def take(batches, waiting=(), count=1_000):
    """Add what waits and take a batch; return the topics in it."""
    batches.add(deque(waiting))
    return [item.event.topic for item in batches.take(100, count).writes]


def test_who_wants_little_has_all_of_it():
    levels = [level_of(held, 100) for held in ([10, 80, 90], [1], [40, 50], [99] * 4)]
    assert [45, 100, 100, 25] == levels


def test_a_small_write_does_not_wait_for_large_ones_that_came_before():
    """P2."""
    waiting = deque([write(f"a/{n}", ANN, 40) for n in range(9)] + [write("b", BEN)])
    assert ["a/0", "a/1", "b"] == take(FairBatches(1), waiting)


def test_clients_that_send_the_same_have_the_same():
    waiting = deque(write(f"a/{n}", ANN, 10) for n in range(20))
    waiting += [write(f"b/{n}", BEN, 10) for n in range(20)]
    topics = take(FairBatches(1), waiting)
    assert [5, 5] == [sum(topic[0] == name for topic in topics) for name in "ab"]


def test_what_is_larger_than_its_share_goes_in_every_second_batch():
    """So that what is small waits for one of them, and not for one after the other."""
    batches = FairBatches(1)
    waiting = deque([write("a/1", ANN, 500), write("b/1", BEN, 500), write("a/2", ANN, 500)])
    taken = []
    for number in range(3):
        waiting.append(write(f"c/{number}", CAL))
        taken.append(take(batches, waiting))
        waiting.clear()
    assert [["a/1", "c/0"], ["c/1"], ["b/1", "c/2"]] == taken
    assert (["a/2"], 0) == (take(batches), batches.count)


def test_who_sends_many_small_writes_has_a_share_of_their_number():
    """P2: with a thousand of twenty bytes before it, a write is in the next batch."""
    batches = FairBatches(1)
    waiting = [*(write("a", ANN) for _ in range(1_000)), write("b", BEN), write("c", BEN)]
    assert [["a"] * 6 + ["b", "c"], ["a"] * 8] == [take(batches, waiting, 8), take(batches, (), 8)]
    assert 986 == batches.count


def test_a_batch_is_full_although_each_caller_has_little():
    batches, callers = FairBatches(1), [Caller(str(number)) for number in range(9)]
    taken = take(batches, [write(caller.user, caller) for caller in callers], 4)
    assert (["0", "1", "2", "3"], 5) == (taken, batches.count)
    assert ["4", "5", "6", "7"] == take(batches, [write("0", callers[0])], 4)


def test_only_those_with_few_are_taken_when_the_others_are_passed_over():
    batches = FairBatches(5)
    batches.add(deque([*(write("a", ANN) for _ in range(6)), write("b", BEN), facts()]))
    batch = batches.take(100, 100, few=True)
    assert (["b"], []) == ([item.event.topic for item in batch.writes], batch.facts_writes)
    assert 0 == len(batches.take(100, 100, few=True))
    batch = batches.take(100, 100)
    assert (6, 1, 0) == (len(batch.writes), len(batch.facts_writes), batches.count)


def test_a_caller_whose_rights_have_changed_keeps_its_place():
    """It is another object then, of the same connection: its later writes stay behind."""
    renewed = replace(ANN, roles=frozenset({"other"}))
    waiting = [*(write(f"a/{at}", ANN, 40) for at in range(9)), write("later", renewed)]
    batches = FairBatches(1)
    assert ["a/0", "a/1", "b"] == take(batches, [*waiting, write("b", BEN)])
    left = [f"a/{at}" for at in range(2, 9)]
    assert [*left, "later"] == [topic for _ in range(9) for topic in take(batches)]


def test_what_is_left_at_a_topic_is_not_overtaken():
    waiting = [write("x", ANN, 60), write("x", ANN, 60), write("x", BEN), write("y", BEN)]
    batches = FairBatches(1)
    assert ["x"] == take(batches, waiting)
    assert (["x", "x", "y"], 0) == (take(batches), batches.count)


def test_facts_follow_what_came_before_and_only_plain_writes_overtake_them():
    """D16: facts are on the disk after all that was submitted before."""
    waiting = deque([write("a/1", ANN, 60), write("a/2", ANN, 60), facts()])
    waiting += [write("b", BEN), write("c", CAL, changes=(Change("s", "x", None),))]
    batches = FairBatches(1)
    batches.add(waiting)
    batch = batches.take(100, 100)
    assert ["a/1", "b"] == [item.event.topic for item in batch.writes]
    assert [] == batch.facts_writes
    batch = batches.take(100, 100)
    assert ["a/2", "c"] == [item.event.topic for item in batch.writes]
    assert [1] == [place for place, _ in batch.facts_writes]


def test_many_facts_fill_a_batch():
    batches = FairBatches(1)
    batches.add(deque([facts(), facts(), write("a", ANN, changes=(Change("s", "y", b""),))]))
    assert [1, 2, 0] == [len(batches.take(100, 1)) for _ in range(3)]


def test_a_group_is_taken_or_left_as_a_whole():
    """B11."""
    group = grouped(*(write(f"a/{n}", ANN, 30) for n in range(3)))
    waiting = [write("a/x", ANN, 20), *group, write("b", BEN)]
    batches = FairBatches(1)
    assert ["a/x", "b"] == take(batches, waiting)
    assert ["a/0", "a/1", "a/2"] == take(batches)


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
    came, went, batches = list(waiting), [], FairBatches(rng.choice((1, 30)))
    while waiting or batches.count:
        count = _whole(waiting, rng.randint(0, len(waiting)))
        batches.add(deque(waiting.popleft() for _ in range(count)))
        few = rng.random() < 0.2
        batch = batches.take(100, rng.choice((3, 100)), few=few)
        assert len(batch) or few or not count
        for some, facts_write in batch.stretches():
            went += some if facts_write is None else [*some, facts_write]
        assert batch.size == sum(item.size for item in batch.writes)
    assert len(came) == len(went) and set(came) == set(went)
    order = {item: place for place, item in enumerate(went)}
    for number, item in enumerate(came):
        for later in came[number + 1 :]:
            if _must_follow(item, later):
                assert order[item] < order[later]


def _whole(waiting, count):
    """Return where a part of a queue can end that has so many: no group is divided."""
    while 0 < count < len(waiting) and getattr(waiting[count], "group", None) is not None:
        if waiting[count] is waiting[count].group.writes[0]:
            break
        count += 1
    return count


def _must_follow(item, later):
    if isinstance(later, FactsWrite):
        return True
    if isinstance(item, FactsWrite):
        return bool(later.changes)
    return item.caller is later.caller or item.event.topic == later.event.topic


async def test_versions_rise_with_numbers_also_where_writes_were_overtaken():
    """M2: a time is a place in the log."""
    room = Server(bounds=WriteBounds(batch=6 * (WRITE_BYTES + 1), few_bytes=1))
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
