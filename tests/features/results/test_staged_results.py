"""Large results: staged while others write, and seen by everybody from one position on."""

import asyncio

import pytest
from test_bulk_commit import World, dogs

from build import Server
from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import STAGED_PAGE_BYTES
from rowcast.core.topics import TopicFilter
from rowcast.core.transaction_parts import span_of
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

MANY = {f"d{number:04}": "new" for number in range(2_500)}
"""More than two pages."""


class Staged(World):
    """A kernel on tables of SQL, where every result of more than one change is staged."""

    def __init__(self, path, **bounds):
        self.store = SqlStore(path / "rowcast.db")
        super().__init__(Server(store=self.store), **{"staged_min": 1, **bounds})

    def records(self):
        """What each record of the table says, without those of one page more."""
        table = self.room.registry.shapes["Dog"].table
        page = self.room.store.scan(table, TopicFilter("Dog/#"), "", 10_000)
        return {record.topic: record.decoded["name"] for record in page.records}

    def log(self):
        return self.room.store.read(0, 10_000, [self.room.registry.shapes["Dog"].table])


async def read(subscription, count):
    """Take so many events of a subscription."""
    got = []
    while len(got) < count:
        got += [event for event, _ in await subscription.batch(100) if event.topic]
    return got


def subscribed(world, topics, since=None):
    subscription = Subscription(world.room.reader)
    interest = SubscribedFilter(TopicFilter(topics), 1)
    world.room.bus.add(interest.topics, subscription)
    subscription.add(interest, since, current=False)
    return subscription


@pytest.mark.heavy
async def test_m5_a_staged_result_is_seen_at_one_position_by_every_reader(tmp_path):
    world = Staged(tmp_path)
    await world.room.put("Dog/d0000", b'{"name": "old"}')
    before = world.room.committer.announced
    live, one, other = (subscribed(world, text) for text in ("Dog/#", "Dog/d0007", "Dog/none"))
    receipt = await world.write(dogs(**MANY))
    assert (receipt.rows, receipt.written, receipt.unchanged) == (2_500, 2_500, 0)
    assert world.records() == {f"Dog/{key}": "new" for key in MANY}
    got = await read(live, 2_500)
    assert [event.topic for event in got] == [f"Dog/{key}" for key in MANY]
    numbers = [event.seq for event in got]
    assert numbers == list(range(numbers[0], numbers[0] + 2_500))
    assert numbers == [event.seq for event in world.log()[1:]]
    assert receipt.position == world.room.kernel.cursor(numbers[-1])
    assert {span_of(event) for event in got} == {(numbers[0], numbers[-1])}
    assert [event.topic for event in await read(one, 1)] == ["Dog/d0007"]
    assert not other.progress.behind
    resumed = subscribed(world, "Dog/#", since=numbers[1_234])  # a cursor in the middle of it
    assert [event.seq for event in await read(resumed, 1_265)] == numbers[1_235:]
    old = subscribed(world, "Dog/#", since=before)
    assert [event.seq for event in await read(old, 2_500)] == numbers
    world.store.close()


@pytest.mark.heavy
async def test_others_write_and_read_while_a_result_is_staged(tmp_path):
    world = Staged(tmp_path)
    result, seen = asyncio.ensure_future(world.write(dogs(**MANY))), []
    while not result.done():
        await world.room.put("Dog/mine", b'{"name": "mine"}')
        await world.room.put("Dog/d0001", b'{"name": "by hand"}')
        records, log = world.records(), [event.topic for event in world.log()]
        seen.append((len(records), len(log) - log.count("Dog/mine")))
    assert len(seen) > 3
    assert {count for count, _ in seen} <= {2, 2_501}  # nothing of it, or all
    assert [events for _, events in seen[:3]] == [1, 2, 3]
    others = world.records()
    others.pop("Dog/d0001")  # written again after the switch, before the result was told of it
    assert others == {"Dog/mine": "mine"} | {f"Dog/{k}": "new" for k in MANY if k != "d0001"}
    await world.room.put("Dog/d0002", b'{"name": "later"}')
    assert world.records()["Dog/d0002"] == "later"
    assert world.log()[-1].seq == world.room.committer.announced
    world.store.close()


@pytest.mark.heavy
async def test_a_result_that_fails_in_the_middle_leaves_nothing(tmp_path):
    world = Staged(tmp_path)
    await world.room.put("Dog/d0000", b'{"name": "old"}')
    store, stage, pages = world.room.store, world.room.store.stage, []

    def failing(*arguments, **more):
        if pages:
            raise Error(Code.BUSY, "the disk is full")
        pages.append(1)
        return stage(*arguments, **more)

    store.stage = failing
    with pytest.raises(Error, match="the disk is full"):
        await world.write(dogs(**MANY))
    store.stage = stage
    assert world.records() == {"Dog/d0000": "old"}
    assert len(world.log()) == 1
    receipt = await world.write(dogs(**MANY))
    assert receipt.written == 2_500
    assert world.records() == {f"Dog/{key}": "new" for key in MANY}
    world.store.close()


