"""MQTT over real TCP connections, on a free port."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from mqtt_server import (
    Connect,
    Disconnect,
    MqttServer,
    Pingreq,
    Pingresp,
    Publish,
    Subscribe,
    Subscription,
    payloads,
)  # fmt: skip
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.tcp import TcpConnection
from rowcast.doors.mqtt.connections.timer_wheel import TimerWheel
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connack, Puback, Suback
from rowcast.mqtt.reasons import Reason
from rowcast.net.listener import Listener


class Socket:
    """The client's end of a TCP connection."""

    def __init__(self, reader, writer, version=5):
        self.reader, self.writer, self.version = reader, writer, version
        self.decoder = Connection("client", packet_bytes_max=300_000_000, version=version)
        self.packets = []

    def send(self, *packets):
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def hear(self, count=1):
        """Return the next packets, waiting until there are so many."""
        while len(self.packets) < count:
            data = await self.reader.read(65_536)
            assert data, "closed"
            self.packets += self.decoder.receive(data)
        packets, self.packets = self.packets[:count], self.packets[count:]
        return packets

    async def ended(self):
        """Wait until the server closes; return what it sent before."""
        return await self.reader.read(-1)


class Net:
    """A listener, and connections to it."""

    def __init__(self, world):
        self.world = world
        world.broker.loop = asyncio.get_running_loop()
        world.broker.wheel = TimerWheel(world.broker.loop)
        self.listener = Listener(
            lambda: TcpConnection(world.broker, world.broker.settings.tcp_keep_alive_seconds),
            "127.0.0.1",
            0,
        )
        self.writers = []

    async def socket(self, client_id=None, version=5, **options):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.writers.append(writer)
        socket = Socket(reader, writer, version)
        if client_id is not None:
            socket.send(Connect(version, client_id, **options))
            (answer,) = await socket.hear()
            assert isinstance(answer, Connack)
        return socket

    async def gone(self):
        """Wait until the broker has no client left."""
        while self.world.broker.clients:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(**settings):
    net = Net(MqttServer(**settings))
    assert 0 == net.listener.port
    await net.listener.start()
    try:
        yield net
    finally:
        for writer in net.writers:
            writer.close()
        net.listener.stop()
        await net.world.broker.stop()
        await net.world.stop()


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_publish_and_subscribe(version):
    """D1, D9."""
    async with listening() as net:
        reader, writer = [await net.socket(name, version) for name in "rw"]
        reader.send(Subscribe(1, (Subscription("a/#", 1),)))
        assert [Suback(1, (Reason(1),))] == [
            Suback(item.packet_id, item.reasons) for item in await reader.hear()
        ]
        writer.send(Publish("a/b", b"0"), Publish("a/b", b"1", 1, packet_id=9))
        assert [Puback(9)] == await writer.hear()
        assert [b"0", b"1"] == payloads(await reader.hear(2))


async def test_a_large_message_in_pieces():
    """D4, D64: a packet of many reads and writes."""
    async with listening() as net:
        reader, writer = [await net.socket(name) for name in "rw"]
        reader.send(Subscribe(1, (Subscription("a"),)))
        await reader.hear()
        body = bytes(range(256)) * 4_000
        writer.send(Publish("a", body))
        assert [body] == payloads(await reader.hear())


async def test_a_reader_that_stops_and_goes_on():
    """D22, Bad input: a full socket is waited for, and nothing of the log is lost."""
    async with listening() as net:
        slow, writer = [await net.socket(name) for name in "sw"]
        slow.send(Subscribe(1, (Subscription("Open/#", 1),)))
        await slow.hear()
        slow.reader._transport.pause_reading()
        count, body = 200, b"x" * 100_000
        for number in range(1, count + 1):
            writer.send(Publish(f"Open/{number}", body, 1, True, packet_id=number))
        await writer.hear(count)
        slow.reader._transport.resume_reading()
        for number in range(1, count + 1):
            (message,) = await slow.hear()
            assert f"Open/{number}" == message.topic
            slow.send(Puback(message.packet_id))


async def test_a_lost_connection_leaves_nothing():
    """D35, D5."""
    async with listening() as net:
        socket = await net.socket("c")
        socket.send(Subscribe(1, (Subscription("a"),)))
        await socket.hear()
        socket.writer.transport.abort()
        await net.gone()
        assert (0, 0) == (len(net.world.broker.sessions), net.world.kernel.bus.subscriptions)


async def test_connections_over_the_limit():
    """D6: told why and closed; the others stay, and there is room again when one of them goes."""
    async with listening(guard=GuardSettings(connections_max=1)) as net:
        first = await net.socket("first")
        second = await net.socket()
        second.send(Connect(5, "second"))
        (connack,) = await second.hear()
        assert (Reason.QUOTA_EXCEEDED, b"") == (connack.reason, await second.ended())
        first.send(Pingreq())
        assert [Pingresp()] == await first.hear()
        first.send(Disconnect())
        await net.gone()
        assert await net.socket("third")


async def test_the_kernel_looks_for_peers_that_vanished():
    """D57: a peer without FIN and without keep-alive is noticed by probes."""
    async with listening(tcp_keep_alive_seconds=77) as net:
        await net.socket("c")
        (client,) = net.world.broker.clients
        server = client.transport.get_extra_info("socket")
        assert 1 == server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 77 == server.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)


async def test_the_connect_timeout_in_real_time():
    """D7."""
    async with listening(connect_timeout_seconds=0.01) as net:
        silent = await net.socket()
        assert b"" == await silent.ended()


async def test_shutdown():
    """D5, D46: 0x8B, closed, nothing left, no new connection."""
    async with listening() as net:
        socket = await net.socket("c")
        port = net.listener.port
        net.listener.stop()
        stopping = asyncio.ensure_future(net.world.broker.stop())
        (answer,) = await socket.hear()
        assert Disconnect(Reason.SERVER_SHUTTING_DOWN) == Disconnect(answer.reason)
        assert b"" == await socket.ended()
        await stopping
        assert set() == net.world.broker.clients
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
