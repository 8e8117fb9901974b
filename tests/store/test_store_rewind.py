"""Back to a position: exactly what was then, or a refusal (O12)."""

import json
import random

import pytest

from build import COUNTER, DOG, NOW, TABLES, Server
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT, Event
from rowcast.core.topic_tables import TopicRoot
from rowcast.core.topics import TopicFilter
from rowcast.features.rollups.feature import Rollups
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder
from rowcast.schema import parse_schema
from rowcast.store.backup import copy_database, inspect_copy
from rowcast.store.rewind import position_of_time, renew, rewind
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Change, Keep

ANN = Caller("ann", ALL, "http")
CONTENTS = Transcoder({table.name: CompiledTable(table) for table in TABLES})


def records(store):
    """Return everything that is current, with all that came with it."""
    found = {}
    for table in (*TABLES, None):
        filters = [TopicFilter(f"{table.path}/#")] if table else [TopicFilter("#")]
        for topics in filters:
            for item in store.scan(table, topics, "", 10_000).records:
                known = item.payload, item.content_type, item.qos, item.client, item.properties
                found[item.topic] = *known, item.seq, item.version, CONTENTS.value(item)
    return found


def log(store, upto):
    return [
        (e.seq, e.topic, e.kind, e.payload, e.version)
        for e in store.read(0, 100_000)
        if e.seq <= upto
    ]


def figures(store):
    sources = [*TABLES, *(item.branch for item in store.topic_tables())]
    return {str(source): store.figures(source) for source in sources}


def any_event(chance):
    number = chance.randrange(6)
    topic, value = chance.choice(
        [
            (f"Dog/{number}", b'{"name":"n%d","age":%d}'),
            (f"Counter/{number}", b'{"n":"%d","m":%d}'),
            (f"home/{number}", b"%d bytes %d"),
            (f"single{number}", b"%d:%d"),
            (f"other/{number}/x", b"\xff%d %d"),
        ]
    )
    payload = value % (chance.randrange(100), chance.randrange(100))
    kinds = [PUT, PUT, DELETE, MESSAGE]
    if topic.startswith("Dog"):
        kinds.append(PATCH)
    kind = chance.choice(kinds)
    return Event(topic, kind, b"" if kind == DELETE else payload, None, 1, kind != MESSAGE)


async def lived(folder, seed, events):
    """Write at random; return the file and what was at some positions."""
    store = SqlStore(folder / "rowcast.db")
    room = Server(store=store, topics=TopicSettings())
    chance, then = random.Random(seed), {}
    for number in range(events):
        room.time = NOW + number
        room.kernel.submit(any_event(chance), ANN)
        if number % 7 == 0:
            await room.committer.settle()
            then[store.head()] = records(store), figures(store), room.time
    await room.committer.settle()
    return room, store, then


@pytest.mark.parametrize("seed", range(4))
async def test_every_position_is_as_it_was(tmp_path, seed):
    """O12: records, log and counts, at a dozen random positions of a random life."""
    room, store, then = await lived(tmp_path, seed, 200)
    whole = log(store, store.head())
    copy_database(store.path, tmp_path / "copy.db")
    await room.stop()
    store.close()
    for position in random.Random(seed).sample(sorted(then), 6):
        file = tmp_path / f"at-{position}.db"
        copy_database(tmp_path / "copy.db", file)
        epoch = rewind(file, TABLES, position, CONTENTS.structured)
        again = SqlStore(file)
        again.open(TABLES)
        known, counted, _ = then[position]
        assert position == again.head()
        assert known == records(again)
        assert [item for item in whole if item[0] <= position] == log(again, position)
        held = figures(again)
        assert counted == {name: held[name] for name in counted}
        assert epoch == again.epoch != inspect_copy(tmp_path / "copy.db").epoch
        again.close()


