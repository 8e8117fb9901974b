"""Sessions and retention: what the log is to keep, a session gets (D27, decision 15)."""

import json

import pytest

from mqtt_server import (
    OTHER,
    TABLES,
    VERSIONS,
    MqttServer,
    Puback,
    Publish,
    payloads,
    topics,
    users,
)
from rowcast.core.events import MESSAGE, Event
from rowcast.core.limits import SESSION_REFRESH_SECONDS
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.store.store import Keep

HOUR = 3600
KEEP = 10 * HOUR


async def sweep(world):
    """Let retention do its work."""
    settings = RetentionSettings(Keep(seconds=KEEP), 60)
    world.topic_tables.settings = TopicSettings(keep=Keep(seconds=KEEP))
    await Retention(world.kernel, TABLES, settings, lambda: world.time).sweep()


async def pass_hours(world, count, topic="Dog/1", start=0):
    """Let time pass with an event each hour, and a sweep after it."""
    for number in range(start, start + count):
        event = Event(topic, MESSAGE, b'{"age":%d}' % number, None, 1, False)
        await world.kernel.write(event, OTHER)
        await world.pass_time(HOUR)
        await sweep(world)


def lasting(version, **more):
    properties = {"session_expiry_interval": 0xFFFFFFFF, **more}
    return {"clean_start": False, "properties": properties if version == 5 else None}


async def durable(world, *filters, version=5, **more):
    """Return a client with a durable session that wants marks, if it can."""
    peer = await world.connected("d", version, **lasting(version, **more))
    told = users(("seq", "")) if version == 5 else None
    await peer.subscribe(*filters, qos=1, properties=told)
    await acknowledged(peer, [*peer.later, *await peer.hear()])
    return peer


async def back(world, version=5):
    peer = world.peer(version)
    await peer.connect("d", **lasting(version))
    return peer, [*peer.later, *await peer.hear()]


async def acknowledged(peer, packets):
    """Acknowledge messages; return what comes then."""
    sent = [item for item in packets if isinstance(item, Publish) and item.qos]
    peer.send(*(Puback(item.packet_id) for item in sent))
    return await peer.hear()


