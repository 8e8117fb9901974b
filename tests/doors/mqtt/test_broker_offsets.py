"""$stream/<filter>: a subscription that begins somewhere in the log (D55)."""

import pytest

from mqtt_server import (
    EPOCH,
    OTHER,
    VERSIONS,
    MqttServer,
    Publish,
    Unsubscribe,
    topics,
    user,
    users,
)
from rowcast.core.events import MESSAGE, Event
from rowcast.mqtt.packets import Suback, Subscribe, Subscription
from rowcast.mqtt.reasons import Reason
from rowcast.routes.resource import Resource
from rowcast.store.store import Keep


def offset(value):
    """Return the properties of a SUBSCRIBE with a stream's offset."""
    return users(("stream-offset", value))


async def stream(world, topics_, value=None, client_id="s", version=5, qos=1):
    """Subscribe to a stream; return the connection, the reason, and what comes at once."""
    peer = await world.connected(client_id, version)
    properties = offset(value) if value else None
    [reason] = await peer.subscribe(f"$stream/{topics_}", qos=qos, properties=properties)
    return peer, reason, [*peer.later, *await peer.hear()]


async def history(world, count=6):
    """Write so many events to two dogs in turn, ten seconds apart, and one cat that is nobody's."""
    for number in range(count):
        await world.put(f"Dog/{number % 2}", b'{"age":%d}' % number)
        world.time += 10
    world.kernel.submit(Event("Cat/1", MESSAGE, b"x", None, 1, False), OTHER)
    await world.turn()


def ages(packets):
    """Return what the messages among packets say."""
    return [int(item.payload[7:-1]) for item in packets if isinstance(item, Publish) and item.qos]


@pytest.mark.parametrize(
    ("topics_", "value", "expected"),
    [
        ("Dog/+", "first", [0, 1, 2, 3, 4, 5]),
        ("Dog/0", "first", [0, 2, 4]),
        ("Dog/+", "last", [5]),
        ("Dog/0", "last", [4]),
        ("+/0", "last", [4]),
        ("Dog/+", "next", []),
        ("Dog/+", None, []),
        ("Dog/+", f"{EPOCH}:2", [2, 3, 4, 5]),
        ("Dog/+", "2023-11-14T22:13:50Z", [3, 4, 5]),
        ("Dog/+", "2023-11-14T23:13:50.000+01:00", [3, 4, 5]),
        ("Dog/+", "2001-01-01", [0, 1, 2, 3, 4, 5]),
        ("Dog/+", "2099-01-01T00:00:00Z", []),
        ("#", "first", [0, 1, 2, 3, 4, 5]),
    ],
)
async def test_a_stream_begins_at_its_offset(plain_world, topics_, value, expected):
    """D55: events of the log under their own topics, then live ones, without a seam."""
    world = plain_world
    await history(world)
    peer, reason, heard = await stream(world, topics_, value)
    assert (Reason.GRANTED_QOS_1, expected) == (reason, ages(heard))
    assert [] == [item for item in heard if isinstance(item, Publish) and item.retain]
    await world.put("Dog/0", b'{"age":99}')
    assert [99] == ages(await peer.hear())


async def test_a_stream_tells_where_it_is(world):
    """M1, D55: a consumer can keep the cursor, and continue there."""
    await history(world)
    peer, _, heard = await stream(world, "Dog/+", "first")
    cursor = user(heard[2], "seq")
    peer.lose()
    _, _, again = await stream(world, "Dog/+", cursor)
    assert [3, 4, 5] == ages(again)


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_an_offset_it_begins_now(world, version):
    """D55: also for versions that have no word for it."""
    await history(world)
    peer, reason, heard = await stream(world, "Dog/+", version=version)
    assert (1, []) == (reason, ages(heard))
    await world.put("Dog/0", b'{"age":99}')
    assert [99] == ages(await peer.hear())


async def test_first_is_what_the_log_still_has(world):
    """D55: no reset, although the beginning was trimmed."""
    await history(world)
    world.store.trim(world.kernel.registry.route("Dog/1").table, Keep(events=3), world.time, 100)
    _, _, heard = await stream(world, "Dog/+", "first")
    assert ([3, 4, 5], ["Dog/1", "Dog/0", "Dog/1"]) == (ages(heard), topics(heard))


@pytest.mark.parametrize("value", ["deadbeef:1", f"{EPOCH}:1", f"{EPOCH}:99"])
async def test_a_cursor_that_leads_nowhere_is_told_with_a_reset(world, value):
    """C11, D55: of another log, too old, beyond the end: then the records as they are."""
    await history(world)
    world.store.trim(world.kernel.registry.route("Dog/1").table, Keep(events=3), world.time, 100)
    _, reason, heard = await stream(world, "Dog/+", value)
    assert (1, "$reset/0") == (reason, heard[0].topic)
    assert {"Dog/0", "Dog/1"} == set(topics(heard)[1:-1])


