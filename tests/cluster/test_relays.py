"""Connections of clients that one node passes on to another (K4)."""

import asyncio
import secrets
import socket

import pytest

from rowcast.cluster.frames import Frames
from rowcast.cluster.messages import RELAY, pack
from rowcast.cluster.ports import SequencerPort, relay
from rowcast.core.errors import Code, Error
from rowcast.core.limits import MQTT_STALL_SECONDS, STREAM_SEND_SECONDS
from rowcast.net.relay import HTTP, MQTT, Client, RelayedTransport, ServerSide, certificate_der
from serving import until

KEY = secrets.token_bytes(32)
SUBJECT = {"subject": ((("commonName", "ann"),),)}
CLIENT = Client(MQTT, "203.0.113.7", 4711, True, SUBJECT, b"der", "application/cbor")


class Echo(asyncio.Protocol):
    """Serves a client that is passed on: it answers with what it gets."""

    def __init__(self, client):
        self.client, self.got, self.lost = client, b"", False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        self.transport.write(data)

    def connection_lost(self, exc):
        self.lost = True


class ClientSide:
    """Stands for the side with the client."""

    def __init__(self):
        self.got, self.full, self.ended = b"", None, False

    def take(self, data):
        self.got += data

    def hold(self, full):
        self.full = full

    def lost(self):
        self.ended = True


@pytest.fixture
async def port():
    listening = SequencerPort(None, KEY)
    listening.served = []

    def serve(client):
        listening.served.append(Echo(client))
        return listening.served[-1]

    listening.on_relay = serve
    await listening.start("127.0.0.1", 0)
    listening.number = listening._server.sockets[0].getsockname()[1]
    yield listening
    listening.stop()
    for served in listening.served:
        served.transport.close()
    await until(lambda: all(served.lost for served in listening.served))


async def test_who_takes_nothing_for_a_while_is_left_to_the_bounds_of_clients(port):
    """The system would end its connection within seconds, as that of a node that is cut off."""
    transport = await relay("127.0.0.1", port.number, KEY, CLIENT, ServerSide(ClientSide()))
    await until(lambda: port.served)
    for side in (transport, port.served[0].transport._below):
        connected = side.get_extra_info("socket")
        silence = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert silence > 1000 * max(MQTT_STALL_SECONDS, STREAM_SEND_SECONDS)
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    transport.close()


async def test_bytes_go_both_ways_and_the_end_too(port):
    near = ClientSide()
    far = ServerSide(near)
    await relay("127.0.0.1", port.number, KEY, CLIENT, far)
    far.send(b"a" * 100_000)  # with the message that says whose they are
    await until(lambda: near.got == b"a" * 100_000)
    served = port.served[0]
    assert served.client == CLIENT
    far.close()
    await until(lambda: served.lost)
    other = ClientSide()
    await relay("127.0.0.1", port.number, KEY, CLIENT, ServerSide(other))
    await until(lambda: len(port.served) == 2)
    port.served[1].transport.close()
    await until(lambda: other.ended)


async def test_the_door_sees_the_client_and_not_the_relay(port):
    await relay("127.0.0.1", port.number, KEY, CLIENT, ServerSide(ClientSide()))
    await until(lambda: port.served)
    transport = port.served[0].transport
    assert transport.get_extra_info("peername") == ("203.0.113.7", 4711)
    assert transport.get_extra_info("peercert") == SUBJECT
    assert transport.get_extra_info("sslcontext")
    assert transport.get_extra_info("cipher")
    assert transport.get_extra_info("socket") is None
    assert transport.get_extra_info("socket", 1) == 1
    assert certificate_der(transport) == b"der"
    transport.max_size = 1000
    assert transport.max_size == 1000
    assert not transport.is_closing()
    plain = Client(HTTP, "::1")
    assert RelayedTransport(transport, plain).get_extra_info("sslcontext") is None
    assert RelayedTransport(transport, plain).get_extra_info("cipher") is None
    assert certificate_der(RelayedTransport(transport, plain)) is None


async def test_a_client_that_takes_nothing_holds_up_its_server_and_nobody_else(port):
    near = ClientSide()
    far = ServerSide(near)
    await relay("127.0.0.1", port.number, KEY, CLIENT, far)
    await until(lambda: port.served)
    far.hold(True)
    far.hold(True)
    transport = port.served[0].transport
    while not transport.get_write_buffer_size():
        transport.write(bytes(1 << 20))
        await asyncio.sleep(0)
    assert not near.got
    far.hold(False)
    await until(lambda: not transport.get_write_buffer_size())
    await until(lambda: near.got)
    far.pause_writing()
    assert near.full
    far.resume_writing()
    assert near.full is False
    far.close()
    await until(lambda: near.ended)
    far.close()
    far.send(b"late")
    far.hold(True)


async def test_a_node_that_serves_no_doors_refuses(port):
    port.on_relay = None
    near = ClientSide()
    await relay("127.0.0.1", port.number, KEY, CLIENT, ServerSide(near))
    await until(lambda: near.ended)


async def test_without_the_secret_nothing_is_passed_on(port):
    with pytest.raises(Error, match="has ended the connection") as caught:
        await relay("127.0.0.1", port.number, bytes(32), CLIENT, ServerSide(ClientSide()))
    assert caught.value.code is Code.BUSY
    assert not port.served


async def test_a_node_that_does_not_answer_is_given_up():
    def silent(reader, writer):
        writers.append(writer)

    writers = []
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    number = server.sockets[0].getsockname()[1]
    with pytest.raises(Error, match="does not answer"):
        await relay("127.0.0.1", number, KEY, CLIENT, ServerSide(ClientSide()), seconds=0.05)
    server.close()
    for writer in writers:
        writer.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", pack(1, 2), Client("ftp", "h").pack(), b"\x91\xa4mqtt" + b"x", 7],
)
async def test_what_is_no_client_ends_the_connection(content):
    with pytest.raises(Error, match=r"passed on|door|client"):
        Client.unpack(content)


def test_a_client_survives_its_bytes():
    assert Client.unpack(CLIENT.pack()) == CLIENT
    assert Client.unpack(Client(HTTP, "h").pack()) == Client(HTTP, "h")


def test_a_lost_connection_is_not_handed_over():
    with pytest.raises(Error, match="was lost"):
        Frames().hand_over(asyncio.Protocol())
    assert pack(RELAY, CLIENT.pack())