async def test_a_time_is_the_position_before_it(tmp_path):
    room, store, then = await lived(tmp_path, 9, 60)
    await room.stop()
    store.close()
    file = store.path
    position, (_, _, seconds) = sorted(then.items())[3]
    assert position == position_of_time(file, int((seconds + 0.5) * 1_000_000))
    assert 0 == position_of_time(file, 0)
    assert max(then) <= position_of_time(file, 2**62)


async def test_where_the_log_does_not_reach_nothing_is_changed(tmp_path):
    """O12: a part that was trimmed beyond the point, and a record whose past is gone."""
    room, store, then = await lived(tmp_path, 3, 100)
    store.trim(DOG, Keep(0, 3, 0), NOW, 10_000)
    store.trim(TopicRoot("home"), Keep(0, 3, 0), NOW, 10_000)
    await room.stop()
    store.close()
    for position in (min(then), store.trimmed(DOG) + 1):
        before = store.path.read_bytes()
        with pytest.raises(Error) as caught:
            rewind(store.path, TABLES, position, CONTENTS.structured)
        assert Code.GONE is caught.value.code
        assert inspect_copy(store.path).head == max(store.head(), 0)
        assert len(before) == len(store.path.read_bytes())
    assert "no longer in the log" in caught.value.message


async def test_a_table_that_the_schema_lacks(tmp_path):
    room, store, then = await lived(tmp_path, 5, 60)
    await room.stop()
    store.close()
    with pytest.raises(Error, match="schema of that time"):
        rewind(store.path, (COUNTER,), min(then), CONTENTS.structured)


def test_what_is_no_database_is_refused(tmp_path):
    file = tmp_path / "x.db"
    file.write_bytes(b"nothing of the kind" * 1_000)
    with pytest.raises(Error, match="no database of Rowcast"):
        inspect_copy(file)


SCHEMA = """
type Sensor @table @export { id: ID @primaryKey at: Date temp: Float }
type Minutely @table @export @rollup(
  of: "Sensor", time: "at", every: "1m", late: "2m", values: {temp: [sum]}
) { at: Date temp_sum: Float }
"""


async def rolled_up(store, tables, readings):
    """Write readings of one a minute, and roll them up; return the sums by minute."""
    room = Server(tables, store=store)
    rollups = Rollups(tables)
    rollups.install(room.kernel)

    async def facts(owner):
        return store.states(owner)

    async def pause():
        raise AssertionError("nothing refuses")

    await room.kernel.restore(facts)
    for minute, temp in readings:
        room.time = NOW + 60 * minute
        payload = b'{"at":%d,"temp":%f}' % (room.time * 1_000, temp)
        await room.kernel.write(Event(f"Sensor/{minute}", PUT, payload, None, 1, True), ANN)
    await rollups.rollups[0].catch_up(pause)
    await room.committer.settle()
    (table,) = (item for item in tables if item.name == "Minutely")
    rows = store.scan(table, TopicFilter("Minutely/#"), "", 100).records
    return [json.loads(record.payload)["temp_sum"] for record in rows]


async def test_a_roll_up_counts_what_is_written_after_a_restore(tmp_path):
    """V4, O12: its position was behind the end by then, and numbers are used again."""
    tables, file = parse_schema(SCHEMA).tables, tmp_path / "rowcast.db"
    store = SqlStore(file)
    assert [1.0, 2.0] == await rolled_up(store, tables, [(0, 1.0), (1, 2.0)])
    position = store.head()
    assert [1.0, 2.0, 10.0, 20.0] == await rolled_up(store, tables, [(2, 10.0), (3, 20.0)])
    store.close()
    contents = Transcoder({table.name: CompiledTable(table) for table in tables})
    rewind(file, tables, position, contents.structured)
    again = SqlStore(file)
    assert [1.0, 2.0, 5.0, 7.0] == await rolled_up(again, tables, [(2, 5.0), (4, 7.0)])
    again.close()


