"""E15, M11: sessions that are watched: as they are, and then what happens to them."""

import json

import pytest

from mqtt_server import MqttServer, Publish, topics, user
from rowcast.core.limits import SYSTEM_ROWS_SLICE
from rowcast.features.hooks.hook import Hook

LASTING = {"properties": {"session_expiry_interval": 100}}


UNTOLD = ["a+b", "#", "L" * 65_530, "/" * 200]
"""Ids of clients that cannot be a part of a topic."""


@pytest.fixture
async def world():
    return MqttServer()


async def watching(world, topics="$SYS/sessions/#", **options):
    """Return a client that watches, and what it begins with."""
    peer = await world.subscribed(topics, client_id="watcher", **options)
    return peer, [*peer.later, *await peer.hear()]


def told(packets):
    """Return what happened, and to whom, as MQTT 5 clients are told; without the watcher."""
    found = [
        (packet.topic.removeprefix("$SYS/sessions/"), user(packet, "event"))
        for packet in packets
        if isinstance(packet, Publish)
    ]
    return [item for item in found if item[0] != "watcher"]


async def test_rows_as_they_are_come_first(world):
    """E15: "all take-overs now": every session, more than one slice of them."""
    for number in range(2 * SYSTEM_ROWS_SLICE + 3):
        await world.connected(f"c{number}")
    _, begins = await watching(world)
    names = {packet.topic.removeprefix("$SYS/sessions/") for packet in begins}
    assert {f"c{number}" for number in range(2 * SYSTEM_ROWS_SLICE + 3)} | {"watcher"} == names
    rows = [json.loads(packet.payload) for packet in begins]
    assert {True} == {row["connected"] for row in rows}
    assert all(packet.retain for packet in begins)


async def test_what_happens_to_a_session(world):
    """E15: registration, connect, disconnect, and its end."""
    watcher, _ = await watching(world)
    peer = await world.connected("a", 5, **LASTING)
    assert [("a", "registered"), ("a", "connected")] == told(await watcher.hear())
    peer.lose()
    heard = await watcher.hear()
    assert [("a", "disconnected")] == told(heard)
    row = json.loads(heard[0].payload)
    assert ("a", "disconnected", False) == (row["client_id"], row["event"], row["connected"])
    await world.connected("a", 5, clean_start=False, **LASTING)
    assert [("a", "connected")] == told(await watcher.hear())


async def test_a_take_over(world):
    """E15: "give me all take-overs now and from now on"; the row counts them."""
    await world.connected("a", 5, **LASTING)
    watcher, _ = await watching(world)
    await world.connected("a", 5, clean_start=False, **LASTING)
    heard = await watcher.hear()
    assert [("a", "taken_over"), ("a", "disconnected"), ("a", "connected")] == told(heard)
    assert [1, 1, 1] == [json.loads(packet.payload)["takeovers"] for packet in heard]


async def test_the_end_of_a_session_is_a_deletion(world):
    """E15: with its connection, by its expiry, and by a clean start."""
    watcher, _ = await watching(world)
    peer = await world.connected("a")
    await watcher.hear()
    peer.lose()
    heard = await watcher.hear()
    assert [("a", "disconnected"), ("a", "ended")] == told(heard)
    assert b"" == heard[-1].payload
    other = await world.connected("b", 5, **LASTING)
    other.lose()
    await watcher.hear()
    await world.pass_time(101)
    assert [("b", "ended")] == told(await watcher.hear())


async def test_one_row_is_watched_alone(world):
    await world.connected("a")
    watcher, begins = await watching(world, "$SYS/sessions/a")
    assert ["$SYS/sessions/a"] == topics(begins)
    await world.connected("b")
    assert [] == await watcher.hear()


@pytest.mark.parametrize("wild", ["$SYS/#", "$SYS/+/+", "#", "+/sessions/#"])
async def test_only_filters_that_name_the_path_select_rows(world, wild):
    """F24: an exporter that asks for $SYS/# gets numbers, and no rows of clients."""
    await world.connected("a")
    watcher, begins = await watching(world, wild)
    await world.connected("b")
    assert [] == [*topics(begins), *topics(await watcher.hear())]


async def test_nobody_watching_costs_no_row(world, monkeypatch):
    made = []
    monkeypatch.setattr("rowcast.doors.mqtt.session_rows._row", lambda *_: made.append(1))
    peer = await world.connected("a")
    peer.lose()
    await world.turn()
    assert [] == made


class Secrets(Hook):
    """Lets nobody see one of them."""

    def can_read(self, caller, topic):
        return topic != "$SYS/sessions/hidden"


async def test_hooks_are_asked_about_each_row():
    """G6: watching is authorised as reading is."""
    world = MqttServer()
    world.kernel.hooks.add(Secrets())
    await world.connected("hidden")
    await world.connected("seen")
    watcher, begins = await watching(world)
    assert [("seen", None)] == told(begins)
    await world.connected("hidden", 5)
    heard = await watcher.hear()
    assert [] == [item for item in told(heard) if item[0] == "hidden"]


async def test_delayed_writes_are_watched_too(world):
    """M11: the same for every kind of system rows."""
    watcher, _ = await watching(world, "$SYS/delayed/#")
    peer = await world.connected("c")
    peer.publish("$delayed/10/a", b"1", qos=1)
    (waiting,) = await watcher.hear()
    assert ("a", "waiting") == (json.loads(waiting.payload)["topic"], user(waiting, "event"))
    await world.pass_time(11)
    (over,) = await watcher.hear()
    assert (waiting.topic, b"", "over") == (over.topic, over.payload, user(over, "event"))


async def test_older_versions_get_the_rows_as_plain_messages(world):
    watcher, begins = await watching(world, version=4)
    peer = await world.connected("a")
    heard = await watcher.hear()
    assert ["registered", "connected"] == [json.loads(item.payload)["event"] for item in heard]
    assert ["$SYS/sessions/watcher"] == topics(begins)
    assert not peer.closed


@pytest.mark.parametrize("name", UNTOLD, ids=["plus", "hash", "long", "levels"])
async def test_who_watches_keeps_no_client_out(world, name):
    """M11: a name that makes no topic is told to nobody, and its client comes and goes."""
    await watching(world)
    peer = await world.connected(name)
    assert await peer.subscribe("x/#") == (0,)
    again, begins = await watching(world)
    assert ["$SYS/sessions/watcher"] == topics(begins)
    peer.lose()
    assert world.broker.sessions.get(name) is None
    assert [] == told(await again.hear())


async def test_who_watches_keeps_no_filter_out(world):
    """M11: nor one that is too long when it is written as in a URL."""
    await watching(world, "$SYS/subscriptions/#")
    peer = await world.connected("c")
    assert await peer.subscribe("\u00e4" * 30_000) == (0,)
    peer.lose()
    assert world.broker.sessions.get("c") is None
