"""CONNECT and CONNACK: versions, what is offered, who is refused."""

import pytest

from mqtt_server import (
    VERSIONS,
    Connect,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    Subscription,
    user,
    users,
)
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Auth, Will
from rowcast.mqtt.reasons import Reason


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_is_accepted(world, version):
    """D9: 3.1, 3.1.1 and 5; MQTT-3.2.2-1: CONNACK first."""
    peer = world.peer(version)
    connack = await peer.connect()
    assert (Reason.SUCCESS, False) == (connack.reason, connack.session_present)
    assert [Pingresp()] == await peer.ask(Pingreq())


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_waits_for_nothing_is_accepted_within_its_read(world, version):
    """D7: it shows nothing and leaves nothing; what it sent behind CONNECT is done, too."""
    peer = world.peer(version)
    peer.send(Connect(version, "c", True), Subscribe(1, (Subscription("a/#", 1),)))
    session = world.broker.sessions.get("c")
    assert (True, None, peer.client) == (peer.client.accepted, peer.client.opening, session.client)
    connack, *others = await peer.hear()
    assert (Reason.SUCCESS, False) == (connack.reason, connack.session_present)
    assert ["a/#"] == [interest.topics.text for interest in session.interests]
    assert 1 == len(others)


@pytest.mark.parametrize(
    "connect",
    [
        Connect(5, "c", True, properties={"session_expiry_interval": 60}),
        Connect(4, "c", False),
        Connect(5, "c", True, will=Will("w", b"x", 0, False, None)),
        Connect(5, "", True),
        Connect(5, "c", True, username="ann", password=b"x"),
        Connect(5, "known", True),
    ],
    ids=["stays", "stays before MQTT 5", "will", "without an id", "shows a name", "comes again"],
)
async def test_others_are_accepted_after_what_they_wait_for(world, connect):
    """D7, D27: what is on disk, and a connection that ends."""
    before = world.peer()
    await before.connect("known")
    peer = world.peer(connect.version)
    peer.send(connect)
    assert (False, True) == (peer.client.accepted, peer.client.opening is not None)
    assert Reason.SUCCESS == (await peer.hear())[0].reason


@pytest.mark.parametrize(
    ("name", "level", "answer"),
    [
        (b"MQTT", 6, b"\x20\x03\x00\x84\x00"),
        (b"MQTT", 0x84, b"\x20\x03\x00\x84\x00"),
        (b"MQTT", 2, b"\x20\x02\x00\x01"),
        (b"MQIsdp", 4, b"\x20\x02\x00\x01"),
        (b"MQTX", 5, b"\x20\x03\x00\x84\x00"),
    ],
    ids=["6", "bridge", "2", "MQIsdp 4", "name"],
)
async def test_an_unknown_version_is_told_so(world, name, level, answer):
    """D9, MQTT-3.1.2-1 and -2: 0x84, or 0x01 before MQTT 5; then closed."""
    peer = world.peer()
    body = len(name).to_bytes(2, "big") + name + bytes((level, 2, 0, 0, 0, 1)) + b"c"
    peer.send_bytes(bytes((0x10, len(body))) + body)
    await world.turn()
    assert ([answer], True) == (peer.transport.sent, peer.closed)


async def test_connack_says_what_is_offered(world):
    """D9, D41; MQTT 5, 3.2.2.3: what is left out is offered."""
    connack = await world.peer().connect(properties={"session_expiry_interval": 3600})
    assert {
        "receive_maximum": 1024,
        "maximum_packet_size": 2 * 1024 * 1024,
        "topic_alias_maximum": 32,
        "user_property": (("seq", world.cursor(0)),),
    } == connack.properties


async def test_no_session_outlives_its_connection(world):
    """MQTT 5, 3.2.2.3.2: an interval is only answered when another one was asked for."""
    connack = await world.peer().connect()
    assert "session_expiry_interval" not in connack.properties


@pytest.mark.parametrize("version", [3, 4])
async def test_before_five_there_are_no_properties(world, version):
    peer = world.peer(version)
    peer.send(Connect(version, "c"))
    await world.turn()
    assert [b"\x20\x02\x00\x00"] == peer.transport.sent


async def test_an_identifier_is_assigned(world):
    """MQTT-3.1.3-6, MQTT-3.1.3-7, MQTT-3.2.2-16."""
    first, second = await world.peer().connect(""), await world.peer().connect("")
    names = {answer.properties["assigned_client_identifier"] for answer in (first, second)}
    assert names == {session.client_id for session in world.broker.sessions}
    assert 2 == len(names)


