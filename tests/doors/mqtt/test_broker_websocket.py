"""MQTT over WebSocket: an ASGI application, called by hand."""

import asyncio
import json

import cbor2
import pytest

from mqtt_server import (
    EPOCH,
    Connect,
    MqttServer,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    Subscription,
    payloads,
)  # fmt: skip
from rowcast.core.limits import MQTT_STALL_SECONDS, MQTT_WRITE_BUFFER_BYTES_HIGH
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.websocket import WebSocketEndpoint
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connack, Disconnect, Suback
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation
from serving import PATIENCE_SECONDS

CONNECT = encode(Connect(5, "c"), 5)
PING = encode(Pingreq(), 5)


class Web:
    """A WebSocket whose far end is the test."""

    def __init__(self, world, subprotocols=("mqtt",), headers=(), version=5):
        self.world = world
        self.incoming = asyncio.Queue()
        self.incoming.put_nowait({"type": "websocket.connect"})
        self.outgoing = []
        self.read = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = None
        self.decoder = Connection("client", packet_bytes_max=300_000_000, version=version)
        scope = {
            "type": "websocket",
            "subprotocols": list(subprotocols),
            "headers": list(headers),
            "client": ("127.0.0.1", 0),
        }
        app = WebSocketEndpoint(world.broker)
        self.task = asyncio.ensure_future(app(scope, self.incoming.get, self._send))

    async def _send(self, message):
        await self.gate.wait()
        if self.broken is not None:
            error, self.broken = self.broken, None
            raise error
        self.outgoing.append(message)

    def frame(self, data):
        """Send a binary frame."""
        self.incoming.put_nowait({"type": "websocket.receive", "bytes": data})

    def text(self, data):
        self.incoming.put_nowait({"type": "websocket.receive", "text": data, "bytes": None})

    def leave(self):
        self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1005})

    async def hear(self):
        """Return the packets that came."""
        await self.world.turn()
        frames = self.outgoing[self.read :]
        self.read = len(self.outgoing)
        data = b"".join(item["bytes"] for item in frames if item["type"] == "websocket.send")
        packets = self.decoder.receive(data)
        assert not any(isinstance(packet, Violation) for packet in packets)
        return packets

    @property
    def codes(self):
        """The codes with which the server closed."""
        return [item["code"] for item in self.outgoing if item["type"] == "websocket.close"]


@pytest.fixture
async def web(world):
    """A WebSocket that was accepted; nothing is left of it afterwards."""
    made = Web(world)
    yield made
    made.gate.set()
    made.leave()
    await asyncio.wait_for(made.task, PATIENCE_SECONDS)


async def opened(web, version=5):
    web.frame(encode(Connect(version, "c"), version))
    (connack,) = await web.hear()
    assert isinstance(connack, Connack)


@pytest.mark.parametrize("name", ["mqtt", "mqttv3.1"])
async def test_the_subprotocol_is_answered(world, name):
    """D3, MQTT-6.0.0-3, MQTT-6.0.0-4: that of several which is ours."""
    web = Web(world, ("chat", name))
    await world.turn()
    assert [{"type": "websocket.accept", "subprotocol": name}] == web.outgoing
    web.leave()
    await web.task


@pytest.mark.parametrize("names", [(), ("chat",), ("MQTT",)])
async def test_without_the_subprotocol_it_is_refused(world, names):
    """D3: before it is a connection."""
    web = Web(world, names)
    await web.task
    assert ["websocket.close"] == [item["type"] for item in web.outgoing]
    assert set() == world.broker.clients


async def test_one_byte_in_each_frame(web):
    """D4, MQTT-6.0.0-2."""
    for byte in CONNECT + PING:
        web.frame(bytes((byte,)))
    connack, ping = await web.hear()
    assert (Connack, Pingresp()) == (type(connack), ping)


async def test_all_in_one_frame(web):
    """D4, MQTT-6.0.0-2."""
    subscribe = encode(Subscribe(1, (Subscription("a"),)), 5)
    publish = encode(Publish("a", b"x"), 5)
    web.frame(CONNECT + subscribe + publish + PING)
    connack, suback, *rest = await web.hear()
    assert (Connack, Suback) == (type(connack), type(suback))
    assert ([Pingresp()], [b"x"]) == (
        [item for item in rest if isinstance(item, Pingresp)],
        payloads(rest),
    )


async def test_an_empty_frame(web):
    await opened(web)
    web.frame(b"")
    web.frame(PING)
    assert [Pingresp()] == await web.hear()


async def test_a_text_frame_is_refused(world, web):
    """MQTT-6.0.0-1: closed with 1003."""
    await opened(web)
    web.text("hello")
    await web.task
    assert ([1003], set()) == (web.codes, world.broker.clients)


