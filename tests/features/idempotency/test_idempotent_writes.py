"""Writers that number what they send: a repeat has no second effect (M8, H25, H41)."""

import random

import pytest

from build import ANN, BEN, Listener, Server, refusal
from memory_store import MemoryStore
from rowcast.core.callers import ALL, NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.gateway_limits import (
    PRODUCER_NUMBERS_FORGOTTEN,
    PRODUCER_NUMBERS_MAX,
    PRODUCERS_MAX,
)
from rowcast.core.write_marks import put_mark
from rowcast.features.idempotency.feature import Idempotency
from rowcast.features.idempotency.idempotent_writes import OWNER, ProducerBounds
from rowcast.store.sqlite import SqlStore


def marked(mark, topic="u/1", payload=b"x", kind=MESSAGE, low=None):
    event = Event(topic, kind, payload, qos=1, retain=kind == PUT)
    put_mark(event, mark, low)
    return event


async def write(room, mark, *facts, caller=ANN, **more):
    return await room.kernel.write(marked(mark, *facts, **more), caller)


@pytest.fixture(params=["memory", "sqlite"])
async def room(request, tmp_path):
    store = SqlStore(tmp_path / "rowcast.db") if request.param == "sqlite" else MemoryStore()
    yield Server(store=store)
    store.close()


@pytest.mark.parametrize(("topic", "kind"), [("u/1", MESSAGE), ("u/1", PUT), ("Dog/1", PUT)])
async def test_a_repeat_gets_the_same_receipt(room, topic, kind):
    """M8: one event, one announcement, equal positions."""
    heard = Listener(room)
    first = await write(room, "meter:1:7", topic, b"{}", kind)
    again = await write(room, "meter:1:7", topic, b"{}", kind)
    assert (False, True) == (first.repeat, again.repeat)
    assert 0 < first.event.seq == again.event.seq
    assert ([topic], 1) == (heard.topics, len(room.store.read(0, 10)))


async def test_a_repeat_waits_for_the_first(room):
    """M8: also while it is being written."""
    outcomes = []
    room.writer.held = True
    for _ in range(3):
        room.kernel.submit(marked("meter:1:7"), ANN, outcomes.append)
    assert [] == outcomes
    room.writer.release()
    await room.committer.settle()
    assert [False, True, True] == [outcome.repeat for outcome in outcomes]
    assert 1 == len({outcome.event.seq for outcome in outcomes})
    assert 1 == len(room.store.read(0, 10))


async def test_numbers_may_come_in_any_order(room):
    for number in (5, 3, 9, 4):
        assert not (await write(room, f"meter:1:{number}")).repeat
    assert (await write(room, "meter:1:3")).repeat


async def test_what_was_refused_may_be_sent_again(room):
    """A refusal is no effect."""
    bad = marked("meter:1:1", "Dog/1", b"[1]", PUT)
    assert Code.UNPROCESSABLE == await refusal(room.kernel.write(bad, ANN))
    good = await write(room, "meter:1:1", "Dog/1", b'{"name":"Rex"}', PUT)
    assert not good.repeat


async def test_an_older_epoch_is_fenced_off(room):
    """M8: with a clear code; the newer one begins its numbers anew."""
    await write(room, "meter:1:1")
    assert not (await write(room, "meter:2:1")).repeat
    assert Code.PRECONDITION == await refusal(write(room, "meter:1:2"))
    assert (await write(room, "meter:2:1")).repeat


async def test_a_restart_forgets_nothing(room):
    """M8: mark and event are one transaction."""
    first = await write(room, "meter:3:7")
    await write(room, "meter:3:9")
    after = Server(store=room.store)
    after.idempotent_writes.restore(room.store.states(OWNER))
    again = await write(after, "meter:3:7")
    assert (True, first.event.seq) == (again.repeat, again.event.seq)
    assert Code.PRECONDITION == await refusal(write(after, "meter:2:1"))


