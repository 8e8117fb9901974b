"""Retained messages and the retainer's rules as MQTT clients see them (E12 to E15, E17 to E23)."""

import pytest

from mqtt_server import OTHER, MqttServer, Puback, Publish, topics
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.features.retained.retain_rules import Retaining, RetainRules
from rowcast.mqtt.reasons import Reason


def ruled(world, **rules):
    rules = RetainRules(**rules)
    world.kernel.steps.add("retained", Retaining(rules, lambda: world.time, world.store).step)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"enabled": False}, Reason.TOPIC_NAME_INVALID),
        ({"payload_bytes_max": 3}, Reason.QUOTA_EXCEEDED),
        ({"messages_max": 1}, Reason.QUOTA_EXCEEDED),
        ({"publish_rate": 0.001}, Reason.QUOTA_EXCEEDED),
    ],
)
async def test_e18_a_refused_publish_is_told_with_reason_and_setting(rules, reason):
    world = MqttServer()
    ruled(world, **rules)
    publisher = await world.connected()
    reader = await world.subscribed("#", client_id="r")
    publisher.publish("a/1", b"1", 1, True, 1)
    publisher.publish("a/2", b"22222", 1, True, 2)
    answer = (await publisher.hear())[-1]
    assert (Puback, 2, reason) == (type(answer), answer.packet_id, answer.reason)
    assert "retainer." in answer.properties["reason_string"]
    assert "a/2" not in topics(await reader.hear())  # nor was it sent on as if it were kept


async def test_e18_before_mqtt_5_what_is_refused_for_good_is_acknowledged():
    world = MqttServer()
    ruled(world, payload_bytes_max=3)
    publisher = await world.connected(version=4)
    publisher.publish("a/1", b"22222", 1, True, 2)
    assert [Puback] == [type(packet) for packet in await publisher.hear()]
    assert (1, 0) == (world.broker.refusals, world.store.count(None))


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("silent", [False, True])
async def test_e20_clear_messages_are_kept_from_subscribers_if_that_is_set(silent, qos):
    """stop_publish_clear_msg; deletions in tables are still heard of."""
    world = MqttServer(clears_silently=silent)
    await world.put("a/1", b"1")
    await world.put("Dog/1", b'{"name":"a"}')
    reader = await world.subscribed("a/#", "Dog/#", qos=qos)
    publisher = await world.connected("p")
    publisher.publish("a/1", b"", 1, True, 1)
    publisher.publish("Dog/1", b"", 1, True, 2)
    publisher.publish("a/2", b"2", 1, True, 3)
    await publisher.hear()
    heard = [
        (p.topic, p.payload) for p in [*reader.later, *await reader.hear()] if p.payload != b"1"
    ]
    cleared = [] if silent else [("a/1", b"")]
    assert [*cleared, ("Dog/1", b""), ("a/2", b"2")] == [
        pair for pair in heard if not pair[1].startswith(b"{")
    ]
    assert [PUT, PUT, DELETE, DELETE, PUT] == [event.kind for event in world.store.read(0, 99)]
    assert MESSAGE not in [event.kind for event in world.store.read(0, 99)]


# -- what is kept beside the payload ---------------------------------------------------------------

PROPERTIES = {
    "payload_format_indicator": 1,
    "content_type": "text/x",
    "response_topic": "back/here",
    "correlation_data": b"\0\1",
    "user_property": (("a", "1"), ("a", "2"), ("", "")),
}


@pytest.mark.parametrize("restart", [False, True])
async def test_e22_properties_are_kept_and_the_expiry_counts_down(restart):
    """E22, MQTT-3.3.2-6: over a restart, and never below what remains."""
    world = MqttServer()
    publisher = await world.connected()
    publisher.publish("a/1", b"x", 1, True, 1, **PROPERTIES, message_expiry_interval=100)
    await publisher.hear()
    world = await world.killed(40) if restart else world
    if not restart:
        await world.pass_time(40)
    (message,) = (await world.subscribed("a/#", client_id="r", qos=1)).later
    assert {**PROPERTIES, "message_expiry_interval": 60} == message.properties
    assert (True, 1, b"x") == (message.retain, message.qos, message.payload)
    await world.pass_time(60)
    assert [] == (await world.subscribed("a/#", client_id="late")).later


async def test_e17_a_default_expiry_counts_down_too():
    world = MqttServer()
    ruled(world, expiry_seconds=100)
    await world.put("a/1", b"x")
    await world.pass_time(30)
    (message,) = (await world.subscribed("a/#")).later
    assert {"message_expiry_interval": 70} == message.properties


# -- many ------------------------------------------------------------------------------------------

COUNT = 1_500
"""More than one page of records."""
LASTING = {"session_expiry_interval": 9_999, "receive_maximum": 10}


async def pump(peer, wanted, known=()):
    """Acknowledge until so many topics were heard; return them, acknowledged ones, most at once."""
    coming, answered, most = list(peer.later), set(), 0
    heard = set(known) | {message.topic for message in coming}
    while len(heard) < wanted:
        most = max(most, len(coming))
        for message in coming:
            peer.send(Puback(message.packet_id))
        answered |= {message.topic for message in coming}
        coming = [packet for packet in await peer.hear() if isinstance(packet, Publish)]
        heard |= {message.topic for message in coming}
    return heard, answered, most


@pytest.mark.parametrize("cut", [0, 1, 555, 1_000])
async def test_e21_a_wildcard_gets_all_in_its_window_also_over_a_reconnect(cut):
    """E21, E19: QoS 1, ten at a time, resumed where it was broken off, none missing."""
    world = MqttServer()
    for number in range(COUNT):
        event = Event(f"a/{number:04}", PUT, b"%d" % number, None, 1, True)
        world.kernel.submit(event, OTHER)
    await world.turn()
    peer = world.peer()
    await peer.connect("c", clean_start=False, properties=LASTING)
    await peer.subscribe("a/+", qos=1)
    heard, answered, most = await pump(peer, cut)
    await world.turn()
    peer.lose()
    again = world.peer()
    await again.connect("c", clean_start=False, properties=LASTING)
    every, later, wide = await pump(again, COUNT, heard)
    assert (COUNT, True) == (len(every), max(most, wide) <= 10)
    assert set() == answered & later
