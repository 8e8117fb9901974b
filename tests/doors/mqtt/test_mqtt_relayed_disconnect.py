"""Clients of a node that stops are told so, whichever node serves them (K4, D5)."""

import asyncio

import pytest
from test_mqtt_relay import Door, connect

from rowcast.core.limits import MQTT_CLOSE_SECONDS
from rowcast.doors.mqtt.connections.relayed_disconnect import CONNECT_BYTES_MAX
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packet_bounds import PacketBounds
from rowcast.mqtt.packets import Auth, Connack, Connect, Disconnect, Pingresp, Publish, Will
from rowcast.mqtt.reasons import PacketType, Reason
from serving import until

PACKETS = [
    Connack(),
    Publish("a/b", b"x" * 200, 1, False, False, 7, None),
    Pingresp(),
    Publish("a/b", b"x" * 20_000, 0, False, False, 0, None),
    Pingresp(),
]
STREAM = b"".join(encode(packet, 5) for packet in PACKETS)


@pytest.fixture
async def door(world):
    made = Door(world.broker)
    made.world = world
    return made


async def served(door, hello=None, version=5, came=STREAM):
    """Return a client that is connected, and was sent some bytes of the other node."""
    one = connect(door)
    one.version = one.decoder.version = version
    one.send_bytes(encode(hello or Connect(version, "c"), version))
    await until(lambda: len(door.fars) == len(door.relay.clients))
    door.fars[-1].data_received(came)
    return one


async def stopped(door, *peers):
    """Have the node stop; return the last packet of each client, or None."""
    stopping = asyncio.create_task(door.relay.stop())
    await until(lambda: all(peer.transport.closed for peer in peers))
    last = [peer.heard()[-1:] for peer in peers]
    await stopping
    return [packets[0] if packets else None for packets in last]


async def test_clients_are_told_when_to_come_back(door):
    one = await served(door)
    (last,) = await stopped(door, one)
    assert isinstance(last, Disconnect)
    assert last.reason is Reason.SERVER_SHUTTING_DOWN
    assert last.properties["reason_string"] == "the server is shutting down"
    ((name, milliseconds),) = last.properties["user_property"]
    assert (name, int(milliseconds) > 0) == ("retry-after-ms", True)


async def test_clients_are_told_where_to_go_instead(door):
    door.broker.refused.server_reference = "other.example:1883"
    (last,) = await stopped(door, await served(door))
    assert last.reason is Reason.USE_ANOTHER_SERVER
    assert last.properties["server_reference"] == "other.example:1883"


async def test_nothing_is_put_into_a_packet_of_the_other_node(door):
    """The rest of it comes first; what follows it is not sent any more."""
    cut = len(STREAM) - 10_000
    one = await served(door, came=STREAM[:cut])
    stopping = asyncio.create_task(door.relay.stop())
    await asyncio.sleep(0)
    assert not one.transport.closed
    door.fars[0].data_received(STREAM[cut:-5])
    assert not one.transport.closed
    door.fars[0].data_received(STREAM[-5:])
    door.fars[0].data_received(encode(Pingresp(), 5))
    packets = one.heard()
    await stopping
    kinds = [type(packet) for packet in packets]
    assert kinds == [*(type(packet) for packet in PACKETS[:-1]), Disconnect]


async def test_a_packet_without_an_end_is_not_waited_for(door):
    one = await served(door, came=STREAM[:-10])
    stopping = asyncio.create_task(door.relay.stop())
    await asyncio.sleep(0)
    door.world.loop.advance(MQTT_CLOSE_SECONDS + 1)
    assert one.transport.aborted
    one.lose()
    await stopping


async def test_who_cannot_be_told_is_only_disconnected(door):
    """Before MQTT 5 there is no such packet; before CONNACK it must not come."""
    old = await served(door, version=4, came=encode(Connack(), 4))
    early = await served(door, came=b"")
    dialogue = await served(door, came=encode(Auth(Reason.CONTINUE_AUTHENTICATION), 5))
    large = Connect(5, "c", will=Will("a", bytes(CONNECT_BYTES_MAX - 1)))
    unread = await served(door, large, came=encode(Connack(), 5))
    told = await served(door, came=STREAM + encode(Disconnect(Reason.SESSION_TAKEN_OVER), 5))
    peers = (old, early, dialogue, unread, told)
    before = [list(peer.transport.sent) for peer in peers]
    stopping = asyncio.create_task(door.relay.stop())
    await until(lambda: all(peer.transport.closed for peer in peers))
    assert [peer.transport.sent for peer in peers] == before
    for peer in peers:
        peer.lose()
    await stopping


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"request_problem_information": 0}, {"user_property"}),
        ({"maximum_packet_size": 50}, {"user_property"}),
        ({"maximum_packet_size": 20}, set()),
    ],
)
async def test_the_packet_is_as_the_client_has_asked(door, asked, names):
    one = await served(door, Connect(5, "c", properties=asked), came=encode(Connack(), 5))
    (last,) = await stopped(door, one)
    assert set(last.properties or ()) == names


async def test_a_connect_may_come_in_pieces(door):
    one = connect(door)
    hello = encode(Connect(5, "c", properties={"maximum_packet_size": 20}), 5)
    one.send_bytes(hello[:3])
    await until(lambda: door.fars)
    for number in range(3, len(hello)):
        one.send_bytes(hello[number : number + 1])
    door.fars[0].data_received(encode(Connack(), 5))
    (last,) = await stopped(door, one)
    assert last == Disconnect(Reason.SERVER_SHUTTING_DOWN, None)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 199, 20_000, len(STREAM)])
def test_bounds_of_packets_are_found_however_they_are_cut(size):
    """Where all bytes so far make whole packets, and nowhere else."""
    ends, at = {0}, 0
    for packet in PACKETS:
        at += len(encode(packet, 5))
        ends.add(at)
    bounds, at = PacketBounds(), 0
    while at < len(STREAM):
        bounds.take(STREAM[at : at + size])
        at = min(at + size, len(STREAM))
        assert bounds.between == (at in ends), at
    assert bounds.has(PacketType.CONNACK)
    assert bounds.has(PacketType.PUBLISH)
    assert not bounds.has(PacketType.DISCONNECT)
