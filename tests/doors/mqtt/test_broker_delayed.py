"""$delayed over MQTT: acknowledged when on disk, sent on when due (D52)."""

import pytest

from mqtt_server import VERSIONS, Puback, Pubrec, Pubrel, payloads, topics
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason
from rowcast.routes.resource import Resource


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_message_comes_when_it_is_due(world, version):
    reader = await world.subscribed("a/#", "$delayed/#", version=version, qos=2)
    writer = await world.connected("w", version)
    writer.publish("$delayed/60/a/b", b"x", qos=1)
    [answer] = await writer.hear()
    assert isinstance(answer, Puback)
    await world.pass_time(59)
    assert [] == await reader.hear()
    await world.pass_time(1)
    [message] = await reader.hear()
    assert ("a/b", b"x", 1, False) == (
        message.topic, message.payload, message.qos, message.retain
    )  # fmt: skip


async def test_it_is_acknowledged_after_its_commit(world):
    """D15, D52: PUBACK and PUBREC wait for the disk."""
    writer = await world.connected("w")
    world.writer.hold()
    writer.publish("$delayed/60/a", b"x", qos=1, packet_id=1)
    writer.publish("$delayed/60/a", b"x", qos=2, packet_id=2)
    assert [] == await writer.hear()
    world.writer.release()
    assert [Puback, Pubrec] == [type(packet) for packet in await writer.hear()]


async def test_a_qos_2_message_is_delayed_once(world):
    """D16, D52: sent again after a kill, it is still one."""
    session = {"clean_start": False, "properties": {"session_expiry_interval": 600}}
    writer = await world.connected("w", **session)
    writer.publish("$delayed/60/a", b"x", qos=2, packet_id=7)
    assert isinstance((await writer.hear())[0], Pubrec)
    later = await world.killed(30)
    writer = await later.connected("w", **session)
    writer.publish("$delayed/60/a", b"x", qos=2, packet_id=7)
    await writer.hear()
    await writer.ask(Pubrel(7))
    reader = await later.subscribed("a")
    await later.pass_time(60)
    assert [b"x"] == payloads(await reader.hear())


async def test_a_retained_message_is_retained_when_it_is_due(world):
    writer = await world.connected("w")
    writer.publish("$delayed/60/Dog/1", b'{"name":"Rex"}', qos=1, retain=True)
    await writer.hear()
    early = await world.subscribed("Dog/#", client_id="early")
    assert [] == topics(early.later)
    await world.pass_time(60)
    late = await world.subscribed("Dog/#", client_id="late")
    assert ["Dog/1"] == topics([*late.later, *await late.hear()])


async def test_a_durable_session_gets_it_later(world):
    """D27, D52: also when its client is away, and the server was killed."""
    session = {"clean_start": False, "properties": {"session_expiry_interval": 600}}
    reader = await world.subscribed("a", client_id="d", qos=1, connect=session)
    reader.lose()
    writer = await world.connected("w")
    writer.publish("$delayed/60/a", b"x", qos=1)
    await writer.hear()
    later = await world.killed(120)
    await later.pass_time(1)
    again = later.peer()
    await again.connect("d", **session)
    assert [b"x"] == payloads([*again.later, *await again.hear()])


async def test_a_will_may_be_delayed(world):
    reader = await world.subscribed("a")
    peer = await world.connected("w", will=Will("$delayed/60/a", b"gone", 1, False))
    peer.lose()
    await world.pass_time(59)
    assert [] == await reader.hear()
    await world.pass_time(1)
    assert [b"gone"] == payloads(await reader.hear())


@pytest.mark.parametrize("topic", ["/$SYS/users/eve", "$delayed/5//$SYS/users/eve"])
async def test_p5_a_will_with_a_leading_slash_is_for_what_that_names(world, topic):
    """P3: one that tells the server to do something is refused: it would be kept as it came."""
    world.kernel.registry.add("$SYS/users", Resource)
    connack = await world.peer().connect(will=Will(topic, b"{}", 1, True))
    assert Reason.TOPIC_NAME_INVALID == connack.reason


async def test_no_local_knows_who_sent_it(world):
    reader = await world.subscribed("a", client_id="w", no_local=True)
    reader.publish("$delayed/60/a", b"x", qos=1)
    await reader.hear()
    await world.pass_time(60)
    assert [] == await reader.hear()


@pytest.mark.parametrize(
    "topic", ["$delayed/x/a", "$delayed/4294968/a", "$delayed/5/$SYS/a", "$delayed/5/Strict/1"]
)
async def test_what_cannot_be_delayed_is_told(world, topic):
    """D43: with a reason and a sentence in MQTT 5; it costs nobody the connection."""
    writer = await world.connected("w")
    writer.publish(topic, b"{}", qos=1, retain=True)
    [answer] = await writer.hear()
    assert answer.reason >= Reason.UNSPECIFIED_ERROR
    assert answer.properties["reason_string"]
    assert not writer.closed