async def test_a_producer_is_its_user_s_own(room):
    """Nobody uses up, fences off or looks at the numbers of another."""
    await write(room, "meter:9:1")
    assert not (await write(room, "meter:1:1", caller=BEN)).repeat
    stranger = Caller("eve", NONE, "http")
    assert Code.DENIED == await refusal(write(room, "meter:9:1", caller=stranger))


async def test_below_low_all_is_forgotten(room):
    """What a producer says is done needs no memory; such a number is not written again."""
    for number in range(1, 6):
        await write(room, f"meter:1:{number}")
    await write(room, "meter:1:6", low="4")
    await room.committer.settle()
    kept = {name for _, name, _ in room.store.states(OWNER)} - {"1:forgotten"}
    assert {"1:4", "1:5", "1:6", "1:low"} == kept
    repeat = await write(room, "meter:1:3")
    assert (True, 0) == (repeat.repeat, repeat.event.seq)
    assert 6 == len(room.store.read(0, 10))
    assert (await write(room, "meter:1:4")).repeat


async def test_a_low_mark_that_moves_on_costs_what_it_forgets(room):
    """M8: and not a look at all numbers that are remembered, with each write."""
    looks = []

    class Done(dict):
        """Tells when all of it is looked at."""

        def __iter__(self):
            looks.append(len(self))
            return super().__iter__()

    for number in range(50, 0, -1):
        await write(room, f"meter:1:{number}")
    (producer,) = room.idempotent_writes._producers.values()
    producer.done = Done(producer.done)
    for number in range(51, 91):
        await write(room, f"meter:1:{number}", low=str(number - 50))
    assert (list(range(40, 91)), []) == (sorted(dict.fromkeys(producer.done.keys())), looks)
    assert (await write(room, "meter:1:40")).repeat


def bounded(numbers, forgotten):
    """Return a server that remembers so many numbers of a producer."""
    producers = ProducerBounds(numbers=numbers, forgotten=forgotten)
    return Server(features=[Idempotency(producers=producers)])


async def test_numbers_are_bounded():
    """The newest are remembered, the oldest refused, in bulk; over a restart too."""
    room = bounded(20, 5)
    for number in range(22):
        await write(room, f"meter:1:{number}")
    await room.committer.settle()
    kept = {f"1:{number}" for number in range(5, 22)} | {"1:forgotten"}
    assert kept == {name for _, name, _ in room.store.states(OWNER)} - {"1:low"}
    for seen in (room, Server(store=room.store)):
        seen.idempotent_writes.restore(room.store.states(OWNER))
        assert Code.GONE == await refusal(write(seen, "meter:1:4"))
        assert (await write(seen, "meter:1:5")).repeat
    assert PRODUCER_NUMBERS_FORGOTTEN < PRODUCER_NUMBERS_MAX


async def test_what_is_forgotten_is_not_looked_for_with_each_write(monkeypatch):
    """A producer that says no low mark pays for what it has written once in a while only."""
    sorts = []
    monkeypatch.setattr(
        "rowcast.features.idempotency.idempotent_writes.sorted",
        lambda known: sorts.append(1) or sorted(known),
        raising=False,
    )
    room = bounded(50, 10)
    for number in range(150):
        await write(room, f"meter:1:{number}")
    assert 10 >= len(sorts) > 0


async def test_a_newer_epoch_does_not_wait_for_the_older_one(room):
    """M8: the same number in another epoch is another write, also while both are on their way."""
    outcomes = []
    room.writer.held = True
    for mark in ("meter:1:7", "meter:2:7"):
        room.kernel.submit(marked(mark), ANN, outcomes.append)
    room.writer.release()
    await room.committer.settle()
    assert [False, False] == [outcome.repeat for outcome in outcomes]
    assert 2 == len(room.store.read(0, 10))
    after = Server(store=room.store)
    after.idempotent_writes.restore(room.store.states(OWNER))
    assert Code.PRECONDITION == await refusal(write(after, "meter:1:8"))
    assert (await write(after, "meter:2:7")).repeat


