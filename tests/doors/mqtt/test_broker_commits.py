"""Marks after transactions over MQTT, for those who ask (C23)."""

import json

import pytest

from mqtt_server import OTHER, Puback, Publish, topics, user, users
from rowcast.codecs import JSON
from rowcast.core.events import PUT, Event

ASKS = users(("commits", "true"))


async def together(world, *names):
    """Put all or none; return the cursor of the last event."""
    events = [Event(name, PUT, b'{"name": "x"}', JSON, 1, True) for name in names]
    outcomes = await world.kernel.write_all(events, OTHER, atomic=True)
    return world.cursor(outcomes[-1].event.seq)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_c23_a_mark_is_a_message_after_the_transaction(world, qos):
    """C23: at the subscription's identifier, with the position in payload and property."""
    peer = await world.connected("s")
    await peer.subscribe("Dog/+", "loose/#", qos=qos, properties=ASKS | IDENTIFIED)
    assert ["$commit/7"] == topics([*peer.later, *await peer.hear()])
    end = await together(world, "Dog/1", "loose/1", "Dog/2", "Number/1")
    heard = await peer.hear()
    assert ["Dog/1", "loose/1", "Dog/2", "$commit/7"] == topics(heard)
    mark = heard[-1]
    assert ({"cursor": end}, end, 0) == (json.loads(mark.payload), user(mark, "seq"), mark.qos)


IDENTIFIED = {"subscription_identifier": 7}


async def test_each_subscription_that_asked_has_its_own_mark(world):
    peer = await world.connected("s")
    await peer.subscribe("Dog/+", properties=ASKS | IDENTIFIED)
    await peer.subscribe("loose/#", properties=ASKS)
    await peer.subscribe("Note/#")
    await peer.hear()
    await together(world, "Dog/1", "loose/1", "Note/1")
    await together(world, "Note/1", "loose/2")
    await together(world, "Note/2", "Note/3")
    heard = topics(await peer.hear())
    assert ["Dog/1", "loose/1", "Note/1"] == heard[:3]
    assert {"$commit/7", "$commit/0"} == {*heard[3:5]}
    assert ["Note/1", "loose/2", "$commit/0", "Note/2", "Note/3"] == heard[5:]


async def test_c23_a_window_smaller_than_a_transaction_ends_it_once(world):
    """C23: the mark comes when the client has acknowledged so much that the last event was sent."""
    peer = await world.connected("s", properties={"receive_maximum": 1})
    await peer.subscribe("Dog/+", qos=1, properties=ASKS)
    heard = [*peer.later, *await peer.hear()]
    await together(world, "Dog/1", "Dog/2", "Dog/3")
    for _ in range(6):
        new = [packet for packet in await peer.hear() if isinstance(packet, Publish)]
        heard += new
        peer.send(*(Puback(packet.packet_id) for packet in new if packet.qos))
    assert ["$commit/0", "Dog/1", "Dog/2", "Dog/3", "$commit/0"] == topics(heard)


async def test_c23_a_session_that_comes_back_has_its_mark_again(world):
    """C23: a connection that was lost may have had the last event and not its mark."""
    lasting = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}
    peer = await world.connected("s", **lasting)
    await peer.subscribe("Dog/+", qos=1, properties=ASKS | IDENTIFIED)
    await peer.hear()
    peer.lose()
    end = await together(world, "Dog/1", "Dog/2")
    again = world.peer()
    await again.connect("s", **lasting)
    heard = [*again.later, *await again.hear()]
    again.send(*(Puback(packet.packet_id) for packet in heard if packet.qos))
    heard += await again.hear()
    assert ["Dog/1", "Dog/2", "$commit/7"] == topics(heard)[-3:]
    assert end == user(heard[-1], "seq")
    again.lose()
    last = world.peer()
    await last.connect("s", **lasting)
    heard = [*last.later, *await last.hear()]
    assert [("$commit/7", end)] == [(it.topic, user(it, "seq")) for it in heard]


async def test_a_killed_server_still_knows_who_asked(world):
    lasting = {"clean_start": False, "properties": {"session_expiry_interval": 3600}}
    peer = await world.connected("s", **lasting)
    await peer.subscribe("Dog/+", qos=1, properties=ASKS)
    await peer.hear()
    after = await world.killed()
    again = after.peer()
    await again.connect("s", **lasting)
    await again.hear()
    await together(after, "Dog/1", "Dog/2")
    assert ["Dog/1", "Dog/2", "$commit/0"] == topics(await again.hear())


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_who_did_not_ask_has_no_marks(world, version):
    peer = await world.subscribed("#", version=version)
    await together(world, "Dog/1", "Dog/2")
    assert ["Dog/1", "Dog/2"] == topics(await peer.hear())


async def test_a_shared_subscription_has_no_marks(world):
    """What is assigned to several members is complete for none of them."""
    peer = await world.connected("s")
    await peer.subscribe("$share/g/Dog/+", properties=ASKS)
    await together(world, "Dog/1", "Dog/2")
    assert ["Dog/1", "Dog/2"] == topics([*peer.later, *await peer.hear()])