async def test_undeclared_topics_have_what_was_logged(plain_world):
    """D55: what a durable session wanted, and retained values."""
    world = plain_world
    session = {"clean_start": False, "properties": {"session_expiry_interval": 600}}
    durable = await world.subscribed("a/logged", client_id="d", qos=1, connect=session)
    for number in range(3):
        await world.say("a/logged", b'{"age":%d}' % number)
        await world.say("a/other", b'{"age":9}')
    _, reason, heard = await stream(world, "a/#", "first")
    assert (1, [0, 1, 2]) == (reason, ages(heard))
    durable.lose()


class Clock(Resource):
    """Streams by its own code."""

    def connect(self, incoming=None):
        return super().connect(incoming)


@pytest.mark.parametrize(
    ("topics_", "words"),
    [
        ("$gateway/#", "server's own"),
        ("$share/g/a", "shared subscriptions"),
        ("Clock", "its own code"),
    ],
)
async def test_what_has_no_history_is_refused(world, topics_, words):
    world.kernel.registry.add("Clock", Clock)
    peer = await world.connected("s")
    wanted = (Subscription(f"$stream/{topics_}", 1), Subscription("Dog/+", 1))
    [suback] = [
        item
        for item in await peer.ask(Subscribe(1, wanted, offset("first")))
        if isinstance(item, Suback)
    ]
    assert (Reason.IMPLEMENTATION_SPECIFIC_ERROR, 1) == suback.reasons
    assert words in suback.properties["reason_string"]


@pytest.mark.parametrize("value", ["firsst", "12", "2023-13-01", "-1", "9" * 40])
async def test_an_offset_that_is_none_is_refused(world, value):
    peer = await world.connected("s")
    wanted = (Subscription("$stream/Dog/+", 1),)
    [suback] = await peer.ask(Subscribe(1, wanted, offset(value)))
    assert (Reason.IMPLEMENTATION_SPECIFIC_ERROR,) == suback.reasons
    assert "first, last, next, a cursor" in suback.properties["reason_string"]


async def test_a_filter_with_a_wrong_wildcard_is_refused(world):
    peer = await world.connected("s")
    assert (Reason.TOPIC_FILTER_INVALID,) == await peer.subscribe("$stream/a/#/b", qos=1)


async def test_it_ends_as_it_began(world):
    """MQTT-3.10.4-1: by the filter that it was asked for with."""
    peer, _, _ = await stream(world, "Dog/+", "first")
    [answer] = await peer.ask(Unsubscribe(3, ("$stream/Dog/+",)))
    assert (Reason.SUCCESS,) == answer.reasons
    await world.put("Dog/0", b'{"age":99}')
    assert [] == await peer.hear()


async def test_a_durable_stream_goes_on_where_it_was(world):
    """D27, D55: also when it was cut off in the middle of its history, by a kill of the server."""
    await history(world, 20)
    limits = {"session_expiry_interval": 600, "receive_maximum": 4}
    session = {"clean_start": False, "properties": limits}
    peer = await world.connected("s", **session)
    await peer.subscribe("$stream/Dog/+", qos=1, properties=offset("first"))
    first = [*peer.later, *await peer.hear()]
    assert [0, 1, 2, 3] == ages(first)
    later = await world.killed()
    again = later.peer()
    limits = {"session_expiry_interval": 600}
    await again.connect("s", clean_start=False, properties=limits)
    heard = [*again.later, *await again.hear()]
    await again.subscribe("$stream/Dog/+", qos=1, properties=offset("first"))
    heard += [*again.later, *await again.hear()]
    assert (20, list(range(20))) == (len(ages(heard)), sorted(set(ages(heard))))


@pytest.mark.parametrize("prefix", ["$share/g/", "$queue/"])
async def test_a_new_group_begins_at_an_offset(world, prefix):
    """D55: also with shared groups; who joins later changes nothing."""
    await history(world)
    one = await world.connected("one")
    await one.subscribe(f"{prefix}Dog/+", qos=1, properties=offset("first"))
    heard = [*one.later, *await one.hear()]
    assert [0, 1, 2, 3, 4, 5] == ages(heard)
    two = await world.connected("two")
    await two.subscribe(f"{prefix}Dog/+", qos=1, properties=offset("first"))
    assert [] == ages([*two.later, *await two.hear()])


async def test_packets_wait_until_the_log_was_asked(world):
    """MQTT-4.6.0: SUBACK comes before what was sent after SUBSCRIBE is answered."""
    await history(world)
    peer = await world.connected("s")
    world.readers.hold()
    peer.send(Subscribe(1, (Subscription("$stream/Dog/+", 1),), offset("last")))
    peer.publish("Dog/0", b'{"age":7}', qos=1, packet_id=2)
    assert [] == await peer.hear()
    world.readers.release()
    heard = await peer.hear()
    assert isinstance(heard[0], Suback)
    assert [5, 7] == ages(heard)


async def test_where_undeclared_topics_are_rejected_they_have_no_history():
    world = MqttServer()
    world.kernel.registry.undeclared = False
    for text in ("a/#", "a"):
        _, reason, _ = await stream(world, text, "first", client_id=f"s{len(text)}")
        assert Reason.IMPLEMENTATION_SPECIFIC_ERROR == reason