async def test_an_epoch_is_known_after_a_restart_though_it_wrote_nothing(room):
    """M8: who was fenced off stays so."""
    await write(room, "meter:1:1")
    assert Code.UNPROCESSABLE == await refusal(write(room, "meter:10:1", "Dog/1", b"[1]", PUT))
    await room.committer.settle()
    after = Server(store=room.store)
    after.idempotent_writes.restore(room.store.states(OWNER))
    assert Code.PRECONDITION == await refusal(write(after, "meter:9:1"))


async def test_names_with_slashes_do_not_meet(room):
    """The user a/b with c is not the user a with b/c."""
    one, other = Caller("a/b", ALL, "http"), Caller("a", ALL, "http")
    await write(room, "c:1:1", caller=one)
    assert not (await write(room, "b/c:1:1", caller=other)).repeat


async def test_a_delayed_write_is_not_numbered(room):
    """It would be taken for its own repeat when it is due."""
    delayed = write(room, "meter:1:1", "$delayed/60/u/1")
    assert Code.INVALID == await refusal(delayed)


async def test_producers_are_bounded():
    """Who has not written for the longest time is forgotten, on the disk too."""
    room = Server()
    await write(room, "first:1:1")
    for number in range(PRODUCERS_MAX):
        room.idempotent_writes._producer(f"{OWNER}ann/{number}")
    await room.committer.settle()
    assert [] == room.store.states(f"{OWNER}ann/first")
    assert not (await write(room, "first:1:1")).repeat


async def test_who_writes_as_many_producers_evicts_their_own():
    """M8: a user's names do not make the numbers of others forgotten; those with few find room."""
    room = Server(features=[Idempotency(producers=ProducerBounds(producers=10))])
    await write(room, "quiet:1:1", caller=BEN)
    for number in range(30):
        await write(room, f"name-{number}:1:1")
    assert (await write(room, "quiet:1:1", caller=BEN)).repeat
    for number in range(4):
        await write(room, f"more-{number}:1:1", caller=BEN)
    for number in range(4):
        assert (await write(room, f"more-{number}:1:1", caller=BEN)).repeat
    assert (await write(room, "name-29:1:1")).repeat
    await room.committer.settle()
    assert 10 == len({owner for owner, _, _ in room.store.states(OWNER)})


@pytest.mark.parametrize(
    "mark",
    ["", "meter", "meter:1", ":1:1", "meter:1:x", "meter:-1:1", "m:1:2:3:4", "m:1:" + "9" * 30],
)
async def test_what_is_no_mark_is_refused(mark):
    with pytest.raises(Error) as refused:
        marked(mark)
    assert Code.INVALID is refused.value.code


@pytest.mark.parametrize("seed", range(30))
async def test_chaos_has_each_effect_once(seed):
    """M8: repeats in any number and order, refusals of the disk, restarts: each effect once."""
    dice = random.Random(seed)
    store = MemoryStore()
    room = Server(store=store)
    open_numbers = set(range(1, 40))
    positions = {}
    while open_numbers:
        number = dice.choice(sorted(open_numbers | set(positions)))
        store.fault = failing if dice.random() < 0.2 else None
        outcomes = []
        for _ in range(dice.randint(1, 3)):
            room.kernel.submit(marked(f"m:1:{number}"), Caller("ann", ALL, "mqtt"), outcomes.append)
        await room.committer.settle()
        store.fault = None
        for outcome in outcomes:
            if isinstance(outcome, Error):
                assert number not in positions
            else:
                assert outcome.event.seq == positions.setdefault(number, outcome.event.seq)
                open_numbers.discard(number)
        if dice.random() < 0.1:
            room = Server(store=store)
            room.idempotent_writes.restore(store.states(OWNER))
    assert 39 == len(store.read(0, 100))
    assert 39 == len(set(positions.values()))


def failing(what):
    if what == "commit":
        raise Error(Code.BUSY, "the disk is full")
