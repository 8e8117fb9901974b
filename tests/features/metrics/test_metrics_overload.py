"""What is shed when memory is short, and in which order (K9)."""

import asyncio
import json

import pytest

from build import Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, MESSAGE, PUT, Event
from rowcast.core.overload_limits import (
    OVERLOAD_BACK_PERCENT,
    OVERLOAD_QUEUE_EVENTS,
    OVERLOAD_UNFINISHED_BYTES,
)
from rowcast.core.shedding import Shed
from rowcast.core.topics import TopicFilter
from rowcast.features.overload.overload import Overload, Queues, Watermarks
from rowcast.net.process_memory import memory_limit
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

ANN = Caller("ann", ALL, "mqtt", "c")


class Memory:
    """As much as a test says."""

    current = 0

    def measure(self):
        pass


class World:
    def __init__(self, marks=None):
        self.room = Server()
        self.subscriptions = []
        self.memory, self.told, self.trims = Memory(), [], []
        reader = self.room.kernel.reader
        queues = Queues(reader, lambda: self.subscriptions)
        self.shedding = reader.shedding
        self.overload = Overload(
            marks or Watermarks(1_000, 70, 80, 90),
            queues,
            reader,
            lambda level, facts: self.told.append((level, facts)),
            self.memory,
            trim=lambda: self.trims.append(len(self.room.cache)),
        )

    def at(self, percent):
        self.memory.current = percent * 10
        self.overload.look()
        return self.shedding.level

    def watch(self, text):
        subscription = Subscription(self.room.kernel.reader)
        self.room.kernel.watch(
            subscription, SubscribedFilter(TopicFilter(text)), ANN, current=False
        )
        self.subscriptions.append(subscription)
        return subscription

    def say(self, count, topic="home/a"):
        for number in range(count):
            self.room.kernel.submit(Event(topic, MESSAGE, b"%d" % number, None, 0), ANN)

    async def rest(self, subscription):
        """Return what the reader gets from now on."""
        found = []
        while not found or subscription.ready:
            found += [event for event, _ in subscription.take(1_000)]
            await asyncio.sleep(0)
        return [event for event in found if event.kind != CURRENT]


def refused(check):
    with pytest.raises(Error) as caught:
        check()
    return caught.value.code is Code.BUSY and caught.value.detail["retry_after_seconds"] > 0


async def test_the_order_in_which_it_sheds():
    """K9: messages, then connects, then subscribes; each told once, and taken back in turn."""
    world = World()
    assert Shed.NOTHING == world.at(69)
    world.shedding.check_connect()
    assert Shed.MESSAGES == world.at(70)
    world.shedding.check_connect()
    assert Shed.CONNECTS == world.at(80)
    assert refused(world.shedding.check_connect)
    world.shedding.check_subscribe()
    assert Shed.SUBSCRIBES == world.at(95)
    assert refused(world.shedding.check_subscribe)
    assert Shed.SUBSCRIBES == world.at(90 - OVERLOAD_BACK_PERCENT)  # it does not flutter
    assert Shed.CONNECTS == world.at(90 - OVERLOAD_BACK_PERCENT - 1)
    assert Shed.NOTHING == world.at(10)
    levels = [level for level, _ in world.told]
    assert [Shed.MESSAGES, Shed.CONNECTS, Shed.SUBSCRIBES, Shed.CONNECTS, Shed.NOTHING] == levels
    assert json.dumps(world.overload.facts())
    assert (1, 1) == (world.shedding.refused_connects, world.shedding.refused_subscribes)


async def test_what_is_off_sheds_nothing():
    world = World(Watermarks(1_000, 0, 0, 0))
    assert Shed.NOTHING == world.at(100)
    assert 0 < memory_limit()


async def test_a_slow_reader_of_unlogged_messages_is_told_what_it_missed():
    """K9: what waited and what comes: no more than a few wait, and the count is exact."""
    world = World()
    slow = world.watch("home/#")
    world.say(1_000)
    world.at(75)
    assert OVERLOAD_QUEUE_EVENTS >= len(slow.queue.events) - 1
    world.say(500)
    came = await world.rest(slow)
    missed = sum(event.count for event in came if isinstance(event, Gap))
    messages = [event for event in came if not isinstance(event, Gap)]
    assert 1_500 == len(messages) + missed
    assert missed == slow.losses.counts[GapCause.SLOW]
    assert len(messages) <= OVERLOAD_QUEUE_EVENTS
    world.at(10)
    world.say(500)
    assert 500 == len(await world.rest(slow))


async def test_what_is_logged_is_never_shed():
    """K9: a slow reader of records gets every one, in order, from the log."""
    world = World()
    slow = world.watch("Dog/#")
    kernel = world.room.kernel
    for number in range(500):
        kernel.submit(Event("Dog/1", PUT, b'{"age":%d}' % number, None, 1, True), ANN)
    await world.room.committer.settle()
    world.at(75)
    for number in range(500, 1_000):
        kernel.submit(Event("Dog/1", PUT, b'{"age":%d}' % number, None, 1, True), ANN)
    await world.room.committer.settle()
    came = []
    while len(came) < 1_000:
        came += [event.seq for event in await world.rest(slow)]
    assert sorted(set(came)) == came
    assert 1_000 == len(came)
    assert 0 == slow.losses.total


async def test_those_that_begin_meanwhile_have_short_queues_too():
    world = World()
    world.at(75)
    late = world.watch("home/#")
    world.say(1_000)
    assert OVERLOAD_QUEUE_EVENTS + 1 >= len(late.queue.events)


async def test_k9_what_is_not_all_there_is_bounded_with_new_connections():
    """L11: then, and only then, and only much of it."""
    world = World()
    relieved = []
    world.overload.relieve = lambda: relieved.append(world.shedding.level)
    much = OVERLOAD_UNFINISHED_BYTES + 1
    for percent in (50, 75):
        world.at(percent)
        world.shedding.check_unfinished(much)
    for percent in (85, 85, 95):
        world.at(percent)
        world.shedding.check_unfinished(OVERLOAD_UNFINISHED_BYTES)
        with pytest.raises(Error, match="nothing as large") as caught:
            world.shedding.check_unfinished(much)
        assert Code.BUSY is caught.value.code
    assert [Shed.CONNECTS] == relieved  # at each look at the same level
    assert 3 == world.overload.facts()["refused_unfinished"]


async def test_what_need_not_be_in_memory_is_given_back_while_it_is_short():
    """P2: the caches first, then the system gets what the allocator keeps; so the level falls."""
    world = World()
    await world.room.put("u/1")
    assert 1 == len(world.room.cache)
    world.at(60)
    assert (1, []) == (len(world.room.cache), world.trims)
    for _ in range(2):  # at each look, for as long as it is short
        world.at(75)
    await asyncio.get_running_loop().shutdown_default_executor()
    assert (0, [0, 0]) == (len(world.room.cache), world.trims)
    assert Shed.NOTHING == world.at(60)
