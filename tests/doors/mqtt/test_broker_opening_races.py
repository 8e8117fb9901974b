"""Openings that something comes between: another connection, a loss, a goodbye, the end."""

import asyncio

import pytest

from mqtt_server import (
    VERSIONS,
    Connack,
    Connect,
    Disconnect,
    Publish,
    Subscribe,
    Subscription,
    payloads,
)
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason

HOUR = {"session_expiry_interval": 3600}
WILL = Will("w", b"gone", 0, False, None)


def connect(version=5, *, clean_start=False, will=None):
    """Return a CONNECT of the one client that all connections here say they are."""
    properties = HOUR if version == 5 else None
    return Connect(version, "c", clean_start, properties=properties, will=will)


def told(packets):
    """Return the kinds and reasons of packets."""
    return [(type(packet), packet.reason) for packet in packets]


@pytest.mark.parametrize(
    ("version", "clean_start"), [(3, False), (4, False), (5, False), (5, True)]
)
@pytest.mark.parametrize("pause", [True, False], ids=["one after the other", "at once"])
async def test_the_last_of_three_has_the_session(world, version, pause, clean_start):
    """D29, MQTT-3.1.4-3, MQTT-3.2.0-1, MQTT-3.14.0-1: those taken over before CONNACK get none."""
    world.writer.hold()
    peers = [world.peer(version) for _ in range(3)]
    for peer in peers:
        peer.send(connect(version, clean_start=clean_start))
        if pause:
            await world.turn()
    await world.turn()
    world.writer.release()
    await world.turn()
    heard = [told(peer.heard()) for peer in peers]
    assert [[], [], [(Connack, Reason.SUCCESS)]] == heard
    assert [True, True, False] == [peer.closed for peer in peers]
    session = world.broker.sessions.get("c")
    assert (peers[2].client, 1) == (session.client, len(world.broker.sessions))


async def test_what_was_sent_behind_connect_is_not_done_for_one_taken_over(world):
    """MQTT-3.1.4-5 of 3.1.1: a CONNECT that fails takes what follows with it."""
    watcher = await world.subscribed("a")
    world.writer.hold()
    peer = world.peer()
    peer.send(connect(), Subscribe(1, (Subscription("b", 1),)), Publish("a", b"x"))
    await world.turn()
    again = world.peer()
    again.send(connect())
    await world.turn()
    world.writer.release()
    assert [(Connack, Reason.SUCCESS)] == told(await again.hear())
    assert ([], []) == (world.broker.sessions.get("c").interests, watcher.heard())


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_stop_before_connack(world, version):
    """D5, MQTT-3.14.0-1: closed without a word."""
    world.writer.hold()
    peer = world.peer(version)
    peer.send(connect(version))
    await world.turn()
    stopping = asyncio.ensure_future(world.broker.stop())
    await world.turn()
    world.writer.release()
    await world.turn()
    assert ([], True) == (peer.heard(), peer.closed)
    await stopping


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_loss_before_connack(world, version):
    """MQTT-3.1.2-8, D31: the session is there and waits; the will of a lost client goes out."""
    watcher = await world.subscribed("w")
    world.writer.hold()
    peer = world.peer(version)
    peer.send(connect(version, will=WILL))
    await world.turn()
    peer.lose()
    await world.turn()
    world.writer.release()
    assert [b"gone"] == payloads(await watcher.hear())
    session = world.broker.sessions.get("c")
    assert (None, True) == (session.client, session.expires_at > world.time)
    connack = await world.peer(version).connect("c", clean_start=False, properties=None)
    assert connack.session_present is (version != 3)


@pytest.mark.parametrize("held", [False, True])
async def test_a_goodbye_right_behind_connect(world, held):
    """MQTT-3.1.2-4, MQTT-3.14.4-3: in its turn, so that a clean start is carried out; no will."""
    watcher = await world.subscribed("w")
    before = await world.connected("c", clean_start=False, properties=HOUR)
    before.lose()
    await world.turn()
    peer = world.peer()
    if held:
        world.writer.hold()
    peer.send(Connect(5, "c", clean_start=True, will=WILL), Disconnect())
    await world.turn()
    if held:
        world.writer.release()
    await world.turn()
    assert (None, True) == (world.broker.sessions.get("c"), peer.closed)
    assert [] == payloads(await watcher.hear())
    assert [] == world.store.states("session/")


