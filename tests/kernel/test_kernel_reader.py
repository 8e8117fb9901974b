"""The read side: the record cache before the store, and which tables a filter can reach."""

import asyncio

import pytest

from build import ANN, COUNTER, DOG, KEY, NOTE, Server, turns
from memory_store import MemoryStore
from rowcast.codecs import CBOR, encode
from rowcast.core.clock import version_of
from rowcast.core.events import PATCH, Event
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.core.topic_tables import TopicRoot, owner_of
from rowcast.core.topics import TopicFilter
from rowcast.reads.record_cache import UNKNOWN

NESTED = Table("Tail", "Dog/tail", (KEY,))
ROOT = Table("Root", "", (KEY,))
UNSEEN = Table("Unseen", None, (KEY,))


async def test_a_hot_read_costs_no_trip_to_the_disk():
    room = Server()
    await room.put("u/1", b"1")
    room.readers.held = True
    assert b"1" == (await room.reader.get(None, "u/1")).payload


async def test_a_cold_read_is_remembered():
    store = MemoryStore("0badcafe")
    await Server(store=store).put("u/1", b"1")
    room = Server(store=store)
    assert room.reader.peek("u/1") is UNKNOWN
    record = await room.reader.get(None, "u/1")
    assert record is room.reader.peek("u/1")


async def test_a_slow_read_does_not_hide_what_was_written_meanwhile():
    store = MemoryStore("0badcafe")
    await Server(store=store).put("u/1", b"old")
    room = Server(store=store)
    room.readers.held = True
    reading = asyncio.ensure_future(room.reader.get(None, "u/1"))
    await turns()
    room.readers.release()
    await room.put("u/1", b"new")
    await reading
    assert b"new" == (await room.reader.get(None, "u/1")).payload


@pytest.mark.parametrize(
    ("topic", "payload", "said", "kind"),
    [
        ("Dog/1", b'{"age":3,"name":"Rex"}', None, "put"),
        ("Dog/1", encode({"age": 3}, CBOR), CBOR, "put"),
        ("Dog/1", b'{"age":3,"name":"Rex"}', None, PATCH),
        ("Note/1", b'{ "a": 1 }', None, "put"),
        ("Note/1", b"\xff", None, "put"),
        ("Note/1", b'{"a":1}', None, PATCH),
        ("u/1", b'{ "a": 1 }', None, "put"),
        ("u/1", b'{"a":1}', None, PATCH),
        ("Counter/7", encode({}, CBOR), CBOR, "put"),
    ],
)
async def test_b2_a_record_is_the_same_before_and_after_a_restart(topic, payload, said, kind):
    room = Server()
    await room.kernel.write(Event(topic, kind, payload, said, 1, True), ANN)
    warm = await room.kernel.read(topic, ANN)
    cold = await Server(store=room.store).kernel.read(topic, ANN)
    assert cold.fields == warm.fields
    assert warm is room.reader.peek(topic)


async def test_a_known_absence_is_known():
    room = Server()
    await room.put("u/1")
    await room.delete("u/1")
    room.readers.held = True
    assert None is await room.reader.get(None, "u/1")


# -- which tables ----------------------------------------------------------------------------------


X, SINGLE = "TopicRoot(level='x')", "TopicRoot(level=None)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dog/1", ["Dog"]),
        ("Dog/tail/1", ["Tail"]),
        ("x/1", [X]),
        ("Dog/+", ["Dog", "Tail"]),
        ("Dog/#", ["Dog", "Tail"]),
        ("Dog/tail/+", ["Dog", "Tail"]),
        ("+/1", ["Dog", "Note", None]),
        ("+/tail/1", ["Dog", "Tail", "Note", None]),
        ("#", ["Dog", "Tail", "Note", None]),
        ("+", ["Dog", "Note", SINGLE]),
        ("x/#", [X, SINGLE]),
        ("Dogs/#", ["TopicRoot(level='Dogs')", SINGLE]),
        ("x", [SINGLE]),
    ],
)
async def test_the_tables_that_a_filter_can_reach(text, expected):
    """Never one too few; one too many costs a read that finds nothing."""
    room = Server((DOG, NESTED, NOTE, UNSEEN))
    found = [
        str(item) if isinstance(item, TopicRoot) else item and item.name
        for item in room.reader.sources(TopicFilter(text))
    ]
    assert expected == found


async def test_a_table_at_the_root_is_always_reached():
    room = Server((DOG, ROOT))
    assert [DOG, ROOT, None] == room.reader.sources(TopicFilter("+/1"))
    assert [ROOT] == room.reader.sources(TopicFilter("x/1"))


@pytest.mark.parametrize(
    ("topic", "expected"),
    [("Dog/1", DOG), ("Dog", DOG), ("Dog/tail/1", NESTED), ("x", ROOT), ("Dogs/1", ROOT)],
)
def test_a7_the_owner_of_a_topic(topic, expected):
    assert expected is owner_of(topic, (DOG, NESTED, ROOT, UNSEEN))
    assert None is owner_of("x", (DOG,))


# -- what it passes on -----------------------------------------------------------------------------


async def filled():
    room = Server()
    for topic in ("Note/1", "Note/2", "Counter/1", "u/1"):
        await room.put(topic)
    return room


async def test_scan_of_one_topic_uses_memory():
    room = await filled()
    room.readers.held = True
    page = await room.reader.scan(NOTE, TopicFilter("Note/1"), "", 10)
    assert (4, ["Note/1"]) == (page.position, [record.topic for record in page.records])
    await room.delete("Note/1")
    assert [] == (await room.reader.scan(NOTE, TopicFilter("Note/1"), "", 10)).records


async def test_scan_of_a_filter():
    room = await filled()
    page = await room.reader.scan(NOTE, TopicFilter("Note/+"), "Note/1", 10)
    assert ["Note/2"] == [record.topic for record in page.records]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [([NOTE], [1, 2]), ([NOTE, COUNTER], [1, 2, 3]), ([], [1, 2, 3, 4]), ([None], [4])],
)
async def test_the_log_of_one_table_or_of_all(tables, expected):
    room = await filled()
    assert expected == [event.seq for event in await room.reader.read(0, 10, tables)]


async def test_what_the_store_is_asked():
    room = await filled()
    reader, store = room.reader, room.store
    assert store.epoch == reader.epoch
    assert 0 == reader.trimmed([NOTE, None]) == reader.trimmed([])
    assert 2 == await reader.count(NOTE) == await reader.matching(NOTE, Query())
    assert 2 == len((await reader.search(NOTE, Query())).records)
    assert [1] == [event.seq for event in await reader.history(NOTE, "Note/1", 5)]
    assert 4 == await reader.since(NOTE, version_of(1 << 47))
    assert [] == await reader.expired(room.now(), 10, (0.0, 0))
