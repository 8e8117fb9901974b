"""Reads of what was trimmed: the same as those of a server that never trims (M2)."""

import random

import pytest
from archiving_server import FILTERS, PLACES, TOPICS, Archiving, define, happen

from build import ANN, EPOCH, Server, refusal
from memory_store import MemoryStore
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.features.history.bounds import HistoryBounds
from rowcast.features.history.feature import History
from rowcast.reads.before_image import before_of
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep


def small():
    """Return a history whose pages are so small that a few events need several."""
    return History(HistoryBounds(page_events=4, first_events=4))


@pytest.fixture
def pair(tmp_path):
    """Give a server that archives, and a twin on disk that never trims."""
    open_ = []

    def make(**options):
        world = Archiving(tmp_path, features=[small()], **options)
        twin = SqlStore(f"sqlite:///{tmp_path / 'twin.db'}", epoch=world.store.epoch)
        open_.extend((world, twin))
        return world, Server(store=twin, undeclared="table", features=[small()])

    yield make
    for one in open_:
        one.close()


async def filled(chance, world, twin, count=120):
    """Let things happen in both, and sweep the one now and then."""
    define(world.room)
    define(twin)
    for _ in range(count):
        await happen(chance, (world.room, twin))
        if chance.random() < 0.1:
            await world.sweep()
    await world.sweep()
    for table in world.room.tables:
        assert world.room.store.trimmed(table) == 0
    assert world.room.store.trimmed(None) == 0
    assert len(world.paths()) > 3


def fields(events):
    return [event.fields for event in events]


async def window(room, text, chance_of):
    """Return what a history answers, or the code of its refusal."""
    past, topics = room.past, TopicFilter(text)
    table = room.registry.route(text.removesuffix("/#").removesuffix("/+")).table
    start, end, last = chance_of
    try:
        ends = [past.moment(value, "from") if value else None for value in (start, end)]
        found = await past.window(topics, table, ANN, *ends)
        if last:
            return fields(await past.last(found, ANN, last))
        return [e.fields async for page in past.pages(found, ANN) for e in page]
    except Error as error:
        return error.code


def a_moment(chance, room, head):
    """Return a cursor, a time, or nothing."""
    if chance.random() < 0.2:
        return None
    if chance.random() < 0.5:
        return room.kernel.cursor(chance.randrange(head + 1))
    return str(int(room.time * 1000) - chance.randrange(1, 100_000_000))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
async def test_m2_history_is_that_of_a_log_that_was_never_trimmed(seed, pair):
    """M2: any filter, from and to at any cursor or time, all or the last ones, every field."""
    chance, (world, twin) = random.Random(seed), pair()
    await filled(chance, world, twin)
    head = twin.store.head()
    for _ in range(60):
        text = chance.choice(PLACES)
        asked = (
            a_moment(chance, twin, head), a_moment(chance, twin, head), chance.choice([0, 0, 1, 5])
        )  # fmt: skip
        assert await window(twin, text, asked) == await window(world.room, text, asked), asked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_m2_every_read_of_the_log_is_the_same(seed, pair):
    """M2: pages of any size after and before any number, of a topic, a change, a time."""
    chance, (world, twin) = random.Random(seed), pair()
    await filled(chance, world, twin)
    head = twin.store.head()
    stores = (twin.store, world.room.store)
    for _ in range(100):
        text = chance.choice(FILTERS)
        sources = twin.reader.sources(TopicFilter(text))
        topic = chance.choice(TOPICS)
        source = twin.reader.sources(TopicFilter(topic))[0]
        number, limit = chance.randrange(head + 2), chance.choice([1, 2, 7, 500])
        version = int((twin.time - chance.randrange(100_000)) * 1_000_000)
        answers = [
            (
                fields(store.read(number, limit, sources)),
                fields(store.read(number, limit)),
                fields(store.read_back(number, limit, sources)),
                fields(store.history(source, topic, limit, number)),
                fields(store.follow(source, topic, number, limit)),
                fields(filter(None, [store.change(source, topic, number)])),
                store.since(source, version),
            )
            for store in stores
        ]
        assert answers[0] == answers[1], (text, topic, number, limit)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
async def test_m2_as_of_any_moment_is_the_same(seed, pair):
    """M2: of records and tables, with all that was deleted and made again since."""
    chance, (world, twin) = random.Random(seed), pair()
    await filled(chance, world, twin)
    head = twin.store.head()
    for _ in range(30):
        position = chance.randrange(head + 1)
        topic = chance.choice(TOPICS)
        table = twin.registry.route(topic).table
        rooms = (twin, world.room)
        found = [await room.past._asof.record(table, topic, position) for room in rooms]
        assert fields(filter(None, found[:1])) == fields(filter(None, found[1:]))
        for table in twin.tables[:2]:
            records = [
                [x.fields async for page in room.past._asof.records(table, position) for x in page]
                for room in (twin, world.room)
            ]
            assert records[0] == records[1]


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2))
async def test_m2_rules_know_the_record_before_an_archived_event(seed, pair):
    """M2: whoever may see some records is told of an event by what its record was before."""
    chance, (world, twin) = random.Random(seed), pair()
    await filled(chance, world, twin)
    for room in (world.room, twin):
        room.reader.remember_before(room.tables[1])
    answers = []
    for room in (twin, world.room):
        after, found = 0, []
        while page := await room.reader.read(after, 4, [room.tables[1]]):
            found += [(e.seq, fields(filter(None, [before_of(e)]))) for e in page]
            after = page[-1].seq
        answers.append(found)
    assert answers[0] == answers[1]
    assert any(before for _, before in answers[0])


async def test_m2_without_an_archive_the_same_cursor_is_gone():
    """The refusal that the archive replaces, so that the tests above could fail."""
    room = Server(store=MemoryStore(EPOCH))
    for _ in range(9):
        await room.put("Note/1")
    room.store.trim(room.tables[1], Keep(events=2), room.time, 100)
    past = room.past
    start = past.moment(room.kernel.cursor(1), "from")
    assert Code.GONE is await refusal(
        past.window(TopicFilter("Note/1"), room.tables[1], ANN, start)
    )
