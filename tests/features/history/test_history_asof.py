"""Records as they were at every position: the folded events, or GONE (B14)."""

import asyncio
import random

import pytest

from build import ANN, COUNTER, DOG, NOTE, Code, Server, refusal
from memory_store import MemoryStore
from rightful import ANN as PERSON
from rightful import Rightful
from rowcast.core.errors import Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from rowcast.core.topics import TopicFilter
from rowcast.features.history.bounds import HistoryBounds
from rowcast.features.history.feature import History
from rowcast.features.history.history import HistoryReads
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep


@pytest.fixture
def store(seed, tmp_path):
    """Give one store on disk to odd seeds, and one in memory to even ones."""
    if seed % 2 == 0:
        yield MemoryStore("0badcafe")
        return
    on_disk = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    yield on_disk
    on_disk.close()


def small(store=None, **bounds):
    """Return a server whose pages are so small that a few events need several."""
    history = History(HistoryBounds(page_events=3, **bounds))
    return Server(store=store, reading={"table_scan_records": 2}, features=[history])


async def lives(chance, table, count=40, store=None):
    """Write, end and mention records of a table and of others; return the room and a model.

    The model is, for each position, the value of each record.
    """
    room, model, now = small(store), [{}], {}
    for _ in range(count):
        room.time += chance.choice([0, 0.001, 5])
        own = chance.random() < 0.8
        topic = f"{table.path}/{chance.randrange(6)}" if own else f"other/{chance.randrange(3)}"
        payload, then = b'{"name":"%d"}' % chance.randrange(99), now
        kind = chance.choice([PUT, PUT, PATCH, DELETE, MESSAGE])
        if kind == MESSAGE and own:
            await room.say(topic, payload, qos=1)
        elif kind == DELETE:
            await room.delete(topic)
        else:
            await room.put(topic, payload)
        while len(model) <= room.committer.announced:
            model.append(dict(then))
        record = room.store.get(table if own else None, topic)
        if record is not None:
            model[-1][topic] = record.payload
        else:
            model[-1].pop(topic, None)
        now = dict(model[-1])
    return room, model


async def listed(room, table, position):
    """Return a table's records as of a position, by topic, in their order."""
    pages = room.past.records(table, position, ANN)
    return {r.topic: room.kernel.transcoder.payload(r, None) async for page in pages for r in page}


async def at(room, topic, position, table):
    """Return one record's payload as of a position; None when there was none."""
    moment = room.past.moment(room.kernel.cursor(position), "asof")
    try:
        record = await room.past.record(topic, table, moment, ANN)
    except Error as error:
        if error.code is Code.NOT_FOUND:
            return None
        raise
    return room.kernel.transcoder.payload(record, None)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("table", [NOTE, COUNTER, DOG], ids=lambda table: table.name)
async def test_b14_as_of_every_position_is_the_folded_log(seed, table, store):
    """B14: a table and each of its records, by id, also of undeclared topics, on every store."""
    chance = random.Random(seed)
    room, model = await lives(chance, table, store=store)
    for position, values in enumerate(model):
        own = {topic: value for topic, value in values.items() if not topic.startswith("other")}
        found = await listed(room, table, position)
        assert own == found
        assert sorted(own) == list(found)
        for topic in (f"{table.path}/{chance.randrange(6)}", f"other/{chance.randrange(3)}"):
            owner = table if topic.startswith(table.path) else None
            assert values.get(topic) == await at(room, topic, position, owner)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("table", [NOTE, DOG], ids=lambda table: table.name)
async def test_b14_of_a_trimmed_log_it_is_exact_or_gone(seed, table):
    """B14: never a wrong answer, and none is refused that needs nothing of what is gone."""
    chance = random.Random(seed)
    room, model = await lives(chance, table)
    room.store.trim(table, Keep(events=chance.choice([1, 5, 15])), room.time, 100)
    trimmed = room.store.trimmed(table)
    answered = 0
    for position, values in enumerate(model):
        own = {topic: value for topic, value in values.items() if not topic.startswith("other")}
        try:
            assert own == await listed(room, table, position)
            answered += 1
        except Error as error:
            assert Code.GONE is error.code
            assert room.kernel.cursor(trimmed) == error.detail["oldest"]
        topic = f"{table.path}/{chance.randrange(6)}"
        gone = await refusal(at(room, topic, position, table))
        if gone is None:
            assert values.get(topic) == await at(room, topic, position, table)
        changes = [e for e in room.store.read(0, 99, [table]) if e.kind != MESSAGE]
        if gone is not None:
            assert not [e for e in changes if e.topic == topic and e.seq <= position]
    assert answered >= 1  # the present, at least


async def test_b14_a_record_that_is_known_to_have_begun_later_was_not_there():
    """B14: a time of creation that the server keeps says so, though the log is cut."""
    room = small()
    for number in range(3):
        room.time += 10
        await room.put(f"Dog/{number}", b"{}")
        await room.put(f"Note/{number}", b"{}")
    for table in (DOG, NOTE):
        room.store.trim(table, Keep(events=2), room.time, 100)
    assert ["Dog/0"] == list(await listed(room, DOG, 2))
    assert Code.GONE == await refusal(listed(room, NOTE, 3))
    assert None is await at(room, "Dog/2", 2, DOG)
    assert Code.GONE == await refusal(at(room, "Note/2", 3, NOTE))
    assert None is await at(room, "Note/none", 3, NOTE)
    assert Code.GONE == await refusal(at(room, "Note/none", 1, NOTE))


