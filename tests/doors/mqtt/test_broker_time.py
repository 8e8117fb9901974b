"""Time: who is silent, who is slow, who never says who it is."""

import pytest

from mqtt_server import VERSIONS, Connect, Disconnect, Pingreq, Pingresp, Publish
from rowcast.core.limits import (
    MQTT_CLOSE_SECONDS,
    MQTT_CONNECT_TIMEOUT_SECONDS,
    MQTT_PROGRESS_BYTES,
    MQTT_STALL_SECONDS,
)  # fmt: skip
from rowcast.mqtt.encode import encode
from rowcast.mqtt.reasons import Reason


async def test_no_connect_in_time(world):
    """D7."""
    peer = world.peer()
    await world.pass_time(MQTT_CONNECT_TIMEOUT_SECONDS - 0.1)
    assert not peer.closed
    await world.pass_time(0.2)
    assert ([], True) == (peer.transport.sent, peer.closed)


async def test_a_connect_of_one_byte_a_second(world):
    """D7, Bad input: the deadline is for the whole packet."""
    peer = world.peer()
    for byte in encode(Connect(5, "a-rather-long-name"), 5)[:-1]:
        peer.send_bytes(bytes((byte,)))
        await world.pass_time(1)
    assert peer.closed


async def test_the_deadline_ends_with_connect(world):
    """D7."""
    peer = await world.connected(keep_alive_seconds=0)
    await world.pass_time(100_000)
    assert (False, [Pingresp()]) == (peer.closed, await peer.ask(Pingreq()))


@pytest.mark.parametrize("version", VERSIONS)
async def test_silence_of_one_and_a_half_times(world, version):
    """D30, MQTT-3.1.2-22 (MQTT-3.1.2-24 of 3.1.1)."""
    peer = await world.connected(version=version, keep_alive_seconds=10)
    await world.pass_time(14.9)
    assert not peer.closed
    await world.pass_time(0.2)
    expected = [Disconnect] if version == 5 else []
    answer = peer.heard()
    assert (True, expected) == (peer.closed, [type(packet) for packet in answer])
    assert all(packet.reason == Reason.KEEP_ALIVE_TIMEOUT for packet in answer)


@pytest.mark.parametrize("packet", [Pingreq(), Publish("a", b"")], ids=["ping", "publish"])
async def test_any_packet_is_a_sign_of_life(world, packet):
    """D30."""
    peer = await world.connected(keep_alive_seconds=10)
    for _ in range(5):
        await world.pass_time(14)
        peer.send(packet)
    assert not peer.closed


async def test_half_a_packet_is_none(world):
    """MQTT-3.1.2-22 asks for packets: a byte a second keeps nobody alive."""
    peer = await world.connected(keep_alive_seconds=10)
    for byte in encode(Publish("a", b"x" * 100), 5)[:20]:
        peer.send_bytes(bytes((byte,)))
        await world.pass_time(1)
    assert peer.closed


async def test_a_large_message_over_a_slow_link_is_no_silence(world):
    """It cannot ping in the middle of a packet."""
    watcher = await world.subscribed("a")
    peer = await world.connected(keep_alive_seconds=10)
    data = encode(Publish("a", b"x" * 5 * MQTT_PROGRESS_BYTES), 5)
    for begin in range(0, len(data), MQTT_PROGRESS_BYTES):
        peer.send_bytes(data[begin : begin + MQTT_PROGRESS_BYTES])
        await world.pass_time(12)
    assert (False, 1) == (peer.closed, len(await watcher.hear()))


async def test_a_paused_client_is_not_silent(world):
    """Its socket is full, so it is not read: its pings lie there."""
    peer = await world.connected(keep_alive_seconds=10)
    peer.transport.waiting = 1_000
    peer.client.pause_writing()
    await world.pass_time(30)
    peer.client.resume_writing()
    assert not peer.closed
    await world.pass_time(14)
    assert not peer.closed
    await world.pass_time(2)
    assert peer.closed


async def test_a_reader_that_stopped_is_cut_off(world):
    """Bad input: with no keep-alive at all, nothing of it is left."""
    peer = await world.subscribed("#")
    peer.transport.waiting = 300_000
    peer.client.pause_writing()
    peer.client.pause_writing()
    await world.pass_time(MQTT_STALL_SECONDS + 1)
    assert (True, 1) == (peer.transport.aborted, world.broker.stalled)
    assert 0 == world.kernel.bus.subscriptions == len(world.broker.sessions)


async def test_a_reader_that_is_slow_is_not(world):
    """It takes some bytes in each period."""
    peer = await world.subscribed("#")
    peer.transport.waiting = 350_000
    peer.client.pause_writing()
    for waiting in range(300_000, 0, -50_000):
        peer.transport.waiting = waiting
        await world.pass_time(MQTT_STALL_SECONDS * 0.9)
    peer.client.resume_writing()
    await world.pass_time(10 * MQTT_STALL_SECONDS)
    assert not peer.closed


async def test_a_peer_that_does_not_take_the_end_is_cut_off(world):
    """The last packet waits for it so long, and no longer."""
    peer = await world.connected()
    peer.client.disconnect(Reason.SERVER_BUSY)
    assert (True, False) == (peer.transport.closed, peer.transport.aborted)
    await world.pass_time(MQTT_CLOSE_SECONDS + 1)
    assert peer.transport.aborted
