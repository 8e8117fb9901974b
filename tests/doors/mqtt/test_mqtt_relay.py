"""MQTT at a follower: what it checks itself, and what it passes on (K4)."""

import asyncio

import pytest

from mqtt_server import Peer
from rowcast.core.errors import Code, Error
from rowcast.core.limits import MQTT_CLOSE_SECONDS
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.relay import MqttRelay
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connack, Connect, Pingreq
from rowcast.mqtt.reasons import Reason
from rowcast.net.relay import MQTT
from serving import until

BUSY = Error(Code.BUSY, "there is no sequencer now; try again in a second")
HELLO = encode(Connect(5, "c"), 5)


class Door:
    """A relay whose way on is a list of what was sent."""

    def __init__(self, broker, error=None):
        self.relay = MqttRelay(
            broker.guard, broker.refused, self.open, broker.settings.connect_timeout_seconds
        )
        self.broker, self.error = broker, error
        self.clients, self.fars, self.gate = [], [], asyncio.Event()
        self.gate.set()

    async def open(self, client, far, _seconds):
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.clients.append(client)
        self.fars.append(far)
        far.connection_made(Beyond())

    def enter(self, transport, peer, media_type=None):
        return self.relay.enter(transport, peer, media_type)


class Beyond:
    """The connection to the other node."""

    def __init__(self):
        self.sent, self.closed, self.reading = b"", False, True

    def write(self, data):
        self.sent += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def is_reading(self):
        return self.reading

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True


@pytest.fixture
async def door(world):
    made = Door(world.broker)
    made.world = world
    return made


def beyond(door):
    return door.fars[0]._transport


def connect(door, peer="10.0.0.1"):
    peer = Peer(type("Entrance", (), {"broker": door}), 5, peer)
    door.world.peers.append(peer)
    return peer


async def test_bytes_are_passed_on_in_order_from_the_first(door):
    door.gate.clear()
    one = connect(door)
    one.send_bytes(HELLO[:5])
    assert not one.transport.reading, "who is not connected yet cannot send without end"
    one.send_bytes(HELLO[5:])
    door.gate.set()
    await until(lambda: one.transport.reading)
    assert beyond(door).sent == HELLO
    assert (door.clients[0].door, door.clients[0].host) == (MQTT, "10.0.0.1")
    one.send(Pingreq())
    assert beyond(door).sent == HELLO + encode(Pingreq(), 5)
    door.fars[0].data_received(encode(Connack(), 5))
    assert isinstance(one.heard()[0], Connack)


async def test_who_says_nothing_takes_nothing_of_the_other_node(door):
    one = connect(door)
    door.world.loop.advance(door.broker.settings.connect_timeout_seconds + 1)
    assert one.transport.aborted
    assert not door.fars


async def test_without_a_node_that_numbers_a_client_is_told(door):
    door.error = BUSY
    one = connect(door)
    one.send_bytes(HELLO)
    await until(lambda: one.transport.sent)
    answer = one.heard()[0]
    assert answer.reason is Reason.SERVER_UNAVAILABLE
    assert "there is no sequencer" in answer.properties["reason_string"]
    one.send_bytes(b"more")
    assert not len(door.broker.refused)
    assert not door.relay.clients


async def test_both_sides_end_together(door):
    one, two = connect(door), connect(door)
    for peer in (one, two):
        peer.send_bytes(HELLO)
    await until(lambda: len(door.fars) == 2)
    far = door.fars[0]._transport
    one.lose()
    assert far.closed
    door.fars[1].connection_lost(None)
    assert two.transport.closed
    door.world.loop.advance(MQTT_CLOSE_SECONDS + 1)
    assert two.transport.aborted, "it did not take its end"


async def test_who_leaves_while_the_way_is_opened_is_forgotten(door):
    door.gate.clear()
    one = connect(door)
    one.send_bytes(HELLO)
    one.lose()
    door.gate.set()
    await until(one.client._opening.done)
    assert not door.fars
    assert not door.relay.clients


async def test_each_side_waits_for_the_slower_one(door):
    one = connect(door)
    one.send_bytes(HELLO)
    await until(lambda: door.fars and one.transport.reading)
    one.client.pause_writing()
    assert not beyond(door).reading
    one.client.resume_writing()
    assert beyond(door).reading
    door.fars[0].pause_writing()
    assert not one.transport.reading
    door.fars[0].resume_writing()
    assert one.transport.reading


async def test_who_has_filled_the_way_on_at_once_is_not_read_on(door):
    """What comes with CONNECT may be more than the other node takes."""
    one = connect(door)
    write = Beyond.write

    def filling(beyond, data):
        write(beyond, data)
        door.fars[0].pause_writing()

    door.relay.open_far = lambda *given: filled(door, filling, *given)
    one.send_bytes(HELLO)
    await until(one.client._opening.done)
    assert beyond(door).sent == HELLO
    assert not one.transport.reading
    door.fars[0].resume_writing()
    assert one.transport.reading


async def filled(door, write, *given):
    await door.open(*given)
    transport = door.fars[0]._transport
    transport.write = lambda data: write(transport, data)


async def test_limits_of_connections_hold_at_this_node(door):
    door.broker.guard.settings = GuardSettings(connections_max=1)
    one, two = connect(door), connect(door)
    two.send_bytes(HELLO)
    assert two.heard()[0].reason is Reason.QUOTA_EXCEEDED
    one.lose()
    three = connect(door)
    assert not three.transport.closed
    stopping = asyncio.create_task(door.relay.stop())
    await until(lambda: three.transport.closed)
    three.lose()
    await stopping
    late = connect(door)
    assert late.client is None
    assert late.transport.aborted
