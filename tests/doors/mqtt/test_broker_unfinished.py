"""Packets that are not all there, while memory is short (K9, L11)."""

import pytest

from mqtt_server import VERSIONS, Disconnect, MqttServer, Publish
from rowcast.core.overload_limits import OVERLOAD_UNFINISHED_BYTES
from rowcast.core.shedding import Shed
from rowcast.mqtt.encode import encode
from rowcast.mqtt.reasons import Reason


@pytest.fixture
async def world():
    made = MqttServer()
    yield made
    for peer in made.peers:
        peer.lose()
    await made.stop()
    await made.turn()


@pytest.mark.parametrize("version", VERSIONS)
async def test_l11_large_parts_of_packets_are_cut_off_while_memory_is_short(world, version):
    shedding, (door,) = world.kernel.reader.shedding, world.kernel.doors
    packet = encode(Publish("a", bytes(2 * OVERLOAD_UNFINISHED_BYTES)), version)
    most = OVERLOAD_UNFINISHED_BYTES
    peers = [await world.connected(f"c{n}", version) for n in range(3)]
    for peer, size in zip(peers, (most + 1, most, 0), strict=True):
        peer.send_bytes(packet[:size])
    stranger = world.peer(version)
    stranger.send_bytes(
        encode(Publish("a", bytes(2 * most)), version).replace(b"0", b"\x10", 1)[: 2 * most]
    )
    door.relieve()
    assert [[]] * 3 == [peer.heard() for peer in peers]
    shedding.level = Shed.CONNECTS
    door.relieve()
    door.relieve()
    heard = await peers[0].hear()
    assert [Reason.SERVER_BUSY] * (version == 5) == [
        packet.reason for packet in heard if isinstance(packet, Disconnect)
    ]
    assert [True, False, False, True] == [peer.closed for peer in (*peers, stranger)]
    assert 2 == shedding.refused_unfinished


@pytest.mark.parametrize("version", VERSIONS)
async def test_l11_what_was_not_all_there_goes_with_its_client(world, version):
    """At once: who is cut off in the middle of packets again and again fills no memory."""
    peer = await world.connected("c", version)
    peer.send_bytes(encode(Publish("a", bytes(100_000)), version)[:-1])
    assert 100_000 < peer.client.connection.held_bytes
    peer.lose()
    assert 0 == peer.client.connection.held_bytes