async def trimmed_dogs():
    """Return a server with a dog of ben's, and one of ann's, whose log is cut."""
    room = Rightful(features=[History(HistoryBounds())])
    await room.write("Dog/secret", {"owner": "ben"})
    for number in range(4):
        await room.write("Dog/1", {"owner": "ann", "weight": number})
    table = room.registry.route("Dog/1").table
    room.store.trim(table, Keep(events=2), room.time, 100)
    return room, table


async def test_b14_l13_who_may_not_see_a_record_is_refused_as_if_it_had_not_been():
    """B14, L13: else the code of the answer tells which ids there are."""
    room, table = await trimmed_dogs()
    past = room.kernel.service(HistoryReads)
    early = past.moment(room.kernel.cursor(2), "asof")
    told = []
    for topic in ("Dog/secret", "Dog/none"):
        with pytest.raises(Error) as refused:
            await past.record(topic, table, early, PERSON)
        told.append((refused.value.code, refused.value.message.replace(topic, "it")))
    assert told[0] == told[1]


async def test_b14_l13_no_record_is_named_where_a_table_is_gone():
    """B14, L13: the one whose past is lacking may be another's."""
    room, table = await trimmed_dogs()
    await room.write("Dog/secret", {"owner": "ben", "name": "x"})
    past = room.kernel.service(HistoryReads)
    with pytest.raises(Error) as refused:
        async for _ in past.records(table, room.store.trimmed(table) + 1, PERSON):
            pass
    assert (Code.GONE, False) == (refused.value.code, "secret" in refused.value.message)


@pytest.mark.parametrize("seed", range(4))
async def test_b14_writes_meanwhile_change_nothing(seed):
    """B14: records that change, end or begin while a table is read are as they were."""
    chance = random.Random(seed)
    room = small()
    for number in range(12):
        await room.put(f"Note/{number}", b'{"name":"%d"}' % number)
    expected = await listed(room, NOTE, position := room.committer.announced)
    assert 12 == len(expected)
    await room.delete("Note/3")
    found = {}
    async for page in room.past.records(NOTE, position, ANN):
        found |= {r.topic: room.kernel.transcoder.payload(r, None) for r in page}
        topic = f"Note/{chance.randrange(20)}"
        await (room.delete(topic) if chance.random() < 0.5 else room.put(topic, b"{}"))
    assert expected == found
    assert sorted(expected) == list(found)


async def test_b14_by_time_includes_the_whole_millisecond():
    """B14: what ``_ts`` says of an event is the moment at which it is seen."""
    room = small()
    room.time += 0.0004
    await room.put("Note/1", b"1")
    room.time += 0.001
    await room.put("Note/1", b"2")
    past, milliseconds = room.past, int(room.time * 1000)
    for moment, payload in ((milliseconds - 1, b"1"), (milliseconds, b"2"), ("now", b"2")):
        record = await past.record("Note/1", NOTE, past.moment(moment, "asof"), ANN)
        assert payload == record.payload
    before = past.moment(milliseconds - 2, "asof")
    assert Code.NOT_FOUND == await refusal(past.record("Note/1", NOTE, before, ANN))


async def test_b14_a_lease_that_was_over_then_was_no_record():
    """A5: though nobody had swept it away yet."""
    room = small()
    lease = room.registry.route("Lease/1").table
    await room.put("Lease/1", b"{}")
    room.time += lease.expiration_seconds + 5
    past = room.past
    over = past.record("Lease/1", lease, past.moment("now", "asof"), ANN)
    assert Code.NOT_FOUND == await refusal(over)
    assert await past.record("Lease/1", lease, past.moment("-10s", "asof"), ANN)


async def test_b14_so_many_changes_are_too_many():
    room = small(changed_records=3)
    for number in range(5):
        await room.put(f"Note/{number}", b"{}")
    assert 5 == len(await listed(room, NOTE, 5))
    assert 2 == len(await listed(room, NOTE, 2))
    assert Code.TOO_LARGE == await refusal(listed(room, NOTE, 1))


async def passes_of_a_read(records):
    """Return how often the loop came round while all were read as they were before a change."""
    room = Server(features=[History(HistoryBounds())])
    for value in (b'{"name":"a"}', b'{"name":"b"}'):
        for number in range(records):
            await room.put(f"Dog/{number:04}", value)
    count, loop = 0, asyncio.get_running_loop()

    def tick():
        nonlocal count, timer
        count, timer = count + 1, loop.call_soon(tick)

    timer = loop.call_soon(tick)
    past = room.kernel.past.then(TopicFilter("Dog/#"), records)
    found = [record async for page in past for record in page]
    timer.cancel()
    assert [f"Dog/{number:04}" for number in range(records)] == [it.topic for it in found]
    assert all(b'"name":"a"' in record.payload for record in found)
    return count


@pytest.mark.slow
async def test_many_changed_records_do_not_hold_up_the_loop():
    """Neither when they are found nor when they are put in order: a hundred in each turn."""
    few, many = await passes_of_a_read(50), await passes_of_a_read(650)
    assert many - few >= 2 * 6
