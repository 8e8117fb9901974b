"""QoS 2: exactly once, over connections and over the server (D16, MQTT 5 4.3.3)."""

import asyncio

import pytest

from mqtt_server import (
    VERSIONS,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    payloads,
    user,
)
from rowcast.codecs import CBOR, MSGPACK, decode, encode
from rowcast.doors.mqtt.sessions.session_loading import FLIGHT
from rowcast.features.hooks.hook import Hook
from rowcast.store.store import Change

HOUR = {"session_expiry_interval": 3600}


async def connected(world, version=5, client_id="p"):
    """Return a connection with a durable session."""
    peer = world.peer(version)
    properties = HOUR if version == 5 else None
    await peer.connect(client_id, clean_start=False, properties=properties)
    return peer


def message(packet_id, payload=b"x", topic="a", dup=False):
    return Publish(topic, payload, 2, dup=dup, packet_id=packet_id)


@pytest.mark.parametrize("version", VERSIONS)
async def test_flow_in(world, version):
    """D16, MQTT-4.3.3-8: PUBREC, PUBREL, PUBCOMP; the message is delivered once."""
    other = await world.subscribed("a", version=version, qos=2)
    peer = await world.connected("p", version)
    assert [Pubrec(7)] == await peer.ask(message(7))
    assert [Pubrec(7)] == await peer.ask(message(7, dup=True))
    assert [Pubcomp(7)] == await peer.ask(Pubrel(7))
    assert [b"x"] == payloads(await other.hear())
    assert [Pubrec(7)] == await peer.ask(message(7, b"y"))
    assert [b"y"] == payloads(await other.hear())


@pytest.mark.parametrize("version", VERSIONS)
async def test_flow_out(world, version):
    """D16, D17, MQTT-4.3.3-2 to -4."""
    peer = await world.subscribed("a", version=version, qos=2)
    other = await world.connected("p", version)
    await other.ask(message(1))
    (publish,) = await peer.hear()
    assert (2, False) == (publish.qos, publish.dup)
    assert [Pubrel(publish.packet_id)] == await peer.ask(Pubrec(publish.packet_id))
    assert 1 == len(world.broker.sessions.get("s").window)
    assert [] == await peer.ask(Pubcomp(publish.packet_id))
    assert 0 == len(world.broker.sessions.get("s").window)


async def test_pubrec_follows_the_commit(world):
    """X9: on a table, PUBREC carries the position; it waits for the disk."""
    peer = await world.connected("p")
    world.writer.hold()
    peer.publish("Dog/1", b'{"name":"Rex"}', 2, True, 5)
    assert [] == await peer.hear()
    world.writer.release()
    (pubrec,) = await peer.hear()
    assert (5, world.cursor(1)) == (pubrec.packet_id, user(pubrec, "seq"))


async def test_refused_with_a_reason(world):
    """D43, MQTT-4.3.3-9: the identifier is free again."""
    peer = await world.connected("p")
    (pubrec,) = await peer.ask(message(5, b"no object", "Strict/1"))
    assert (5, 0x99) == (pubrec.packet_id, pubrec.reason)
    assert [Pubrec(5)] == await peer.ask(message(5, b"y"))
    assert 1 == len(world.broker.sessions.get("p").inbound)


@pytest.mark.parametrize("version", (4, 5))
@pytest.mark.parametrize("restart", [False, True])
async def test_in_over_connections(world, version, restart):
    """D16: sent again after a lost PUBREC, also over a kill of the server: stored once."""
    peer = await connected(world, version)
    await peer.ask(message(5, b'{"age":1}', "Dog/1"))
    peer.lose()
    other = await world.killed() if restart else world
    again = await connected(other, version)
    head = other.store.head()
    (pubrec,) = await again.ask(message(5, b'{"age":1}', "Dog/1", dup=True))
    assert (Pubrec, 5, 0) == (type(pubrec), pubrec.packet_id, pubrec.reason)
    assert head == other.store.head()
    assert [Pubcomp(5)] == await again.ask(Pubrel(5))
    last = await other.killed() if restart else other
    third = await connected(last, version)
    await third.ask(message(5, b'{"age":2}', "Dog/1"))
    assert head + 1 <= last.store.head()