def ages(packets):
    """Return what the messages of the table among packets say."""
    return [int(item.payload[7:-1]) for item in packets if item.topic.startswith("Dog/")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_away_for_less_misses_nothing(world, version):
    """D27: although what is older was trimmed meanwhile."""
    peer = await durable(world, "Dog/#", version=version)
    await pass_hours(world, 20)
    heard = await peer.hear()
    while heard:
        heard = await acknowledged(peer, heard)
    peer.lose()
    await pass_hours(world, KEEP // HOUR - 1, start=100)
    _, heard = await back(world, version)
    assert list(range(100, 109)) == ages(heard)


@pytest.mark.parametrize("version", (3, 4))
async def test_a_session_away_for_longer_gets_the_records(world, version):
    """C11, 3.1.1: it cannot be told, but it has the current records, and all that follows."""
    peer = await durable(world, "Dog/#", version=version)
    peer.lose()
    await world.put("Dog/7", b'{"age":7}')
    await world.put("Dog/8", b'{"age":8}')
    await pass_hours(world, 15)
    peer, heard = await back(world, version)
    assert [("Dog/7", True), ("Dog/8", True)] == [(item.topic, item.retain) for item in heard]
    assert all(item.qos == 1 for item in heard)
    await pass_hours(world, 1, start=50)
    assert [50] == ages(await peer.hear())


async def test_a_session_away_for_longer_is_told(world):
    """C11, MQTT 5: one reset, the records, and the mark after them."""
    peer = await durable(world, "Dog/#")
    peer.lose()
    await world.put("Dog/7", b'{"age":7}')
    await pass_hours(world, 15)
    _, heard = await back(world)
    assert ["$reset/0", "Dog/7", "$snapshot/end/0"] == topics(heard)
    assert b"no longer in the log" in heard[0].payload


async def test_each_filter_that_begins_anew_is_told(world):
    """C11: under its identifier and by its text, also where only the second asked for marks."""
    peer = await world.connected("d", **lasting(5))
    await peer.subscribe("Dog/7", qos=1)
    for number, filters in enumerate(("Dog/8", "Dog/9", "Open/1"), 1):
        given = {"subscription_identifier": number, **users(("seq", ""))}
        await peer.subscribe(filters, qos=1, properties=given)
    peer.lose()
    await pass_hours(world, 15)
    _, heard = await back(world)
    told = [(item.topic, json.loads(item.payload).get("filter")) for item in heard]
    assert [("$reset/1", "Dog/8"), ("$reset/2", "Dog/9")] == told[:2]
    ends = {topic for topic, _ in told[2:]}
    assert {"$snapshot/end/1", "$snapshot/end/2"} == ends


async def test_messages_of_undeclared_topics_are_kept_as_long(world):
    """Decision 11: and what is older is told with a reset; only retained values are left."""
    peer = await durable(world, "a/#")
    peer.lose()
    await world.put("a/kept", b"value")
    await pass_hours(world, 9, topic="a/b")
    peer, heard = await back(world)
    assert [b'{"age":%d}' % number for number in range(9)] == payloads(heard)[1:]
    await acknowledged(peer, heard)
    peer.lose()
    await pass_hours(world, 15, topic="a/b", start=20)
    _, heard = await back(world)
    assert ["$reset/0", "a/kept", "$snapshot/end/0"] == topics(heard)


async def test_a_slow_reader_gets_all_that_is_kept(world):
    """D24: connected, but behind by less than is kept: nothing is lost, however often is swept."""
    peer = await durable(world, "Dog/#", receive_maximum=1)
    heard, got = [], []
    for number in range(40):
        await pass_hours(world, 1, start=number)
        heard += peer.heard()
        if number % 3 == 0:  # a third as fast as they come, then faster
            got += ages(heard)
            heard = await acknowledged(peer, heard)
        while number - len(got) > 6:
            got += ages(heard)
            heard = await acknowledged(peer, heard)
    while heard:
        got += ages(heard)
        heard = await acknowledged(peer, heard)
    assert list(range(40)) == got


async def test_a_reader_too_slow_for_the_log_begins_anew(world):
    """C11, D24: connected, but behind by more than is kept: told once, then complete again."""
    peer = await durable(world, "Dog/#", receive_maximum=1)
    await world.put("Dog/7", b'{"age":7}')
    for number in range(20):  # more than its queue, which is in memory, holds
        world.kernel.reader.queue_events = 0
        await pass_hours(world, 1, start=number)
    subscription = world.broker.sessions.get("d").subscription
    assert 0 < subscription.waiting
    heard, told = await peer.hear(), []
    while heard:
        told += topics(heard)
        heard = await acknowledged(peer, heard)
    assert [] == [topic for topic in told if topic.startswith("$reset")]
    assert 21 == len(told)


@pytest.mark.parametrize("killed", [False, True])
async def test_an_idle_session_does_not_fall_off(world, killed):
    """A connected client that nothing is for keeps up, also over a kill of the server."""
    peer = await durable(world, "Dog/quiet")
    await pass_hours(world, 40, topic="Dog/busy")
    if killed:
        world = await world.killed()
    else:
        peer.lose()
    await pass_hours(world, 2, topic="Dog/quiet", start=70)
    _, heard = await back(world)
    assert (["Dog/quiet"] * 2, [70, 71]) == (topics(heard), ages(heard))


async def test_places_of_idle_sessions_are_written_now_and_then(world):
    """Not with every message of others, and not at all when nothing has changed."""
    await durable(world, "Dog/quiet")
    await world.pass_time(10)
    commits = world.committer.commits
    for _ in range(10):
        await world.say("Dog/busy", b"{}")
        await world.pass_time(1)
    assert commits + 10 == world.committer.commits
    await world.pass_time(SESSION_REFRESH_SECONDS)
    assert commits + 11 == world.committer.commits
    await world.pass_time(10 * SESSION_REFRESH_SECONDS)
    assert commits + 11 == world.committer.commits


async def test_a_world_without_durable_sessions_has_no_such_timer():
    world = MqttServer()
    await world.subscribed("a", qos=1)
    await world.pass_time(2 * SESSION_REFRESH_SECONDS)
    assert [] == [timer for timer in world.loop.due() if timer.when > world.loop.now + HOUR]
