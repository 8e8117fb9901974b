"""Topic Aliases towards clients: only for those that keep some, and they always know the topic."""

import pytest

from mqtt_server import payloads, topics
from rowcast.doors.mqtt.delivery import delivery_format as forms
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Publish

TOPIC = "a/long/topic"


async def keeping(world, maximum, client_id="s", **properties):
    """Return a client that keeps so many aliases, and refuses any other."""
    peer = world.peer()
    peer.decoder.topic_alias_maximum = maximum
    await peer.connect(client_id, properties={"topic_alias_maximum": maximum, **properties})
    return peer


def plain(topic, payload, **properties):
    """Return how many bytes a message of QoS 0 has without an alias."""
    return len(encode(Publish(topic, payload, properties=properties or None), 5))


async def say(world, peer, *messages):
    """Send messages one by one; return how many bytes each came with."""
    sizes = []
    for topic, payload in messages:
        before = len(peer.transport.sent)
        await world.say(topic, payload)
        await world.turn()
        sizes.append(len(b"".join(peer.transport.sent[before:])))
    return sizes


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_topic_goes_out_once(world, qos):
    """D42, MQTT 5, 3.3.2.3.4: at first with its alias, then the alias alone."""
    peer = await keeping(world, 5)
    await peer.subscribe("a/#", qos=qos)
    publisher = await world.connected("p")
    for number in range(1, 4):
        publisher.publish(TOPIC, b"%d" % number, qos, packet_id=number if qos else 0)
    messages = await peer.hear()
    assert [TOPIC] * 3 == topics(messages)
    assert [b"1", b"2", b"3"] == payloads(messages)
    assert b"".join(peer.transport.sent).count(TOPIC.encode()) == 1


async def test_a_client_that_keeps_none_gets_none(world):
    """MQTT-3.1.2-27, MQTT-3.3.2-11: not a byte is different."""
    for maximum in (0, None):
        options = {} if maximum is None else {"topic_alias_maximum": maximum}
        peer = await world.connected(f"s{maximum}", properties=options or None)
        await peer.subscribe("a/#")
        assert [plain(TOPIC, b"x")] * 2 == await say(world, peer, (TOPIC, b"x"), (TOPIC, b"x"))
        assert peer.client.aliases is None


async def test_before_five_there_are_none(world):
    peer = await world.connected("s", 4)
    assert peer.client.aliases is None


async def test_no_more_than_the_client_keeps(world):
    """MQTT-3.1.2-26: its decoder refuses one over the maximum; the second topic has none."""
    peer = await keeping(world, 1)
    await peer.subscribe("#")
    sizes = await say(world, peer, ("a/long", b""), ("b/long", b""), ("a/long", b""))
    assert [plain("a/long", b"") + 3, plain("b/long", b""), plain("", b"") + 3] == sizes
    assert ["a/long", "b/long", "a/long"] == topics(peer.heard())


async def test_a_new_connection_knows_none(world):
    """MQTT-3.3.2-7: also what is sent again carries its topic."""
    options = {"session_expiry_interval": 60}
    peer = await keeping(world, 5, **options)
    await peer.subscribe("a/#", qos=1)
    publisher = await world.connected("p")
    for number in (1, 2):
        publisher.publish(TOPIC, b"%d" % number, 1, packet_id=number)
    await peer.hear()
    peer.lose()
    again = world.peer()
    again.decoder.topic_alias_maximum = 5
    await again.connect("s", clean_start=False, properties={"topic_alias_maximum": 5, **options})
    publisher.publish(TOPIC, b"3", 1, packet_id=3)
    heard = [*again.later, *await again.hear()]
    assert [b"1", b"2", b"3"] == payloads(heard)
    assert b"".join(again.transport.sent).count(TOPIC.encode()) == 3
    assert {TOPIC} == set(topics(heard))


async def test_an_alias_that_would_be_too_much_is_left_out(world):
    """MQTT-3.1.2-24: and the client is not thought to know it."""
    most = 60
    peer = await keeping(world, 5, maximum_packet_size=most)
    await peer.subscribe("a/#")
    full = b"x" * (most - plain(TOPIC, b""))
    sizes = await say(world, peer, (TOPIC, full), (TOPIC, b"y"), (TOPIC, full + b"z" * 9))
    assert [most, plain(TOPIC, b"y") + 3, most] == sizes
    assert [TOPIC] * 3 == topics(peer.heard())
    assert 0 == world.broker.deliveries.dropped_large


async def test_an_alias_makes_room_for_more(world):
    """A message that is too large with its topic may be sent without it."""
    peer = await keeping(world, 5, maximum_packet_size=40)
    await peer.subscribe("a/#")
    large = b"x" * (40 - plain("", b"") - 3)
    sizes = await say(world, peer, (TOPIC, large), (TOPIC, b"y"), (TOPIC, large))
    assert [0, plain(TOPIC, b"y") + 3, 40] == sizes
    assert 1 == world.broker.deliveries.dropped_large


@pytest.mark.interpreted
async def test_a_frame_with_an_alias_is_made_once(world, monkeypatch):
    """D64: clients that know the topic by one number share it, whatever else they are."""
    made = []
    make = forms.alias_frame
    monkeypatch.setattr(
        forms,
        "alias_frame",
        lambda frame, number, *, known: made.append(known) or make(frame, number, known=known),
    )
    for number in range(20):
        peer = await keeping(world, 5, f"s{number}")
        await peer.subscribe("a/#")
    for _ in range(2):
        await world.say(TOPIC, b"x")
        await world.turn()
    assert [False, True] == made


async def test_with_identifiers_and_expiry(world):
    """What few clients share gets its alias too."""
    peer = await keeping(world, 5)
    await peer.subscribe("a/#", properties={"subscription_identifier": 7})
    publisher = await world.connected("p")
    for _ in range(2):
        publisher.publish(TOPIC, b"x", message_expiry_interval=9)
    wanted = {"subscription_identifier": (7,), "message_expiry_interval": 9}
    assert [(TOPIC, wanted)] * 2 == [(it.topic, it.properties) for it in await peer.hear()]


async def test_what_has_no_frame_has_no_alias(world):
    """A table that is hidden from MQTT: nothing is sent, and nothing is remembered."""
    peer = await keeping(world, 5)
    await peer.subscribe("#", qos=1)
    await world.put("Secret/1", b'{"n":1}')
    assert ([], {}) == (await peer.hear(), peer.client.aliases._known)