async def test_an_empty_identifier_of_311(world):
    """MQTT-3.1.3-7 of 3.1.1: with a clean session it is as if it were unique."""
    assert Reason.SUCCESS == (await world.peer(4).connect("")).reason


@pytest.mark.parametrize(("version", "clean"), [(4, False), (3, True)], ids=["3.1.1", "3.1"])
async def test_an_empty_identifier_is_refused(world, version, clean):
    """MQTT-3.1.3-8 and -9 of 3.1.1: return code 0x02, then closed."""
    peer = world.peer(version)
    peer.send(Connect(version, "", clean))
    await world.turn()
    assert ([b"\x20\x02\x00\x02"], True) == (peer.transport.sent, peer.closed)


@pytest.mark.parametrize("version", VERSIONS)
async def test_strangers_from_outside_are_refused(world, version):
    """MQTT-3.1.4-2: 0x87, or return code 0x05 before MQTT 5."""
    peer = world.peer(version, peer="192.0.2.7")
    connack = await peer.connect()
    assert (Reason.NOT_AUTHORIZED, True) == (connack.reason, peer.closed)


async def test_extended_authentication_is_refused(world):
    """MQTT-4.12.0-1."""
    peer = world.peer()
    connack = await peer.connect(properties={"authentication_method": "SCRAM"})
    assert (Reason.BAD_AUTHENTICATION_METHOD, True) == (connack.reason, peer.closed)


async def test_a_form_that_is_not_written_here_is_refused(world):
    """X19: `accept` on CONNECT."""
    peer = world.peer()
    connack = await peer.connect(properties=users(("accept", "image/png")))
    assert (Reason.IMPLEMENTATION_SPECIFIC_ERROR, True) == (connack.reason, peer.closed)


async def test_a_malformed_connect_of_five_is_told(world):
    """MQTT 5, 4.13: CONNACK with the reason, because its version could be read."""
    peer = world.peer()
    connack = await peer.connect(will=Will("a/+", b""))
    assert (Reason.TOPIC_NAME_INVALID, True) == (connack.reason, peer.closed)
    assert "wildcard" in connack.properties["reason_string"]


async def test_a_malformed_connect_of_311_is_closed(world):
    """MQTT-3.1.4-1 of 3.1.1: without CONNACK."""
    peer = world.peer(4)
    assert ([], True) == (await peer.ask(Connect(4, "c", will=Will("a/+", b""))), peer.closed)


async def test_a_second_connect_is_a_violation(world):
    """MQTT-3.1.0-2."""
    peer = await world.connected()
    answer = await peer.ask(Connect(5, "c"))
    assert ([Reason.PROTOCOL_ERROR], True) == ([packet.reason for packet in answer], peer.closed)


@pytest.mark.parametrize(
    "packet",
    [Pingreq(), Publish("a", b"x"), Subscribe(1, (Subscription("a"),))],
    ids=lambda packet: type(packet).__name__,
)
@pytest.mark.parametrize("version", [4, 5])
async def test_before_connect_nothing_is_taken(world, version, packet):
    """MQTT-3.1.0-1: closed without a word, for no version is known."""
    peer = world.peer(version)
    watcher = await world.subscribed("#")
    peer.send_bytes(encode(packet, version))
    await world.turn()
    assert ([], True, []) == (peer.transport.sent, peer.closed, watcher.heard())


async def test_auth_without_a_method_is_a_violation(world):
    """MQTT-4.12.0-7."""
    peer = await world.connected()
    answer = await peer.ask(Auth(Reason.RE_AUTHENTICATE, {"authentication_method": "m"}))
    assert [Reason.PROTOCOL_ERROR] == [packet.reason for packet in answer]


async def test_connack_is_cut_to_what_the_client_takes(world):
    """MQTT-3.2.2-19, MQTT-3.2.2-20: no user property over the Maximum Packet Size."""
    connack = await world.peer().connect(properties={"maximum_packet_size": 24})
    assert (Reason.SUCCESS, None) == (connack.reason, user(connack, "seq"))


async def test_a_client_that_takes_no_packet_is_closed(world):
    """MQTT-3.1.2-24: nothing larger is sent, not even CONNACK."""
    peer = world.peer()
    assert ([], True) == (
        await peer.ask(Connect(5, "c", properties={"maximum_packet_size": 4})),
        peer.closed,
    )


async def test_anonymous_callers_keep_their_identifier(world):
    peer = await world.connected("thermometer")
    assert ("thermometer", "thermometer") == (peer.client.caller.client_id, peer.client.name)
