"""Rows of topic tables as MQTT clients get them, over connections and kills (F3, D16)."""

import json

import pytest

from mqtt_server import Puback, Pubcomp, Publish, Pubrec, topics, users
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter

HOME = TopicTable("mqtt_home", TopicRoot("home"))
LASTING = {"session_expiry_interval": 3600}


def with_table(world):
    """Give a world's kernel the topic table of ``home``."""
    world.store.define(HOME)
    world.kernel.views.define(HOME)
    if not world.kernel.durable.wanted("home/t"):
        world.kernel.durable.add(TopicFilter("home/#"))
    return world


async def back(world, client_id="s", **properties):
    peer = world.peer()
    await peer.connect(client_id, clean_start=False, properties=LASTING | properties)
    return peer


def kinds(packets):
    """Return which of the messages are rows."""
    return [topic.startswith("mqtt_home/") for topic in topics(packets)]


async def complete(peer, packets):
    """Acknowledge messages of QoS 2 to the end; return what comes meanwhile."""
    heard = []
    for packet in packets:
        heard += await peer.ask(Pubrec(packet.packet_id))
        heard += await peer.ask(Pubcomp(packet.packet_id))
    return [item for item in heard if isinstance(item, Publish)]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("most", [1, 10])
async def test_both_of_one_message_come_once(world, restart, most):
    """D16, X1: whatever is cut between the row and the message itself."""
    with_table(world)
    peer = await back(world, receive_maximum=most)
    await peer.subscribe("home/#", "mqtt_home/+", qos=2)
    writer = await world.connected("p")
    writer.publish("home/t", b"1", 2, packet_id=1)
    first = [packet for packet in await peer.hear() if isinstance(packet, Publish)]
    assert kinds(first) == [True, False][:most]
    peer.lose()
    later = with_table(await world.killed()) if restart else world
    peer = await back(later, receive_maximum=most)
    again = [packet for packet in peer.later if isinstance(packet, Publish)]
    assert [(packet.topic, packet.payload) for packet in again] == [
        (packet.topic, packet.payload) for packet in first
    ]
    assert all(packet.dup for packet in again)
    rest = await complete(peer, again)
    assert kinds(rest) == ([False] if most == 1 else [])
    assert await complete(peer, rest) == []


async def test_a_row_of_a_clean_session_is_acknowledged(world):
    """D17: a flight that is only a number."""
    with_table(world)
    peer = await world.subscribed("mqtt_home/#", qos=1)
    await (await world.connected("p")).ask(Publish("home/t", b"1", 1, packet_id=1))
    (row,) = await peer.hear()
    assert json.loads(row.payload)["payload"] == 1
    assert await peer.ask(Puback(row.packet_id)) == []


async def test_who_asks_is_told_the_position(world):
    """M1: not with a row that comes before the message itself."""
    with_table(world)
    peer = await world.subscribed(
        "home/#", "mqtt_home/+", connect={"properties": users(("seq", ""))}
    )
    await peer.hear()
    await (await world.connected("p")).ask(Publish("home/t", b"1", 1, packet_id=1))
    row, itself = await peer.hear()
    told = [dict(packet.properties["user_property"]).get("seq") for packet in (itself,)]
    assert told == [world.cursor(1)]
    assert "user_property" not in (row.properties or {})


@pytest.mark.parametrize("restart", [False, True])
async def test_a_group_deals_rows(world, restart):
    """D30, D31: what a member left open is a row again for the next."""
    with_table(world)
    one = await back(world, "one")
    await one.subscribe("$share/g/mqtt_home/+", qos=1)
    await (await world.connected("p")).ask(Publish("home/t", b"1", 1, packet_id=1))
    (row,) = await one.hear()
    one.lose()
    later = with_table(await world.killed()) if restart else world
    if not restart:
        await later.pass_time(1)
    two = await later.connected("two")
    await two.subscribe("$share/g/mqtt_home/+", qos=1)
    heard = [*two.later, *await two.hear()]
    assert [(item.topic, item.payload) for item in heard] == [(row.topic, row.payload)]


async def test_rows_cannot_be_published(world):
    """F3: with a reason, and a sentence for who understands it."""
    with_table(world)
    peer = await world.connected("p")
    (answer,) = await peer.ask(Publish("mqtt_home/x", b"1", 1, True, packet_id=1))
    assert answer.reason >= 0x80
    assert "publish to a topic such as 'home/...'" in answer.properties["reason_string"]


@pytest.mark.parametrize(
    ("asked", "shown"), [({"last": "2"}, [2, 3]), ({"stream-offset": "first"}, [1, 2, 3])]
)
async def test_a_subscription_may_begin_in_the_past(world, asked, shown):
    """C24, E25: with the last rows, or as a stream."""
    with_table(world)
    writer = await world.connected("p")
    for n in range(1, 4):
        await writer.ask(Publish("home/t", b"%d" % n, 1, packet_id=n))
    peer = await world.connected("s")
    text = "$stream/mqtt_home/+" if "stream-offset" in asked else "mqtt_home/+"
    await peer.subscribe(text, properties=users(*asked.items()))
    heard = [item for item in [*peer.later, *await peer.hear()] if "mqtt_home" in item.topic]
    assert [json.loads(item.payload)["payload"] for item in heard] == shown
