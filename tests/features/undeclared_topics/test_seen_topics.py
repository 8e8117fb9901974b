"""Which topics were written to (F7)."""

import pytest

from build import ANN, Server
from rowcast.core import limits
from rowcast.core.callers import SERVER
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.features.undeclared_topics.topic_tables import TopicSettings


@pytest.fixture
async def room():
    return Server(topics=TopicSettings())


async def rows(room, query=""):
    resource = room.kernel.resource("$SYS/topics", ANN)
    return await resource.get(parse_query(query, Table("rows", None)) if query else None)


async def test_topics_are_listed_with_their_tables(room):
    """F7: once each, by whatever they were written."""
    for topic in ("home/a", "home/a", "lamp"):
        await room.say(topic)
    await room.put("home/b")
    await room.put("Dog/1", b'{"name": "Rex"}')
    await room.put("$SYS/broker/version", b"1", caller=SERVER)
    assert [
        {"topic": "home/a", "table": "mqtt_home"},
        {"topic": "lamp", "table": "mqtt_messages"},
        {"topic": "home/b", "table": "mqtt_home"},
        {"topic": "Dog/1", "table": "Dog"},
    ] == await rows(room)
    assert ["home/b"] == await rows(room, "topic=sw=home/&select(topic)&limit(1,2)")
    assert room.kernel.resource("$SYS/topics/home/a", ANN) is not None


async def test_what_is_only_read_or_watched_is_not_seen(room):
    await room.kernel.read_value("home/never", ANN, None)
    assert [] == await rows(room)


async def test_a_plain_broker_sees_topics_too():
    room = Server()
    await room.say("home/a")
    assert [{"topic": "home/a", "table": None}] == await rows(room)


async def test_those_in_use_stay():
    """F7: bounded; the longest unheard of makes room."""
    room = Server(topics=TopicSettings(), seen_max=8, routes_max=4)
    for number in range(30):
        await room.say(f"home/{number}")
        await room.say("home/often")
    listed = [row["topic"] for row in await rows(room)]
    assert 8 == len(listed)
    assert {"home/often", "home/29"} < set(listed)
    assert "home/0" not in listed


async def test_a_long_topic_is_not_kept(room):
    """Each may have 65,535 bytes."""
    await room.say("x" * (limits.TOPIC_CACHED_BYTES_MAX + 1))
    assert [] == await rows(room)
