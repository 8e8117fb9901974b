"""The end of a connection: wills, take-over, shutdown; and faults that end only one of them."""

import asyncio

import pytest

from mqtt_server import (
    VERSIONS,
    Connect,
    Disconnect,
    MqttServer,
    Pingreq,
    Pingresp,
    payloads,
    topics,
)
from rowcast.doors.mqtt.packets import publish as publishing
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason

WILL = Will("gone/c", b"bye")


# -- wills ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_will_when_the_connection_is_lost(world, version):
    """D31, MQTT-3.1.2-8."""
    watcher = await world.subscribed("gone/#")
    peer = await world.connected(version=version, will=WILL)
    peer.lose()
    assert [("gone/c", b"bye", False)] == [
        (item.topic, item.payload, item.retain) for item in await watcher.hear()
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_will_after_disconnect(world, version):
    """D31, MQTT-3.14.4-3."""
    watcher = await world.subscribed("gone/#")
    peer = await world.connected(version=version, will=WILL)
    await peer.ask(Disconnect())
    peer.lose()
    assert ([], True) == (await watcher.hear(), peer.closed)


@pytest.mark.parametrize("reason", [0x04, 0x80, 0x82, 0x97])
async def test_a_will_after_any_other_reason(world, reason):
    """D31, MQTT-3.1.2-8: only Normal disconnection forgets it."""
    watcher = await world.subscribed("gone/#")
    peer = await world.connected(will=WILL)
    await peer.ask(Disconnect(Reason(reason)))
    assert [b"bye"] == payloads(await watcher.hear())


async def test_a_will_after_a_violation_and_after_silence(world):
    """MQTT-3.1.2-8: the server closes, for whatever reason."""
    watcher = await world.subscribed("gone/#")
    breaching = await world.connected("a", will=Will("gone/a", b""))
    breaching.send(Connect(5, "a"))
    silent = await world.connected("b", will=Will("gone/b", b""), keep_alive_seconds=1)
    await world.pass_time(2)
    assert silent.closed
    assert ["gone/a", "gone/b"] == topics(await watcher.hear())


async def test_a_will_is_published_once(world):
    watcher = await world.subscribed("gone/#")
    peer = await world.connected(will=WILL)
    peer.client.end()
    await world.turn()
    peer.lose()
    assert [b"bye"] == payloads(await watcher.hear())


@pytest.mark.parametrize("payload", [b'{"name":"Rex"}', b""], ids=["put", "delete"])
async def test_a_retained_will_is_a_record(world, payload):
    """D31, MQTT-3.1.2-17."""
    await world.put("Dog/1", b"{}")
    peer = await world.connected(will=Will("Dog/1", payload, 1, True))
    peer.lose()
    await world.turn()
    late = await world.subscribed("Dog/#")
    assert ([payload] if payload else []) == payloads(late.later)


async def test_will_properties(world):
    """D45: as of a PUBLISH; the delay is none of them."""
    watcher = await world.subscribed("gone/#")
    properties = {
        "content_type": "text/plain",
        "payload_format_indicator": 1,
        "message_expiry_interval": 60,
        "response_topic": "r",
        "correlation_data": b"1",
        "user_property": (("a", "b"),),
    }
    will = Will("gone/c", b"bye", 1, False, {"will_delay_interval": 5, **properties})
    peer = await world.connected(will=will)
    peer.lose()
    (message,) = await watcher.hear()
    assert properties == message.properties


async def test_a_will_of_qos_2_before_five(world):
    """QoS 2 is not offered, and MQTT 3.1.1 has no words for it: it becomes QoS 1."""
    watcher = await world.subscribed("gone/#", qos=1)
    peer = await world.connected(version=4, will=Will("gone/c", b"bye", 2))
    peer.lose()
    assert [1] == [message.qos for message in await watcher.hear()]


async def test_a_refused_will_is_counted(world):
    peer = await world.connected(will=Will("Dog/1", b"{}", 1, True))
    world.kernel.admission.payload_bytes_max = 1
    peer.lose()
    assert 1 == world.broker.refusals


# -- take-over -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_newer_connection_wins(world, version):
    """D29, MQTT-3.1.4-3 (MQTT-3.1.4-2 of 3.1.1): 0x8E for the older one."""
    watcher = await world.subscribed("gone/#")
    old = await world.connected("same", version, will=WILL)
    await old.subscribe("a")
    new = await world.connected("same", version)
    told = [packet.reason for packet in old.heard()]
    assert ([Reason.SESSION_TAKEN_OVER] if version == 5 else [], True) == (told, old.closed)
    assert ([b"bye"], 1) == (payloads(await watcher.hear()), world.broker.takeovers)
    await new.subscribe("b")
    await world.say("a", b"x")
    await world.say("b", b"x")
    assert (["b"], []) == (topics(await new.hear()), old.heard())
    assert world.broker.sessions.get("same") is new.client.session


async def test_the_older_one_that_is_lost_late_takes_nothing_along(world):
    """D29: its end must not end the session of the newer one."""
    old = await world.connected("same")
    new = await world.subscribed("a", client_id="same")
    old.lose()
    await world.say("a", b"x")
    assert [b"x"] == payloads(await new.hear())
    assert world.broker.sessions.get("same") is new.client.session


# -- disconnect ----------------------------------------------------------------------------------


async def test_nothing_is_taken_after_disconnect(world):
    """MQTT-3.14.4-1, MQTT-3.14.4-2."""
    watcher = await world.subscribed("a")
    peer = await world.connected()
    peer.send(Disconnect(), Pingreq())
    peer.publish("a", b"x")
    assert ([], [], True) == (await peer.hear(), await watcher.hear(), peer.closed)


async def test_a_session_cannot_be_prolonged_at_its_end(world):
    """MQTT 5, 3.14.2.2.2: an interval that was 0; it is not taken for a DISCONNECT."""
    watcher = await world.subscribed("gone/#")
    peer = await world.connected(will=WILL)
    answer = await peer.ask(Disconnect(properties={"session_expiry_interval": 60}))
    assert [Reason.PROTOCOL_ERROR] == [packet.reason for packet in answer]
    assert [b"bye"] == payloads(await watcher.hear())


async def test_an_interval_may_be_changed_if_there_was_one(world):
    """MQTT 5, 3.14.2.2.2."""
    peer = await world.connected(properties={"session_expiry_interval": 60})
    assert ([], True) == (
        await peer.ask(Disconnect(properties={"session_expiry_interval": 5})),
        peer.closed,
    )


# -- shutdown ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_server_goes_down(world, version):
    """D46, D5: 0x8B, and `stop` waits until all are gone."""
    peer = await world.connected(version=version)
    silent = world.peer()
    stopping = asyncio.ensure_future(world.broker.stop())
    await world.turn()
    told = [packet.reason for packet in peer.heard()]
    assert [Reason.SERVER_SHUTTING_DOWN] * (version == 5) == told
    assert (False, True) == (stopping.done(), world.broker.stopping)
    silent.lose()
    await stopping
    assert set() == world.broker.clients


async def test_the_server_goes_down_and_names_another():
    """D46; MQTT 5, 4.11: 0x9C and the Server Reference."""
    world = MqttServer(server_reference="other.example:1883")
    peer = await world.connected()
    stopping = asyncio.ensure_future(world.broker.stop())
    (told,) = await peer.hear()
    await stopping
    assert (Reason.USE_ANOTHER_SERVER, "other.example:1883") == (
        told.reason,
        told.properties["server_reference"],
    )


async def test_wills_when_the_server_goes_down(world):
    """MQTT-3.1.2-8: a record says that they are gone."""
    peer = await world.connected(will=Will("gone/c", b"bye", 1, True))
    stopping = asyncio.ensure_future(world.broker.stop())
    await world.turn()
    peer.lose()
    await stopping
    await world.stop()
    assert b"bye" == (await world.kernel.read("gone/c", peer.client.caller)).payload


async def test_stopping_without_clients(world):
    await world.broker.stop()
    assert world.broker.stopping


# -- faults --------------------------------------------------------------------------------------


@pytest.mark.interpreted
async def test_a_poisoned_client_beside_a_hundred_healthy_ones(world, monkeypatch, caplog):
    """D8: the mistake is logged with its trace, one connection ends, the others hear on."""
    healthy = [await world.subscribed("a", client_id=f"h{number}") for number in range(100)]
    poisoned = await world.connected("poisoned")
    original = publishing.Event

    def failing(topic, *arguments):
        if topic == "poison":
            raise RuntimeError("a mistake of ours")
        return original(topic, *arguments)

    monkeypatch.setattr(publishing, "Event", failing)
    poisoned.publish("poison", b"x")
    await world.say("a", b"x")
    (answer,) = await poisoned.hear()
    assert (Reason.UNSPECIFIED_ERROR, True) == (answer.reason, poisoned.closed)
    assert "mistake of ours" not in answer.properties["reason_string"]
    assert "RuntimeError: a mistake of ours" in caplog.text
    assert [[b"x"]] * 100 == [payloads(peer.heard()) for peer in healthy]


@pytest.mark.interpreted
async def test_a_fault_in_delivery_ends_one_connection(world, monkeypatch, caplog):
    """D8: the write side."""
    healthy = await world.subscribed("a", client_id="healthy")
    poisoned = await world.subscribed("a", client_id="poisoned")

    def failing(_limit):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(poisoned.client.session.subscription, "take", failing)
    await world.say("a", b"x")
    (answer,) = await poisoned.hear()
    assert (Reason.UNSPECIFIED_ERROR, True) == (answer.reason, poisoned.closed)
    assert "the delivery to poisoned" in caplog.text
    assert [b"x"] == payloads(healthy.heard())


async def test_a_violation_ends_one_connection(world):
    """D8, MQTT 5, 4.13: its reason and a sentence."""
    healthy = await world.connected("healthy")
    breaching = await world.connected("breaching")
    breaching.send_bytes(b"\x36\x00")
    (answer,) = await breaching.hear()
    assert (Reason.MALFORMED_PACKET, True) == (answer.reason, breaching.closed)
    assert "QoS of a PUBLISH" in answer.properties["reason_string"]
    assert [Pingresp()] == await healthy.ask(Pingreq())


async def test_packets_before_a_violation_count(world):
    """What came whole before it was taken."""
    watcher = await world.subscribed("a")
    peer = await world.connected()
    peer.send_bytes(b"\x30\x05\x00\x01a\x00x" + b"\xff\xff\xff\xff\xff")
    assert ([b"x"], True) == (payloads(await watcher.hear()), peer.closed)
