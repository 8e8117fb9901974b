"""Functions that are called by the clock: once each time, over restarts and kills (H32)."""

import asyncio

import pytest

from build import NOW, Code, Server, code_of, turns
from memory_store import MemoryStore
from rowcast import every, server
from rowcast.features.hooks.hooks import COLLECTING, Hooks
from rowcast.features.schedules.schedules import OWNER, Schedule, Schedules
from rowcast.store.store import Change
from serving import PATIENCE_SECONDS

MINUTE = 60
START = NOW // MINUTE * MINUTE + 10
"""Ten seconds after the minute."""


@pytest.fixture
def collected():
    hooks = Hooks()
    token = COLLECTING.set(hooks)
    yield hooks
    COLLECTING.reset(token)


class Clock:
    """A server with schedules; ``again`` is the next one, after this one was killed."""

    def __init__(self, hooks, store=None, now=START):
        self.hooks = hooks
        self.room = Server(hooks=hooks, store=store or MemoryStore("0badcafe"))
        self.room.time = now
        self.schedules = Schedules(self.room.kernel, hooks.collected(Schedule), self.room.now)
        self.schedules.restore(self.room.store.states(OWNER))
        self.room.idempotent_writes.restore(self.room.store.states("producer/"))

    def again(self, seconds=0.0):
        return Clock(self.hooks, self.room.store, self.room.time + seconds)

    async def at(self, seconds):
        """Look so many seconds after the minute in which it began."""
        self.room.time = START - 10 + seconds
        wait = self.schedules.look()
        await turns(20)
        return wait

    def said(self, topic):
        return [event.payload for event in self.room.store.read(0, 1000) if event.topic == topic]


async def test_it_is_called_once_each_time(collected):
    """H32: @every("1m"), by the clock; the first time is the next one."""
    calls = []

    @every("1m")
    def work():
        calls.append(1)

    clock = Clock(collected)
    counts = []
    for seconds in (10, 59, 60, 61, 119.9, 120, 300):
        wait = await clock.at(seconds)
        counts.append(len(calls))
        assert pytest.approx(MINUTE - seconds % MINUTE) == wait
    assert [0, 0, 1, 1, 1, 2, 3] == counts


async def test_a_restart_neither_doubles_nor_forgets(collected):
    """H32: what was done is a fact; what passed meanwhile is made up for once."""
    calls = []

    @every("1m")
    async def work():
        calls.append(1)

    clock = Clock(collected)
    await clock.at(10)
    await clock.at(60)
    clock = clock.again()
    await clock.at(61)
    assert 1 == len(calls)
    clock = clock.again()
    await clock.at(600)
    await clock.at(601)
    assert 2 == len(calls)


@pytest.mark.parametrize("number_only", [False, True])
async def test_a_longer_period_begins_where_the_shorter_one_was(collected, number_only):
    """H32: its numbers are smaller, and so is none of its times taken for done; it writes, too."""
    local = server.client("job")

    async def work():
        await local.publish("Note/1", {"n": 1}, retain=True)

    every("1m")(work)
    clock = Clock(collected)
    await clock.at(10)
    await clock.at(60)
    ((_, name, _),) = clock.room.store.states(OWNER)
    if number_only:  # as an earlier version stored it
        number = (int(START) // MINUTE + 1).to_bytes(8, "big")
        clock.room.kernel.committer.keep((Change(OWNER, name, number),))
        await turns(20)
    collected.collected(Schedule).clear()
    every("1h")(work)
    clock = clock.again()
    hour = 3600 - (START - 10) % 3600
    await clock.at(hour - 1)
    assert 1 == len(clock.said("Note/1"))
    for times in (1, 2):
        await clock.at(hour + (times - 1) * 3600)
        assert times + 1 == len(clock.said("Note/1"))


async def test_what_outlives_a_call_is_not_marked(collected):
    """H32: a later call has its own numbers, and the writes of an earlier one are not over."""
    local, going, left = server.client("job"), asyncio.Event(), []

    async def rest():
        await going.wait()
        await local.publish("Note/1", {"n": 1}, retain=True)

    @every("1m")
    async def work():
        await local.publish("Dog/1", {"name": "Rex"}, retain=True)
        if not left:
            left.append(asyncio.create_task(rest()))

    clock = Clock(collected)
    for seconds in (10, 60, 120):
        await clock.at(seconds)
    going.set()
    await turns(20)
    await left[0]
    assert 1 == len(clock.said("Note/1"))


async def test_a_call_that_was_cut_off_repeats_without_a_second_effect(collected):
    """H32, M8: its writes are marked; those that were made are not made again."""
    local, going = server.client("job"), asyncio.Event()

    @every("1m")
    async def work():
        await local.publish("Note/1", {"n": 1}, retain=True)
        await local.publish_batch("Note", {"2": {}, "3": {}}, retain=True)
        await going.wait()
        await local.publish("Dog/1", {"name": "Rex"}, retain=True)

    clock = Clock(collected)
    await clock.at(10)
    await clock.at(60)
    assert 1 == len(clock.said("Note/1")) == len(clock.said("Note/2"))
    (task,) = clock.schedules.running.values()
    task.cancel()
    await turns()
    clock, _ = clock.again(), going.set()
    await clock.at(62)
    for topic in ("Note/1", "Note/2", "Note/3", "Dog/1"):
        assert 1 == len(clock.said(topic)), topic
    clock = clock.again()
    await clock.at(63)
    await clock.at(120)
    assert [2, 2] == [len(clock.said(topic)) for topic in ("Note/1", "Dog/1")]


async def test_one_that_fails_or_takes_long_holds_nobody_back(collected, caplog):
    """H32: it is not called beside itself; others are."""
    calls, going = [], asyncio.Event()

    @every("1m")
    async def long():
        calls.append("long")
        await going.wait()

    @every(60)
    def wrong():
        calls.append("wrong")
        raise ValueError("a mistake")

    clock = Clock(collected)
    for seconds in (10, 60, 120):
        await clock.at(seconds)
    assert ["long", "wrong", "wrong"] == calls
    going.set()
    await turns()
    await clock.at(121)
    assert ["long", "wrong", "wrong", "long"] == calls
    assert "schedules.test_one" in caplog.text


@pytest.mark.parametrize("period", ["", "often", "0s", "500ms", 0.5])
async def test_what_is_no_period_is_refused(collected, period):
    """H32: with an example of one."""
    assert Code.INVALID is code_of(every, period)


async def test_a_name_is_given_once(collected):
    """H32: or one would take the other's times for done."""

    def work():
        """Do nothing."""

    every("1m")(work)
    assert Code.CONFLICT is code_of(every("2m"), work)


async def test_they_go_by_the_clock_themselves(collected):
    """H32: nobody must look; and they end with the server."""
    done = asyncio.Event()
    every(1)(done.set)
    room = Server(hooks=collected)
    schedules = Schedules(room.kernel, collected.collected(Schedule), room.now)
    schedules.restore([(OWNER, collected.collected(Schedule)[0].name, b"\0")])
    task = asyncio.create_task(schedules.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await done.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert not schedules.running