async def test_facts_with_positions_are_forgotten_and_those_of_triggers_set_back(tmp_path):
    room, store, then = await lived(tmp_path, 3, 60)
    beyond, far = store.head().to_bytes(8, "big"), (1).to_bytes(8, "big")
    facts = [
        ("session/c", "x", b"1"), ("rollups/Minutely/place", "place", b"1"),
        ("alarms/place", "position", b"1"), ("alarms/states", "x", b"1"),
        ("trigger", "late", far), ("trigger", "newest", beyond), ("trigger/dead", "x", b"9"),
    ]  # fmt: skip
    room.committer.keep([Change(*fact) for fact in facts])
    await room.committer.settle()
    await room.stop()
    store.close()
    position = sorted(then)[3]
    rewind(store.path, TABLES, position, CONTENTS.structured)
    again = SqlStore(store.path)
    again.open(TABLES)
    known = {fact[0] for fact in facts}
    assert [
        ("alarms/states", "x", b"1"), ("trigger", "late", far),
        ("trigger", "newest", position.to_bytes(8, "big")), ("trigger/dead", "x", b"9"),
    ] == sorted(fact for fact in again.states("") if fact[0] in known)  # fmt: skip
    again.close()


async def test_receipts_of_undone_writes_are_gone_and_no_other_names_the_old_log(tmp_path):
    """M8, B17, M5: a repeat of one was answered with a cursor at which there is another event."""
    room, store, then = await lived(tmp_path, 3, 60)
    position = sorted(then)[3]
    at, beyond = ((seq).to_bytes(8, "big") + bytes(17) + b"t" for seq in (position, position + 1))
    told = '{"job": "j", "position": "%s:%d", "number": 1}'
    facts = [
        ("once/ann", "k:0", bytes(24) + at), ("once/ann", "k:1", bytes(24) + beyond),
        ("producer/ann/p", "1:1", at), ("producer/ann/p", "1:2", beyond),
        ("result/ann/j/", "r/1", (told % (store.epoch, position)).encode()),
        ("result/ann/j/", "r/2", (told % (store.epoch, position + 1)).encode()),
        ("result/ann/j/", "t/1", b'["a:1"]'),
    ]  # fmt: skip
    room.committer.keep([Change(*fact) for fact in facts])
    await room.committer.settle()
    await room.stop()
    store.close()
    epoch = rewind(store.path, TABLES, position, CONTENTS.structured)
    again = SqlStore(store.path)
    again.open(TABLES)
    renamed = ("result/ann/j/", "r/1", (told % (epoch, position)).encode())
    known = {fact[0] for fact in facts}
    assert [facts[0], facts[2], renamed, facts[6]] == sorted(
        fact for fact in again.states("") if fact[0] in known
    )
    again.close()
    renewed = renew(store.path)
    again = SqlStore(store.path)
    again.open(TABLES)
    (receipt,) = (fact[2] for fact in again.states("result/") if fact[1] == "r/1")
    assert f'"position": "{renewed}:{position}"'.encode() in receipt
    again.close()


@pytest.mark.parametrize("begins", [-1, 1])
async def test_a_durable_stream_whose_first_event_is_undone_is_empty(tmp_path, begins):
    """V7: else what is appended at used numbers would be before its beginning, and not read."""
    room, store, then = await lived(tmp_path, 3, 60)
    position = sorted(then)[3]
    state = {"start": position - 2, "first": position + begins, "tail": position + 2}
    room.committer.keep([Change("stream/s/1", "state", json.dumps(state).encode())])
    await room.committer.settle()
    await room.stop()
    store.close()
    rewind(store.path, TABLES, position, CONTENTS.structured)
    again = SqlStore(store.path)
    again.open(TABLES)
    ((_, _, value),) = again.states("stream/")
    restored = json.loads(value)
    first = 0 if begins > 0 else position - 1
    assert (position, first) == (restored["tail"], restored["first"])
    again.close()
