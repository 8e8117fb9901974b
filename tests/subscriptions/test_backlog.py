"""A bounded live cursor under any interleaving: each event once, in order, or counted (D25)."""

import asyncio
import random

import pytest

from rowcast.core.events import CURRENT, GAP, MESSAGE, PUT, RESET, SNAPSHOT
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.backlog import Backlog, BacklogLimit, Loss, Overflow
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.skipped_ranges import SkippedRange
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from subscription_world import SMALL, World

SEEDS = range(40)


class Absent:
    """A reader that comes and goes; what it got, was told and was counted against it."""

    def __init__(self, world, bound):
        self.world, self.bound = world, bound
        self.subscription = None
        self.position, self.interests, self.holes = 0, [SubscribedFilter(TopicFilter("Dog/#"))], ()
        self.got, self.gaps, self.dropped, self.expired = [], [], 0, 0
        self.owed, self.in_holes, self.told_expired = [], 0, 0

    def come(self):
        """Go on, as the kernel lets a subscription go on."""
        reader = self.world.reader
        waits = Backlog(self.bound, reader.announced(), self.lose, self.holes)
        self.subscription = Subscription(reader, "", backlog=waits)
        for interest in self.interests:
            self.world.bus.add(interest.topics, self.subscription)
        self.subscription.queue_gaps(self.owed)
        self.subscription.resume(self.position, self.interests)

    def lose(self, loss):
        self.dropped += loss.dropped
        self.expired += loss.expired
        self.in_holes += loss.expired

    def go(self):
        """Suspend it, as the kernel does."""
        for interest in self.interests:
            self.world.bus.remove(interest.topics, self.subscription)
        self.owed = self.subscription.unreported_gaps()
        self.holes = self.subscription.skipped
        self.position, self.interests = self.subscription.suspend()
        self.subscription = None

    def take(self, limit):
        for event, _ in self.subscription.take(limit):
            if event.kind == GAP and event.why is GapCause.EXPIRED:
                self.told_expired += event.count
            elif event.kind == GAP:
                self.gaps.append(event.count)
            else:
                self.got.append(event)


async def step(world, reader, chance):
    """Do one thing at random."""
    what = chance.choice("wwwwaakkktttccg")
    if what == "w":
        topic, expires_at = chance.choice(["Dog/1", "Dog/2", "Cat/1"]), chance.choice("0001")
        world.commit(topic, MESSAGE, expires_at=float(expires_at))
    elif what == "a" and world.unannounced:
        world.announce()
    elif what == "k" and (world.reader.asked or world.reader.answered):
        (world.reader.ask if world.reader.asked else world.reader.answer)()
    elif what == "t" and reader.subscription is not None:
        reader.take(chance.choice([1, 2, 100]))
    elif what == "c" and reader.subscription is None:
        reader.come()
    elif what == "g" and reader.subscription is not None and chance.random() < 0.5:
        reader.go()
    await asyncio.sleep(0)


async def finish(world, reader):
    """Let the reader come to the end of the log."""
    while world.unannounced:
        world.announce()
    if reader.subscription is None:
        reader.come()
    for _ in range(2000):
        reader.take(100)
        while world.reader.asked:
            world.reader.ask()
        while world.reader.answered:
            world.reader.answer()
        await asyncio.sleep(0)
    reader.go()


@pytest.mark.parametrize("policy", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_event_comes_once_in_order_or_is_counted(policy, seed):
    chance, world = random.Random(seed), World(**SMALL)
    reader = Absent(world, BacklogLimit(chance.choice([1, 2, 3, 7]), policy, lambda: 2.0))
    for _ in range(chance.choice([50, 150, 400])):
        await step(world, reader, chance)
    await finish(world, reader)
    wanted = [event.seq for event in world.logged if event.topic.startswith("Dog/")]
    got = [event.seq for event in reader.got]
    assert sorted(set(got)) == got
    assert set(got) <= set(wanted)
    assert len(wanted) == len(got) + reader.dropped + reader.expired
    assert reader.dropped == sum(reader.gaps)
    assert reader.in_holes == reader.told_expired


async def test_a_bound_of_nothing_counts_nothing():
    """Without a bound it is any subscription, but it passes over what it was to."""
    world = World(**SMALL)
    reader = Absent(world, BacklogLimit(0, Overflow.DROP_OLDEST, lambda: 2.0))
    for _ in range(9):
        world.write("Dog/1", MESSAGE)
    reader.holes = (SkippedRange(2, 4, 2), SkippedRange(6, 7, 1))
    await finish(world, reader)
    assert ([1, 2, 5, 6, 8, 9], [2, 1]) == ([event.seq for event in reader.got], reader.gaps)


async def test_its_owner_may_end_it():
    """D25, disconnect: nothing is dropped and nothing comes."""
    world, told = World(**SMALL), []
    reader = Absent(world, BacklogLimit(2, Overflow.DISCONNECT, lambda: 2.0))
    reader.interests = [SubscribedFilter(TopicFilter("Dog/1"))]
    for _ in range(5):
        world.write("Dog/1", MESSAGE)
        world.write("Dog/2", MESSAGE)

    def lose(loss):
        told.append(loss)
        reader.subscription.close()

    reader.lose = lose
    reader.come()
    for _ in range(50):
        reader.take(9)
        while world.reader.asked:
            world.reader.ask()
        while world.reader.answered:
            world.reader.answer()
        await asyncio.sleep(0)
    assert ([Loss(3, 0)], [], ()) == (told, reader.got, reader.subscription.skipped)


async def test_what_was_trimmed_is_told_with_a_reset_instead():
    """D25, C11: nobody knows how many there were."""
    world = World(**SMALL)
    reader = Absent(world, BacklogLimit(2, Overflow.DROP_OLDEST, lambda: 2.0))
    for _ in range(9):
        world.write("Dog/1", MESSAGE)
    world.trim(5)
    await finish(world, reader)
    assert ([RESET, CURRENT], 0) == ([event.kind for event in reader.got], reader.dropped)


async def test_records_that_are_owed_come_after_the_hole():
    """D25: as they are beyond it, so that none is missing that was written within it."""
    world = World(**SMALL)
    reader = Absent(world, BacklogLimit(2, Overflow.DROP_OLDEST, lambda: 2.0))
    reader.interests[0].current = ""
    for number in range(8):
        world.write(f"Dog/{number}")
    await finish(world, reader)
    kinds = [event.kind for event in reader.got]
    assert ([SNAPSHOT] * 6 + [CURRENT] + [PUT] * 2, [6]) == (kinds, reader.gaps)


async def test_it_counts_anew_for_who_joins_meanwhile():
    """D25: another filter's events are among what waits, if it begins as early."""
    world = World(**SMALL)
    reader = Absent(world, BacklogLimit(3, Overflow.DROP_OLDEST, lambda: 2.0))
    for _ in range(5):
        world.write("Dog/1", MESSAGE)
    reader.come()
    reader.take(9)
    world.write("Cat/1", MESSAGE)
    await asyncio.sleep(0)
    interest = SubscribedFilter(TopicFilter("Cat/#"))
    world.bus.add(interest.topics, reader.subscription)
    reader.subscription.add(interest, 0, current=False)
    reader.interests.append(interest)
    await finish(world, reader)
    assert (["Dog/1"] * 3 + ["Cat/1"], [2]) == ([event.topic for event in reader.got], reader.gaps)