@pytest.mark.heavy
@pytest.mark.parametrize("fails", [False, True])
async def test_m5_who_leaves_during_the_switch_does_not_undo_it(tmp_path, fails):
    """All of it is seen, or nothing, and numbers go on after it."""
    world = Staged(tmp_path)
    store, switch, loop = world.room.store, world.room.store.switch, asyncio.get_running_loop()

    def switching(*arguments):
        loop.call_soon_threadsafe(writing.cancel)
        if fails:
            raise Error(Code.BUSY, "the disk is full")
        return switch(*arguments)

    store.switch = switching
    writing = loop.create_task(world.write(dogs(**MANY)))
    with pytest.raises(asyncio.CancelledError):
        await writing
    await world.room.put("Dog/later", b'{"name": "later"}')
    expected = {} if fails else {f"Dog/{key}": "new" for key in MANY}
    assert world.records() == expected | {"Dog/later": "later"}
    assert world.log()[-1].topic == "Dog/later"
    store.switch = switch
    assert (await world.write(dogs(again="new"), cut="0badcafe:2")).written == 1
    world.store.close()


@pytest.mark.heavy
async def test_m5_a_staged_result_that_replaces_removes_what_it_lacks(tmp_path):
    world = Staged(tmp_path)
    await world.room.put("Dog/mine", b'{"name": "Tom"}')
    await world.write(dogs(**MANY), cut="0badcafe:1", replace=True)
    await world.room.put("Dog/d0005", b'{"name": "by hand"}')
    kept = dict(list(MANY.items())[:10])
    receipt = await world.write(dogs(**kept), cut="0badcafe:2", replace=True)
    assert (receipt.removed, receipt.written, receipt.unchanged) == (2_490, 1, 9)
    assert world.records() == {"Dog/mine": "Tom"} | {f"Dog/{key}": "new" for key in kept}
    again = await world.write(dogs(**kept), cut="0badcafe:2", replace=True)
    assert again.repeat
    world.store.close()


async def test_a_page_has_fewer_rows_where_they_are_large(tmp_path):
    """The log of several machines takes no batch of a thousand of them."""
    world = Staged(tmp_path)
    stage, sizes = world.room.store.stage, []

    def staging(table, after, page, **more):
        sizes.append(sum(len(event.payload) for event in page[0]))
        return stage(table, after, page, **more)

    world.room.store.stage = staging
    large = {f"d{number}": "x" * 400_000 for number in range(8)}
    assert (await world.write(dogs(**large))).written == 8
    assert len(sizes) == 3
    assert max(sizes) < STAGED_PAGE_BYTES + 500_000
    assert world.records() == {f"Dog/{key}": value for key, value in large.items()}
    world.store.close()


@pytest.mark.heavy
async def test_one_large_result_at_a_time(tmp_path):
    world = Staged(tmp_path)
    store, stage, refused = world.room.store, world.room.store.stage, []

    def staging(*arguments, **more):
        with pytest.raises(Error, match="another large result") as error:
            world.room.committer.begin_staged(1)
        refused.append(error.value.code)
        return stage(*arguments, **more)

    store.stage = staging
    assert (await world.write(dogs(**MANY))).written == 2_500
    assert set(refused) == {Code.BUSY}
    world.store.close()


@pytest.mark.heavy
async def test_a_result_that_the_tables_do_not_take_is_refused(tmp_path):
    world = Staged(tmp_path)
    world.store.stage = object()  # as a bug would: it fails on whatever it is given
    with pytest.raises(Error, match="the result could not be applied to the tables"):
        await world.write(dogs(**MANY))
    del world.store.stage
    assert world.records() == {}
    assert world.log() == []
    assert (await world.write(dogs(**MANY))).written == 2_500
    world.store.close()


@pytest.mark.slow
async def test_a_result_on_a_full_disk_is_refused_at_once_with_the_reason(tmp_path):
    """Not after the time that a page has."""
    world, why = Staged(tmp_path), "the disk of the database is full"

    def stage(*_, **__):
        raise Error(Code.BUSY, why)

    world.store.stage = stage
    with pytest.raises(Error, match=why) as refused:
        await world.write(dogs(**MANY))
    assert Code.BUSY is refused.value.code
    world.store.close()


@pytest.mark.heavy
async def test_what_is_left_of_a_refused_result_is_removed_once_the_log_takes_it(tmp_path):
    """A full disk refuses the removal, too; it is tried again, and does not wait for a restart."""
    world, why, done = Staged(tmp_path), "the disk is full", asyncio.Event()
    committer, store = world.room.committer, world.room.committer._store
    stage, abandon, refused = store.stage, store.abandon, {"pages": 0, "removals": 0}
    loop, committer.give_back_seconds = asyncio.get_running_loop(), 0

    def second_refused(*told, **more):
        refused["pages"] += 1
        if refused["pages"] > 1:
            raise Error(Code.BUSY, why)
        return stage(*told, **more)

    def twice_refused():
        refused["removals"] += 1
        if refused["removals"] < 3:
            raise Error(Code.BUSY, why)
        abandon()
        loop.call_soon_threadsafe(done.set)

    store.stage, store.abandon = second_refused, twice_refused
    with pytest.raises(Error, match=why):
        await world.write(dogs(**MANY))
    await asyncio.wait_for(done.wait(), 60)
    assert {"pages": 2, "removals": 3} == refused
    while world.store.move_staged(1_000):
        """Nothing else has to be done."""
    assert not world.store.staging.tables
    world.store.close()