async def test_an_identifier_of_an_earlier_session_is_none_of_the_next_one(world):
    """D16: its message waited for a hook; after a kill a new one was answered and not stored."""
    thought = asyncio.Event()

    class Slow(Hook):
        async def on_publish(self, caller, event):
            await thought.wait()

    world.kernel.hooks.add(Slow())
    first = await connected(world)
    assert [] == await first.ask(message(5, b"of the first"))
    await world.connected("p", properties=HOUR)
    thought.set()
    there = await world.killed()
    again = await connected(there)
    head = there.store.head()
    (pubrec,) = await again.ask(message(5, b"of the second"))
    assert (Pubrec, 0) == (type(pubrec), pubrec.reason)
    assert [b"of the second"] == [event.payload for event in there.store.read(head, 10)]
    last = await there.killed()
    third = await connected(last)
    assert [0] == [
        packet.reason for packet in await third.ask(message(5, b"of the second", dup=True))
    ]
    assert there.store.head() == last.store.head()


async def test_pubcomp_waits_until_the_identifier_is_free_on_disk(world):
    """D16: or a new message of this identifier would be taken for the old one after a kill."""
    peer = await connected(world)
    await peer.ask(message(5))
    world.writer.hold()
    assert [] == await peer.ask(Pubrel(5))
    world.writer.release()
    assert [Pubcomp(5)] == await peer.hear()


@pytest.mark.parametrize("version", (4, 5))
@pytest.mark.parametrize("restart", [False, True])
async def test_out_over_connections(world, version, restart):
    """D16, D18, MQTT-4.4.0-1: PUBLISH or PUBREL is sent again, by the state that each reached."""
    peer = await connected(world, version, "s")
    await peer.subscribe("a", qos=2)
    other = await world.connected("p", version)
    await other.ask(*(message(number, b"%d" % number) for number in (1, 2, 3)))
    sent = await peer.hear()
    assert [b"1", b"2", b"3"] == payloads(sent)
    first, second, third = (packet.packet_id for packet in sent)
    assert [Pubrel(second)] == await peer.ask(Pubrec(second))
    await peer.ask(Pubrec(third))
    await peer.ask(Pubcomp(third))
    peer.lose()
    later = await world.killed() if restart else world
    again = await connected(later, version, "s")
    heard = again.later
    if restart and len(heard) == 3:  # that it was complete was not on disk: it does not matter
        assert Pubrel(third) == heard.pop()
    assert [first] == [p.packet_id for p in heard if isinstance(p, Publish) and p.dup]
    assert Pubrel(second) in heard
    assert 2 == len(heard)
    assert [Pubrel(first)] == await again.ask(Pubrec(first))
    await again.ask(Pubcomp(first), Pubcomp(second), Pubcomp(third))
    assert 0 == len(later.broker.sessions.get("s").window)


async def test_a_flight_is_on_disk_before_its_publish(world):
    """D16: a kill must find the identifier that the client has seen."""
    peer = await connected(world, 5, "s")
    await peer.subscribe("Dog/#", qos=2)
    world.writer.hold()
    other = await world.connected("p")
    other.publish("Dog/1", b"{}", 2, True, 1)
    assert [] == await peer.hear()
    for _ in range(len(world.writer.waiting)):
        world.writer.step()
    assert [] == await peer.hear()  # it is announced, and its flight waits for the disk
    world.writer.release()
    (publish,) = await peer.hear()
    names = [name for _, name, _ in world.store.states("session/s")]
    assert f"out/{publish.packet_id}" in names


async def test_a_release_is_on_disk_before_its_pubrel(world):
    """D16: after PUBREL the client forgets the identifier; the message must not come again."""
    peer = await connected(world, 5, "s")
    await peer.subscribe("a", qos=2)
    await (await world.connected("p")).ask(message(1))
    (publish,) = await peer.hear()
    world.writer.hold()
    assert [] == await peer.ask(Pubrec(publish.packet_id))
    world.writer.release()
    assert [Pubrel(publish.packet_id)] == await peer.hear()
    again = await connected(await world.killed(), 5, "s")
    assert [Pubrel(publish.packet_id)] == again.later


async def test_a_flight_of_an_earlier_version_goes_on(world):
    """D27: it was written as a map."""
    peer = await connected(world, 5, "s")
    await peer.subscribe("a", qos=2)
    await (await world.connected("p")).ask(message(1))
    (publish,) = await peer.hear()
    name = f"out/{publish.packet_id}"
    (value,) = [value for _, kind, value in world.store.states("session/s") if kind == name]
    facts = dict(zip(FLIGHT, decode(value, MSGPACK), strict=False))
    del facts["meta"]
    world.store.commit([], [Change("session/s", name, encode(facts, CBOR))])
    again = await connected(await world.killed(), 5, "s")
    (repeat,) = again.later
    assert (publish.packet_id, True) == (repeat.packet_id, repeat.dup)


