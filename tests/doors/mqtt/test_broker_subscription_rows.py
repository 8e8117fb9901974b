"""M11: $SYS/subscriptions: each filter of each session, readable, live, and ended by a delete."""

import json

import pytest

from mqtt_server import MqttServer, Publish, topics
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Error
from rowcast.doors.mqtt.sessions.observers import SUBSCRIPTIONS

LASTING = {"properties": {"session_expiry_interval": 100}}
ADMIN = Caller("root", ALL)


@pytest.fixture
async def world():
    return MqttServer()


def resource(world, name=""):
    entry = world.kernel.registry.route(SUBSCRIPTIONS).entry
    return entry.resource(world.kernel, f"{SUBSCRIPTIONS}/{name}", name, ADMIN)


async def names(world):
    return [row["id"] for row in await resource(world).get()]


async def test_each_filter_is_a_row_with_its_options(world):
    await world.subscribed("home/#", client_id="a/b", qos=1)
    (row,) = await resource(world).get()
    assert ("a%2Fb/home/%23", "a/b", "home/#", 1, True) == (
        row["id"], row["client_id"], row["filter"], row["qos"], row["connected"],
    )  # fmt: skip
    assert row == await resource(world, row["id"]).get()
    assert await resource(world, "a%2Fb/home").get() is None
    assert await resource(world, "nobody/home").get() is None


async def test_shared_filters_are_there_as_they_were_asked_for(world):
    await world.subscribed("$share/g/home/+", client_id="c")
    assert ["c/$share/g/home/%2B"] == await names(world)


async def test_who_watches_hears_of_a_new_one_a_change_and_the_end(world):
    watcher = await world.subscribed(f"{SUBSCRIPTIONS}/c/#", client_id="watcher")
    await watcher.hear()
    peer = await world.subscribed("x/+", client_id="c", qos=0)
    (new,) = [packet for packet in await watcher.hear() if isinstance(packet, Publish)]
    assert (f"{SUBSCRIPTIONS}/c/x/%2B", 0) == (new.topic, json.loads(new.payload)["qos"])
    await peer.subscribe("x/+", qos=1)
    (other,) = await watcher.hear()
    assert 1 == json.loads(other.payload)["qos"]
    peer.lose()
    (gone,) = await watcher.hear()
    assert (new.topic, b"") == (gone.topic, gone.payload)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("text", ["home/#", "$share/g/home/#"])
async def test_deleting_a_row_ends_the_subscription(world, away, text):
    """Also of a client that is away: it gets nothing when it comes back."""
    peer = await world.subscribed(text, client_id="c", qos=1, connect=LASTING)
    if away:
        peer.lose()
    (name,) = await names(world)
    await resource(world, name).delete()
    assert [] == await names(world)
    with pytest.raises(Error, match="there is no subscription"):
        await resource(world, name).delete()
    if away:
        peer = await world.connected("c", 5, clean_start=False, **LASTING)
    await world.say("home/x", b"1")
    assert [] == topics(await peer.hear())
