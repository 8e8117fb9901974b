"""The newest value of a record, only so often, for those who ask and where declared (M4)."""

import pytest

from build import ANN, KEY, Server
from rowcast.core.errors import Code, Error
from rowcast.core.events import COMMIT, DELETE, MESSAGE, PUT
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.pacing import Pacing, asked_interval
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from subscription_world import World
from virtual import VirtualLoop


class Paced(World):
    """A world whose reader asks for one value of each record in a second."""

    def __init__(self, *filters, seconds=1.0, **options):
        super().__init__(queue_events=100)
        self.filters = [
            SubscribedFilter(TopicFilter(text), marks=False, conflate=seconds, **options)
            for text in filters
        ]
        for interest in self.filters:
            self.bus.add(interest.topics, self.subscription)
            self.subscription.add(interest, None, current=False)
        self.loop = VirtualLoop()
        if self.subscription.pacing is not None:
            paced = Pacing(self.subscription, self.subscription._catch_up, self.loop)
            self.subscription.pacing = paced

    def took(self, limit=100):
        """Return what comes now: topics with numbers, and gaps with range and count."""
        return [
            (it.why, it.after, it.last, it.count) if isinstance(it, Gap) else (it.topic, it.seq)
            for it, _ in self.subscription.take(limit)
        ]


CONFLATED = GapCause.CONFLATED


async def test_m4_the_first_value_comes_at_once_and_then_the_newest_so_often():
    """M4: the others are a gap with their range, at their place."""
    world = Paced("Dog/#")
    world.write("Dog/1")
    assert [("Dog/1", 1)] == world.took()
    for topic in ("Dog/1", "Dog/2", "Dog/1", "Dog/1"):
        world.write(topic)
    assert ([], False) == (world.took(), world.subscription.ready)
    world.loop.advance(0.9)
    assert ([], False) == (world.took(), world.subscription.ready)
    world.loop.advance(0.1)
    assert world.subscription.ready
    wanted = [(CONFLATED, 1, 2, 1), ("Dog/2", 3), (CONFLATED, 3, 4, 1), ("Dog/1", 5)]
    assert wanted == world.took()
    world.write("Dog/2")
    assert [] == world.took()
    world.loop.advance(1)
    assert [("Dog/2", 6)] == world.took()
    assert 6 == world.subscription.settled
    assert {CONFLATED: 2} == world.subscription.losses.counts


async def test_m4_a_deletion_is_the_newest_value_and_a_message_is_none():
    world = Paced("Dog/#")
    world.write("Dog/1")
    world.took()
    world.write("Dog/1")
    world.write("Dog/1", MESSAGE)
    world.write("Dog/1", DELETE)
    assert [] == world.took()
    world.loop.advance(1)
    assert [(CONFLATED, 1, 2, 1), ("Dog/1", 3), ("Dog/1", 4)] == world.took()


async def test_a_reader_that_is_cut_off_meanwhile_loses_nothing():
    """M4: the position is that of the last event that it was handed."""
    world = Paced("Dog/#")
    world.write("Dog/1")
    world.took()
    world.write("Dog/1")
    world.write("Dog/2")
    assert [] == world.took()
    assert 1 == world.subscription.suspend()[0]


async def test_what_is_not_conflated_waits_only_behind_what_waits():
    world = Paced("Dog/#")
    plain = SubscribedFilter(TopicFilter("Cat/#"), marks=False, conflate=0.0)
    world.bus.add(plain.topics, world.subscription)
    world.subscription.add(plain, None, current=False)
    world.write("Dog/1")
    world.took()
    world.write("Cat/1")
    world.write("Cat/1")
    assert [("Cat/1", 2), ("Cat/1", 3)] == world.took()
    for topic in ("Dog/1", "Cat/1", "Cat/1"):
        world.write(topic)
    assert [] == world.took()
    world.loop.advance(1)
    assert [("Dog/1", 4), ("Cat/1", 5), ("Cat/1", 6)] == world.took()


async def test_a_filter_that_asks_for_each_value_gets_it_whatever_another_asks_for():
    world = Paced("Dog/#")
    every = SubscribedFilter(TopicFilter("Dog/1"), marks=False)
    world.bus.add(every.topics, world.subscription)
    world.subscription.add(every, None, current=False)
    for topic in ("Dog/1", "Dog/1", "Dog/2"):
        world.write(topic)
    assert [("Dog/1", 1), ("Dog/1", 2), ("Dog/2", 3)] == world.took()


async def test_a_small_window_takes_the_same_in_several_parts():
    world = Paced("Dog/#")
    world.write("Dog/1")
    world.took()
    for topic in ("Dog/1", "Dog/1", "Dog/2"):
        world.write(topic)
    world.took()
    world.loop.advance(1)
    parts = [world.took(1) for _ in range(3)]
    assert [[(CONFLATED, 1, 2, 1)], [("Dog/1", 3)], [("Dog/2", 4)]] == parts


async def test_a_full_queue_goes_on_with_the_log():
    world = Paced("Dog/#")
    world.subscription.queue.limit(2, 0)
    world.write("Dog/1")
    world.took()
    for _ in range(5):
        world.write("Dog/1")
    assert [] == world.took()
    world.loop.advance(1)
    world.pairs.clear()
    await world.settle()
    assert 6 == [event.seq for event, _ in world.pairs if event.topic][-1]
    assert 6 == world.subscription.settled


async def test_c23_a_mark_comes_after_the_newest_values():
    """C23, M4: what is handed over together is as of one position."""
    world = Paced("Dog/#", commits=True)
    await world.settle()
    world.write("Dog/1")
    assert [COMMIT] == [it.kind for it, _ in world.subscription.take(9) if not it.topic]
    for topic in ("Dog/1", "Dog/2", "Dog/1"):
        world.write(topic)
    assert [] == world.took()
    world.loop.advance(1)
    wanted = [(CONFLATED, 1, 2, 1), ("Dog/2", 3), ("Dog/1", 4), ("", 4)]
    assert wanted == world.took()


@pytest.mark.parametrize(("asked", "seconds"), [(0.0, 0.5), (0.1, 0.5), (2.0, 2.0), (None, 0.0)])
async def test_m4_a_client_may_ask_for_less_often_and_not_for_more(asked, seconds):
    """M4: the longer of what the table declares and what the client asks for."""
    table = Table("Last", "Last", (KEY,), delivers_latest=True, conflate_seconds=0.5)
    room = Server((table,))
    reader = Subscription(room.reader)
    interest = SubscribedFilter(TopicFilter("Last/#"), marks=False, conflate=asked)
    room.kernel.watch(reader, interest, ANN, current=False)
    await room.put("Last/a")
    (event, _) = reader.take(9)[0]
    assert PUT == event.kind
    found = reader.pacing.interval(event) if reader.pacing is not None else 0.0
    assert (seconds, event.seq) == (found, reader.position)


async def test_nobody_waits_who_asks_for_nothing_where_nothing_is_declared():
    world = Paced("Dog/#", seconds=0.0)
    assert world.subscription.pacing is None
    world.write("Dog/1")
    world.write("Dog/1")
    assert [("Dog/1", 1), ("Dog/1", 2)] == world.took()


def test_an_interval_is_a_duration():
    assert (0.0, 0.5, 2.0) == (asked_interval(None), asked_interval("500ms"), asked_interval("2"))
    for wrong in ("often", "2m", 3, "", "-1s"):
        with pytest.raises(Error, match="conflate is a duration") as found:
            asked_interval(wrong)
        assert Code.INVALID is found.value.code