async def test_pubrels_go_in_the_order_of_their_pubrecs(world):
    """MQTT-4.6.0-4: also when they are sent again."""
    peer = await connected(world, 5, "s")
    await peer.subscribe("a", qos=2)
    other = await world.connected("p")
    await other.ask(*(message(number) for number in (1, 2, 3)))
    ids = [packet.packet_id for packet in await peer.hear()]
    order = [ids[2], ids[0], ids[1]]
    assert list(map(Pubrel, order)) == await peer.ask(*map(Pubrec, order))
    peer.lose()
    again = await connected(await world.killed(), 5, "s")
    assert list(map(Pubrel, order)) == again.later


async def test_pubrec_of_failure_ends_the_flight(world):
    """MQTT-4.3.3-4, MQTT-4.4.0-2: it is not sent again."""
    peer = await connected(world, 5, "s")
    await peer.subscribe("a", qos=2)
    await (await world.connected("p")).ask(message(1))
    (publish,) = await peer.hear()
    assert [] == await peer.ask(Pubrec(publish.packet_id, 0x83))
    peer.lose()
    again = await connected(world, 5, "s")
    assert [] == again.later


async def test_unknown_identifiers(world):
    """MQTT 5, 3.6.2.1, 3.7.2.1: 0x92."""
    peer = await world.connected("p")
    assert [Pubcomp(9, 0x92)] == await peer.ask(Pubrel(9))
    assert [Pubrel(9, 0x92)] == await peer.ask(Pubrec(9))
    assert [] == await peer.ask(Pubcomp(9))


@pytest.mark.parametrize(("qos", "answer"), [(1, Pubrec), (1, Pubcomp), (2, Puback), (2, Pubcomp)])
async def test_the_wrong_answer(world, qos, answer):
    """MQTT 5, 4.3: PUBACK for QoS 1, PUBREC for QoS 2, nothing else."""
    peer = await world.subscribed("a", qos=qos)
    await (await world.connected("p")).ask(Publish("a", b"x", qos, packet_id=1))
    (publish,) = await peer.hear()
    (told,) = await peer.ask(answer(publish.packet_id))
    assert (Disconnect, 0x82) == (type(told), told.reason)


async def test_the_wrong_answer_completes_nothing(world):
    """MQTT-4.4.0-1: a session that waits is sent the message again."""
    peer = await world.subscribed("a", qos=2, connect={"properties": HOUR})
    await (await world.connected("p")).ask(message(1))
    (publish,) = await peer.hear()
    await peer.ask(Puback(publish.packet_id))
    again = await connected(world, client_id="s")
    (repeat,) = again.later
    assert (publish.packet_id, True) == (repeat.packet_id, repeat.dup)


async def test_receive_maximum_counts_until_pubcomp(world):
    """MQTT-3.3.4-9, 4.9: a QoS 2 publish takes its place until it is complete."""
    from mqtt_server import MqttServer

    small = MqttServer(receive_maximum=2)
    peer = await small.connected("p")
    await peer.ask(message(1), message(2))
    await peer.ask(Pubrel(1))
    assert [Pubrec(3)] == await peer.ask(message(3))
    (told,) = await peer.ask(message(4))
    assert 0x93 == told.reason


async def test_quota_is_anew_on_each_connection(world):
    """MQTT 5, 4.9: what an earlier connection left does not count."""
    from mqtt_server import MqttServer

    small = MqttServer(receive_maximum=2)
    peer = await connected(small)
    await peer.ask(message(1), message(2))
    peer.lose()
    again = await connected(small)
    assert [Pubrec(3), Pubrec(4)] == await again.ask(message(3), message(4))


async def test_a_will_of_qos_2(world):
    """MQTT-3.1.2-14: QoS 2 is offered, also for a will."""
    from rowcast.mqtt.packets import Will

    other = await world.subscribed("w", qos=2)
    peer = world.peer()
    assert 0 == (await peer.ask(Connect(5, "p", will=Will("w", b"gone", 2))))[0].reason
    peer.lose()
    (publish,) = await other.hear()
    assert (b"gone", 2) == (publish.payload, publish.qos)
