"""Readers while events are archived, trimmed and merged under them: no gap and no repeat (M2)."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from archiving_server import FILTERS, Archiving, define, happen, ranges, written

from amounts import amount
from build import ANN
from rowcast.core.topics import TopicFilter
from rowcast.features.archive.archive_index import ArchiveIndex
from rowcast.features.archive.disk_place import DiskPlace
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription
from rowcast_lake.archive.log_files import ParquetFiles
from serving import PATIENCE_SECONDS
from virtual import turns


async def follow(room, text, since, until, chance):
    """Return the numbers that a subscriber after a position gets, up to another."""
    subscription = Subscription(room.reader, f"reader-{since}-{text}")
    topics = TopicFilter(text)
    room.kernel.watch(subscription, SubscribedFilter(topics), ANN, since, current=False)
    found = []
    while subscription.position < until() or subscription.waiting:
        for event, _ in await subscription.batch(chance.choice([1, 2, 50])):
            assert event.kind not in {"reset", "gap"}, event
            if event.seq:
                found.append((event.seq, event.kind, event.topic))
    subscription.close()
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
async def test_m2_a_subscriber_gets_each_event_once_while_they_are_moved(seed, tmp_path):
    """M2, C11: from any cursor, on any filter, with a small queue and small pages."""
    chance = random.Random(seed)
    world = Archiving(tmp_path, keep=3)
    room = world.room
    define(room)
    room.reader.log_page_events, room.reader.queue_events = 3, 3
    done = asyncio.Event()

    async def live():
        for _ in range(60):
            await happen(chance, (room,))
            if chance.random() < 0.3:
                await world.sweep()
            await turns(chance.choice([0, 1, 5]))
        done.set()

    for _ in range(80):
        await happen(chance, (room,))
    await world.sweep()
    start = room.store.head()
    writer = asyncio.create_task(live())
    asked = [(chance.choice(FILTERS), chance.randrange(start)) for _ in range(6)]
    readers = [
        asyncio.create_task(follow(room, text, since, lambda: start + 40, chance))
        for text, since in asked
    ]
    answers = await asyncio.gather(*readers)
    await writer
    events = room.store.read(0, 10_000)
    assert [*range(1, room.store.head() + 1)] == [event.seq for event in events]
    for (text, since), found in zip(asked, answers, strict=True):
        matches = TopicFilter(text).matches
        wanted = [(e.seq, e.kind, e.topic) for e in events if e.seq > since and matches(e.topic)]
        assert found == wanted[: len(found)]
        assert [x for x in wanted if x[0] <= start + 40] == [x for x in found if x[0] <= start + 40]
    world.close()


@pytest.mark.slow
async def test_m2_threads_read_whole_pages_while_files_are_written(tmp_path):
    """Real threads at the store: what each reads, after any number, continues without a gap."""
    world = Archiving(tmp_path, keep=4, step=8)
    chance, store, room = random.Random(1), world.room.store, world.room
    define(room)
    heads, failures, over = [0], [], threading.Event()

    def read(seed):
        own = random.Random(seed)
        while not over.is_set():
            head = heads[0]
            after, seen = own.randrange(head + 1), []
            position = after
            while position < head:
                page = store.read(position, own.choice([2, 5, 30]))
                if not page:
                    break
                seen += [event.seq for event in page]
                position = seen[-1]
            back = [event.seq for event in store.read_back(head + 1, 1_000)]
            if seen != [*range(after + 1, position + 1)] or position < head:
                failures.append((after, head, seen))
            if back != [*range(head, 0, -1)]:
                failures.append((head, back))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(amount(long=250, short=100)):
        await happen(chance, (room,))
        heads[0] = store.head()
        if chance.random() < 0.3:
            await world.sweep()
    over.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    assert len(world.paths()) > 3
    world.close()


class Away(DiskPlace):
    """A store that is away, and takes until ``failing`` to say so."""

    def __init__(self, directory):
        super().__init__(directory)
        self.asked, self.failing = threading.Event(), threading.Event()
        self.failing.set()

    def folders(self):
        self.asked.set()
        self.failing.wait()
        raise ConnectionError("the network is gone")


def test_m2_while_one_asks_a_store_that_is_away_others_are_refused_at_once(tmp_path):
    place = Away(tmp_path)
    index = ArchiveIndex(place)
    with pytest.raises(ConnectionError):
        index.read({1: ("Note", 5)}, clean=False)
    place.asked.clear()
    place.failing.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(index.open)
        try:
            assert place.asked.wait(PATIENCE_SECONDS)
            refused = pool.submit(index.open).exception(PATIENCE_SECONDS)
            assert ("the network is gone", False) == (str(refused), first.done())
        finally:
            place.failing.set()
        assert isinstance(first.exception(), ConnectionError)


class Vanishing(ParquetFiles):
    """Has a file become too old right after somebody has looked what is in it."""

    index = None

    def groups(self, path):
        found = super().groups(path)
        if self.index is not None:
            (number,) = self.index.numbers()
            self.index.forget(number, self.index.chain(number)[0])
            path.unlink()
            self.index = None
        return found


async def test_m2_a_time_is_found_though_the_file_that_has_it_goes(tmp_path):
    """M2: it is then in the next file."""
    files = Vanishing(group_events=4)
    world = Archiving(tmp_path, keep=3, files=files, file_bytes=0)
    await written(world, 30)
    for _ in range(4):
        await world.sweep()
    (number,), (gone, *_) = world.feature.index.numbers(), ranges(world)
    files.index = world.feature.index
    assert gone[1] + 1 == world.feature.rows.since(number, 0, lambda: None)
    world.close()
