"""Followers log the messages that durable readers at the sequencer want (K1, D27)."""

import asyncio
from types import SimpleNamespace

from rowcast.bus.durable_filters import DurableFilters
from rowcast.cluster.followed_filters import PART_BYTES, PATH, FilterReceiver, FilterSender
from rowcast.cluster.messages import ROWS_WANTED, unpack
from rowcast.core.tables import Logs, Table
from rowcast.core.topics import TopicFilter

TABLES = [Table("Ping", "Ping", logs=Logs.RETAINED), Table("Dog", "Dog")]


class Link:
    """A connection to a follower, which takes what it is told."""

    def __init__(self):
        self.filters, self.full, self.parts = DurableFilters(), False, 0
        self._receiver = FilterReceiver(self.filters)

    def tell(self, message):
        kind, (_, path, text, ends) = unpack(message)
        assert (kind, path, ends) == (ROWS_WANTED, PATH, False)
        self.parts += 1
        self._receiver.take(text)


class World:
    """A sequencer with durable readers, and two followers."""

    def __init__(self, tables=TABLES):
        self.durable, self.followers = DurableFilters(), [Link(), Link()]
        self.links = SimpleNamespace(links=dict.fromkeys(self.followers), on_greeted=None)
        self.sender = FilterSender(self.durable, self.links, tables, again_seconds=0.0)

    def known(self):
        return [sorted(follower.filters.texts()) for follower in self.followers]


async def turn():
    for _ in range(3):
        await asyncio.sleep(0)


async def test_each_change_is_told_once_a_turn():
    world, ping = World(), TopicFilter("Ping/+")
    world.durable.add(ping)
    world.durable.add(ping)
    world.durable.add(TopicFilter("#"))
    assert world.known() == [[], []]
    await turn()
    assert world.known() == [["#", "Ping/+"]] * 2
    assert [follower.parts for follower in world.followers] == [1, 1]
    world.durable.remove(ping)
    await turn()
    assert world.followers[0].filters.wanted("Ping/1")
    world.durable.remove(ping)
    world.durable.remove(TopicFilter("#"))
    await turn()
    assert world.known() == [[], []]


async def test_a_new_connection_is_told_all_in_place_of_what_it_knew():
    world = World()
    world.durable.add(TopicFilter("Ping/1"))
    world.followers[0]._receiver.take('{"filters": {"Ping/old": true}}')
    world.links.on_greeted(world.followers[0])
    assert world.known()[0] == ["Ping/1"]
    await turn()
    assert world.known() == [["Ping/1"]] * 2


async def test_what_is_at_tables_that_log_all_is_not_told():
    world = World()
    for text in ("Dog/+", "other/#", "Ping/+"):
        world.durable.add(TopicFilter(text))
    await turn()
    world.links.on_greeted(world.followers[1])
    assert world.known() == [["Ping/+"]] * 2
    assert World(TABLES[1:]).links.on_greeted is None


async def test_a_follower_that_takes_nothing_is_told_all_later():
    world = World()
    slow = world.followers[0]
    slow.full = True
    for number in range(5):
        world.durable.add(TopicFilter(f"Ping/{number}"))
        await turn()
    assert slow.parts == 0
    slow.full = False
    await turn()
    assert world.known()[0] == world.known()[1] == [f"Ping/{number}" for number in range(5)]


async def test_many_filters_are_told_in_parts():
    world, follower = World(), Link()
    texts = [f"Ping/{number}/{'x' * 50_000}" for number in range(12)]
    for text in texts:
        world.durable.add(TopicFilter(text))
    world.links.on_greeted(follower)
    assert sorted(follower.filters.texts()) == sorted(texts)
    assert follower.parts > sum(map(len, texts)) // (PART_BYTES + len(texts[0]))


async def test_a_table_at_the_root_concerns_every_filter():
    world = World([Table("Ping", "", logs=Logs.RETAINED)])
    world.durable.add(TopicFilter("a/b"))
    await turn()
    assert world.known() == [["a/b"]] * 2