async def test_the_broker_closes(web):
    """Its last packet goes before the close."""
    await opened(web)
    web.frame(CONNECT)
    await web.task
    (answer,) = await web.hear()
    assert (Reason.PROTOCOL_ERROR, [1000]) == (answer.reason, web.codes)


async def test_the_peer_closes(world, web):
    await opened(web)
    web.leave()
    await web.task
    assert ([], set()) == (web.codes, world.broker.clients)


async def test_the_peer_is_gone_when_something_is_sent(world, web):
    """D8: no close is tried, nothing is logged as a fault."""
    await opened(web)
    web.broken = OSError("gone")
    web.frame(PING)
    await web.task
    assert ([], set()) == (web.codes, world.broker.clients)


async def test_a_fault_of_the_carrier_is_logged(world, web, caplog):
    """D8."""
    await opened(web)
    web.broken = ValueError("a mistake")
    web.frame(PING)
    await web.task
    assert "mqtt websocket 127.0.0.1 writer failed" in caplog.text
    assert set() == world.broker.clients


@pytest.mark.parametrize(
    ("accept", "read"),
    [(b"application/cbor", cbor2.loads), (b"*/*", json.loads), (b"image/png", json.loads)],
    ids=["cbor", "any", "unknown"],
)
async def test_accept_of_the_upgrade_chooses_the_form(world, accept, read):
    """D47, X19: also before MQTT 5."""
    web = Web(world, headers=[(b"host", b"x"), (b"accept", accept)], version=4)
    await opened(web, 4)
    web.frame(encode(Subscribe(1, (Subscription("Dog/#"),)), 4))
    await world.put("Dog/1", b'{"age":1}')
    _, message = await web.hear()
    assert {"age": 1} == read(message.payload)
    web.leave()
    await web.task


async def test_a_reader_that_stops(world, web):
    """D22: what waits is bounded; nothing is lost when it reads again."""
    await opened(web)
    web.frame(encode(Subscribe(1, (Subscription("Open/#"),)), 5))
    await web.hear()
    web.gate.clear()
    (client,) = world.broker.clients
    body = b"x" * 100_000
    for number in range(20):
        await world.put(f"Open/{number}", body, "text/plain")
        await world.turn()
    assert client.transport.get_write_buffer_size() < MQTT_WRITE_BUFFER_BYTES_HIGH + 400_000
    web.gate.set()
    came = []
    while messages := payloads(await web.hear()):
        came += messages
    assert [body] * 20 == came
    web.frame(PING)
    assert [Pingresp()] == await web.hear()


async def test_a_reader_that_never_reads_again(world, web):
    """Bad input: both tasks end, though one is stuck in a send."""
    await opened(web)
    web.frame(encode(Subscribe(1, (Subscription("Open/#"),)), 5))
    await web.hear()
    web.gate.clear()
    for number in range(5):
        await world.put(f"Open/{number}", b"x" * 200_000, "text/plain")
    await world.turn()
    await world.pass_time(MQTT_STALL_SECONDS + 1)
    await web.task
    assert ([], set(), 1) == (web.codes, world.broker.clients, world.broker.stalled)


async def test_shutdown(world, web):
    """D46: DISCONNECT, then the close."""
    await opened(web)
    await world.broker.stop()
    await web.task
    (answer,) = await web.hear()
    assert Disconnect(Reason.SERVER_SHUTTING_DOWN) == Disconnect(answer.reason)
    assert [1000] == web.codes


async def test_cancelled(world):
    """The server that carries it ends it."""
    web = Web(world)
    await opened(web)
    web.task.cancel()
    await asyncio.gather(web.task, return_exceptions=True)
    assert (set(), EPOCH) == (world.broker.clients, world.kernel.reader.epoch)


async def test_while_the_server_goes_down(world):
    await world.broker.stop()
    web = Web(world)
    await web.task
    assert ["websocket.close"] == [item["type"] for item in web.outgoing]


async def test_over_the_limit():
    """D6: CONNACK 0x97 in a frame, then the close; nothing is kept."""
    world = MqttServer(guard=GuardSettings(connections_max=1))
    await world.connected("first")
    web = Web(world)
    await opened_with(web, Reason.QUOTA_EXCEEDED)
    await web.task
    assert ([1000], 1, 0) == (web.codes, len(world.broker.clients), len(world.broker.refused))


async def test_over_the_limit_of_answers():
    """D6: those beyond are closed at once."""
    world = MqttServer(guard=GuardSettings(connections_max=1))
    world.broker.refused.open_max = 1
    await world.connected("first")
    waiting, web = Web(world), Web(world)
    await web.task
    assert ([1013], 1) == (web.codes, world.broker.refused.unanswered)
    waiting.leave()
    await waiting.task
    assert 0 == len(world.broker.refused)


async def opened_with(web, reason):
    web.frame(CONNECT)
    (connack,) = await web.hear()
    assert reason == connack.reason