@pytest.mark.parametrize("between", [[], [Publish("a", b"x")]], ids=["alone", "behind others"])
async def test_a_goodbye_counts_although_the_connection_is_gone(world, between):
    """MQTT-3.14.4-3: it was received before the loss, so the will is forgotten."""
    watcher = await world.subscribed("w")
    world.writer.hold()
    peer = world.peer()
    peer.send(connect(will=WILL), *between, Disconnect())
    await world.turn()
    peer.lose()
    await world.turn()
    world.writer.release()
    assert [] == payloads(await watcher.hear())
    assert [] == world.store.states("will/")


@pytest.mark.parametrize("goodbye", [[], [Disconnect()]], ids=["cut off", "goodbye"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_was_read_behind_connect_is_done_although_the_connection_is_gone(
    world, version, goodbye
):
    """MQTT 5, 3.1: nobody has to wait for CONNACK, as nobody has to stay for a message of QoS 0."""
    watcher, heir = await world.subscribed("a", qos=1), await world.subscribed("w", client_id="h")
    world.writer.hold()
    peer = world.peer(version)
    peer.send(
        connect(version, will=WILL), Publish("a", b"x"), Subscribe(1, (Subscription("b", 1),))
    )
    peer.send(Publish("a", b"y", 1, False, False, 1), *goodbye)
    await world.turn()
    peer.lose()
    await world.turn()
    assert [] == payloads(watcher.heard())
    world.writer.release()
    assert [b"x", b"y"] == payloads(await watcher.hear())
    assert ([] if goodbye else [b"gone"]) == payloads(heir.heard())
    session = world.broker.sessions.get("c")
    assert (None, ["b"]) == (session.client, [item.filter for item in session.interests])
    assert {watcher.client, heir.client} == world.broker.clients


async def test_what_waits_for_a_gone_client_is_not_given_to_it(world):
    """MQTT 5, 4.1: it is there when the client returns, also with QoS 0."""
    peer = await world.connected("c", clean_start=False, properties=HOUR)
    await peer.subscribe("b")
    peer.lose()
    await world.turn()
    await world.say("b", b"1")
    world.writer.hold()
    peer = world.peer()
    peer.send(connect(), Publish("a", b"x"))
    await world.turn()
    peer.lose()
    await world.turn()
    world.writer.release()
    await world.turn()
    again = await world.connected("c", clean_start=False, properties=HOUR)
    assert [b"1"] == payloads([*again.later, *await again.hear()])


async def test_a_goodbye_that_is_a_breach_before_connack(world):
    """MQTT-3.2.0-1, MQTT-3.14.0-1: nothing but CONNACK may be the first answer."""
    world.writer.hold()
    peer = world.peer()
    peer.send(Connect(5, "c", will=WILL), Disconnect(properties=HOUR))
    await world.turn()
    world.writer.release()
    heard = told(await peer.hear())
    assert [(Connack, Reason.SUCCESS), (Disconnect, Reason.PROTOCOL_ERROR)] == heard


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_failure_behind_connack_is_no_second_connack(world, version, monkeypatch):
    """D8, MQTT-3.2.0-2: what fails after the acceptance ends the connection."""

    def fail(*_):
        raise RuntimeError("poison")

    monkeypatch.setattr("rowcast.doors.mqtt.sessions.loss_accounts.end_absence", fail)
    peer = world.peer(version)
    peer.send(connect(version))
    heard = told(await peer.hear())
    end = [(Disconnect, Reason.UNSPECIFIED_ERROR)] if version == 5 else []
    assert ([(Connack, Reason.SUCCESS), *end], True) == (heard, peer.closed)


@pytest.mark.interpreted
async def test_a_fault_in_the_codec_harms_one_connection(world, monkeypatch, caplog):
    """D8: also one that nothing in the codec expects."""

    def fail(*_):
        raise RuntimeError("poison")

    healthy = await world.subscribed("a")
    peer = await world.connected("c")
    monkeypatch.setattr(type(peer.client.connection), "receive", fail)
    peer.send(Publish("a", b"x"))
    monkeypatch.undo()
    assert [(Disconnect, Reason.UNSPECIFIED_ERROR)] == told(await peer.hear())
    healthy.publish("a", b"y")
    assert ([b"y"], True) == (payloads(await healthy.hear()), "poison" in caplog.text)
