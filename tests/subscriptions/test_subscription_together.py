"""Many filters that begin with current records, and how often the store is asked for them."""

import pytest

from rowcast.core.events import CURRENT, DELETE, MESSAGE, SNAPSHOT, Event
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from subscription_world import World

MANY = 300


class Counted:
    """How many trips to a reader thread there were, and how much each brought."""

    def __init__(self, world, monkeypatch):
        self.trips = 0
        run = world.reader._run

        async def counted(call, lane=None):
            self.trips += 1
            return await run(call, lane)

        monkeypatch.setattr(world.reader, "_run", counted)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def counted(world, monkeypatch):
    return Counted(world, monkeypatch)


@pytest.mark.parametrize("text", ["Dog/{}", "Dog/{}/+", "Dog/{}/#", "room/{}", "room/{}/+"])
async def test_many_filters_with_nothing_kept_are_one_trip_for_each_64(world, counted, text):
    for number in range(MANY):
        world.watch(text.format(number), number)
    await world.settle()
    world.check()
    assert all(heard.current == 0 for heard in world.heard.values())
    assert counted.trips <= MANY // world.reader.scans_together + 2  # the first begins by itself


async def test_each_of_many_filters_gets_its_records_in_the_order_of_the_filters(world, counted):
    for number in range(MANY):
        world.write(f"room/{number}/a", value=b"x")
    for number in range(MANY):
        world.watch(f"room/{number}/+", number)
    await world.settle()
    world.check()
    heard = [event.topic for event, _ in world.pairs if event.kind == SNAPSHOT]
    assert heard == [f"room/{number}/a" for number in range(MANY)]
    assert counted.trips <= MANY // world.reader.scans_together + 2


async def test_what_memory_knows_takes_no_trip(world, counted):
    for number in range(MANY):
        world.write(f"room/{number}", value=b"x")
        world.write(f"room/{number}", DELETE if number % 2 else "put")
    for number in range(MANY):
        world.watch(f"room/{number}", number)
    await world.settle()
    world.check()
    assert counted.trips == 0


async def test_what_is_written_while_many_are_read_follows_their_records(world):
    for number in range(9):
        world.write(f"room/{number}/a", value=b"old")
        world.watch(f"room/{number}/+", number)
    world.take()
    await world.turn()
    for number in range(9):
        world.commit(f"room/{number}/a", value=b"new")
    world.announce()
    await world.settle()
    world.check()
    for heard in world.heard.values():
        assert heard.current == heard.floor
    for number in range(9):
        order = [e.kind for e, i in world.pairs if number in i.identifiers]
        assert order.index(CURRENT) < order.index("put")


async def test_a_filter_that_ends_while_many_are_read_gets_nothing(world):
    for number in range(9):
        world.write(f"room/{number}/a")
        world.watch(f"room/{number}/+", number)
    world.take()
    await world.turn()
    while world.reader.asked:
        world.reader.ask()
    world.unwatch(4)
    await world.settle()
    world.check()
    assert [] == world.gone[4].snapshots
    assert all(len(heard.snapshots) == 1 for heard in world.heard.values())


async def test_many_filters_together_are_given_no_more_than_one_page(world, monkeypatch):
    world.reader.scan_records = 4
    for number in range(30):
        world.write(f"room/{number % 3}/{number}")
    for number in range(3):
        world.watch(f"room/{number}/+", number)
    pages = _pages(world, monkeypatch)
    await world.settle()
    world.check()
    assert max(map(len, pages)) == 4
    assert sum(map(len, pages)) == 30


@pytest.mark.parametrize("text", ["room/#", "Dog/#"])
async def test_a_page_of_current_records_is_bounded_in_bytes(world, monkeypatch, text):
    world.reader.scan_bytes = 1_000
    for number in range(9):
        world.write(text.replace("#", str(number)), value=b"x" * 600)
    pages = _pages(world, monkeypatch)
    world.watch(text, 1)
    await world.settle()
    world.check()
    assert [2, 2, 2, 2, 1] == [len(page) for page in pages]


async def test_a_record_above_the_bound_of_a_page_is_a_page_of_its_own(world, monkeypatch):
    world.reader.scan_bytes = 10
    for number in range(3):
        world.write(f"room/{number}", value=b"x" * 600)
    pages = _pages(world, monkeypatch)
    world.watch("room/#", 1)
    await world.settle()
    world.check()
    assert [1, 1, 1] == [len(page) for page in pages]


async def test_a_filter_that_a_hook_has_values_for_is_asked_about_by_itself(world):
    async def supply(topics):
        return [Event(topics.text, MESSAGE, b"kept elsewhere")] if topics.text == "room/1" else None

    world.reader.supply = supply
    world.write("room/0")
    for number in range(3):
        world.watch(f"room/{number}", number)
    await world.settle()
    heard = [(event.topic, event.payload) for event, _ in world.pairs if event.kind == SNAPSHOT]
    assert heard == [("room/0", b"{}"), ("room/1", b"kept elsewhere")]


def _pages(world, monkeypatch):
    """Return a list to which the records of each trip to the store are added."""
    pages = []
    scan_all = world.store.scan_all

    def seen(scans, limit, size):
        found = scan_all(scans, limit, size)
        pages.append([record for page in found for record in page.records])
        return found

    monkeypatch.setattr(world.store, "scan_all", seen)
    return pages


async def returned(world, position):
    """Return what a reader of dogs gets who comes back to a position."""
    reader, dogs = Subscription(world.reader), TopicFilter("Dog/#")
    world.bus.add(dogs, reader)
    reader.resume(position, [SubscribedFilter(dogs)])
    found = reader.take(100)
    while world.reader.asked or world.reader.answered or not reader.from_memory:
        await world.turn()
        if world.reader.asked:
            world.reader.ask()
            world.reader.answer()
            await world.turn()
        found += reader.take(100)
    assert reader.settled == world.announced
    return [event.topic for event, _ in found]


async def test_of_those_who_come_back_and_missed_nothing_one_reads(world, counted):
    """While others write to other tables; a crowd after a restart would read the same again."""
    world.write("Dog/1")
    away = world.announced
    world.write("Cat/1")
    assert [] == await returned(world, away)
    assert counted.trips == 1
    for name in ("Cat/2", "room/1", "Cat/3"):
        world.write(name)
        assert [] == await returned(world, away)
    assert counted.trips == 1
    assert ["Dog/1"] == await returned(world, 0)
    world.write("Dog/2")
    assert ["Dog/2"] == await returned(world, away)
    assert counted.trips == 3
