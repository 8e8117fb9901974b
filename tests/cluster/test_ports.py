"""Connections between nodes: who has the secret is let in, and nobody else (K12)."""

import asyncio
import secrets
import socket
import ssl
from functools import partial
from types import SimpleNamespace

import pytest
import trustme

from free_ports import free_port
from rowcast.cluster.frames import Frames
from rowcast.cluster.handshake import SECONDS, Handshake
from rowcast.cluster.lease_keeper import Holder
from rowcast.cluster.messages import HELLO, pack
from rowcast.cluster.ports import SILENCE_SECONDS, SequencerPort, follow
from rowcast.core.errors import Code, Error
from rowcast.program.cluster_nodes import FollowerNode
from serving import until

KEY = secrets.token_bytes(32)
GREETING = pack(HELLO, "hello" * 100)


class Link:
    """Stands for either side's link."""

    def __init__(self):
        self.got, self.send, self.closed = [], None, False
        self.on_close = None
        self.full = False

    def received(self, data):
        self.got.append(data)

    def connected(self, send, _waiting=int):
        self.send = send
        send(GREETING)

    def disconnected(self, why=""):
        self.closed = True

    def close(self):
        self.closed = True

    def catch_up(self):
        """Send nothing."""


class Links:
    """Stands for those of the sequencer."""

    def __init__(self):
        self.links = []

    def link(self, send):
        link = Link()
        link.send = send
        self.links.append(link)
        return link


@pytest.fixture
async def port(request):
    links = Links()
    listening = SequencerPort(links, KEY, *getattr(request, "param", ()))
    await listening.start("127.0.0.1", 0)
    listening.links = links
    listening.number = listening._server.sockets[0].getsockname()[1]
    yield listening
    listening.stop()


async def test_who_has_the_secret_is_let_in(port):
    link, lost = Link(), asyncio.Event()
    frames = await follow("127.0.0.1", port.number, KEY, link, lost.set)
    await until(lambda: port.links.links and port.links.links[0].got)
    assert port.links.links[0].got == [GREETING]
    port.links.links[0].send(b"welcome")
    await until(lambda: link.got == [b"welcome"])
    frames.close()
    await lost.wait()
    assert link.closed
    await until(lambda: port.links.links[0].closed)


async def test_another_secret_is_refused_by_both_sides(port):
    link, lost = Link(), asyncio.Event()
    await follow("127.0.0.1", port.number, secrets.token_bytes(32), link, lost.set)
    await lost.wait()
    assert not port.links.links
    assert link.send is None


async def test_a_node_does_not_follow_one_that_has_not_the_secret():
    """Who listens at an address of the cluster, and lets everybody in, gets nothing."""

    async def pretend(reader, writer):
        writer.write((32).to_bytes(4) + bytes(32))
        await reader.readexactly(68)
        writer.write((32).to_bytes(4) + bytes(32))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    link, lost = Link(), asyncio.Event()
    address = server.sockets[0].getsockname()[1]
    await follow("127.0.0.1", address, KEY, link, lost.set)
    await lost.wait()
    assert link.send is None
    server.close()


@pytest.mark.parametrize(
    "sent",
    [
        (65).to_bytes(4) + bytes(65),
        (300 << 20).to_bytes(4),
        (64).to_bytes(4) + bytes(64),
        (3).to_bytes(4) + b"abc",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["too long", "very long", "no code", "short", "http"],
)
async def test_a_stranger_is_let_go(port, sent):
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    await reader.readexactly(36)
    writer.write(sent)
    assert await reader.read() == b""
    assert not port.links.links
    writer.close()


async def test_what_a_side_has_sent_itself_is_no_proof(port):
    """The sequencer never makes the code of a follower."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    nonce = (await reader.readexactly(36))[4:]
    other_reader, other = await asyncio.open_connection("127.0.0.1", port.number)
    await other_reader.readexactly(36)
    other.write((64).to_bytes(4) + nonce + bytes(32))
    assert await other_reader.read() == b""
    writer.close()
    other.close()


async def test_a_follower_that_is_behind_takes_nothing_until_it_is_not(port):
    """What it does not read waits at the other side, whose transport is full then."""
    link, lost = Link(), asyncio.Event()
    frames = await follow("127.0.0.1", port.number, KEY, link, lost.set)
    await until(lambda: port.links.links and port.links.links[0].got)
    there = port.links.links[0]
    frames.pause()
    frames.pause()
    sent = 0
    while not there.full:
        there.send(bytes(1 << 20))
        sent += 1
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0)
    assert len(link.got) == 0
    frames.resume()
    await until(lambda: len(link.got) == sent)
    assert not there.full
    frames.close()
    frames.resume()


@pytest.mark.parametrize("behind", [True, False])
async def test_a_node_reads_no_more_than_its_tables_keep_up_with(behind):
    calls, lost = [], asyncio.Event()
    frames = SimpleNamespace(pause=lambda: calls.append("pause"), resume=lambda: calls.append("on"))
    node = SimpleNamespace(_frames=frames, store=SimpleNamespace(is_behind=behind))
    reading = asyncio.create_task(FollowerNode._read_until(node, lost))
    await until(lambda: calls)
    node.store.is_behind = not behind
    await until(lambda: len(set(calls)) == 2)
    lost.set()
    await reading
    assert calls[0] == ("pause" if behind else "on")


async def test_clients_that_are_passed_on_leave_a_node_that_is_not_reached():
    """Their connections would tell it after a minute: who takes nothing has that time."""
    left = []
    holder = Holder("a", "life", "127.0.0.1", free_port())
    node = SimpleNamespace(
        _member=SimpleNamespace(
            keeper=SimpleNamespace(holder=holder), life="own", key=KEY, connecting=None
        ),
        link=SimpleNamespace(refusal=""),
        _relays=SimpleNamespace(leave_others=left.append),
    )

    async def parted():
        return ""

    node._parted, node._follow_node = parted, partial(FollowerNode._follow_node, node)
    connecting = asyncio.create_task(FollowerNode._keep_connected(node))
    await until(lambda: left)
    assert set(left) == {""}
    connecting.cancel()
    await asyncio.wait((connecting,))


@pytest.mark.parametrize("port", [(None, 2)], indirect=True)
async def test_so_many_strangers_and_no_more(port):
    held = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(2)]
    for reader, _ in held:
        await reader.readexactly(36)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    assert await reader.read() == b""
    writer.close()
    held[0][1].close()
    await until(lambda: len(port._strangers) == 1)
    link, lost = Link(), asyncio.Event()
    await follow("127.0.0.1", port.number, KEY, link, lost.set)
    await until(lambda: port.links.links)
    held[1][1].close()


@pytest.mark.parametrize("port", [(None, 2)], indirect=True)
async def test_strangers_of_one_address_keep_out_no_node(port):
    elsewhere = {"local_addr": ("127.0.0.2", 0)}
    held = [await asyncio.open_connection("127.0.0.1", port.number, **elsewhere) for _ in range(2)]
    for reader, _ in held:
        await reader.readexactly(36)
    link, lost = Link(), asyncio.Event()
    frames = await follow("127.0.0.1", port.number, KEY, link, lost.set)
    await until(lambda: port.links.links or lost.is_set())
    assert port.links.links
    assert await held[0][0].read() == b""
    frames.close()
    for _, writer in held:
        writer.close()


async def test_who_is_silent_is_let_go():
    frames, done, timers = Frames(), [], Timers()
    shaking = Handshake(frames, KEY, timers, lambda: done.append(True))
    closed = []
    frames.close = lambda: closed.append(True)
    shaking.connect()
    timers.run()
    assert closed
    assert not done


class Timers:
    """A clock that the test moves."""

    def __init__(self):
        self.calls = []

    def call_later(self, delay, call, *arguments):
        self.calls.append((call, arguments))

    def run(self):
        for call, arguments in self.calls:
            call(*arguments)


@pytest.fixture
def certificates():
    """An authority of others, and the contexts of both sides with the one of the cluster."""
    authority, foreign = trustme.CA(), trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose)
        authority.configure_trust(context)
        cert.configure_cert(context)
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    return foreign, contexts


async def test_who_begins_tls_and_does_not_go_on_takes_a_strangers_place(certificates):
    _, (accepting, connecting) = certificates
    links = Links()
    listening = SequencerPort(links, KEY, accepting, 2)
    await listening.start("127.0.0.1", 0)
    number = listening._server.sockets[0].getsockname()[1]
    elsewhere = {"local_addr": ("127.0.0.2", 0)}
    held = [await asyncio.open_connection("127.0.0.1", number, **elsewhere) for _ in range(3)]
    async with asyncio.timeout(SECONDS / 2):  # the time for a handshake ends none of them
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        frames = await follow("127.0.0.1", number, KEY, Link(), lambda: None, connecting)
        await until(lambda: links.links)
    assert sum(one.done() for one in ended) == 2
    frames.close()
    listening.stop()
    await asyncio.gather(*ended, return_exceptions=True)
    for _, writer in held:
        writer.close()


async def test_with_certificates_each_side_checks_the_other(certificates):
    foreign, contexts = certificates
    links = Links()
    listening = SequencerPort(links, KEY, contexts[0])
    await listening.start("127.0.0.1", 0)
    port = listening._server.sockets[0].getsockname()[1]
    link, lost = Link(), asyncio.Event()
    await follow("127.0.0.1", port, KEY, link, lost.set, contexts[1])
    await until(lambda: links.links)
    stranger = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    foreign.configure_trust(stranger)
    with pytest.raises(Error) as caught:
        await follow("127.0.0.1", port, KEY, Link(), lost.set, stranger)
    assert caught.value.code is Code.BUSY
    listening.stop()


async def test_nobody_listens_and_a_port_that_is_taken(port):
    with pytest.raises(Error, match="cannot be opened") as caught:
        await SequencerPort(Links(), KEY).start("127.0.0.1", port.number)
    assert caught.value.code is Code.BUSY
    port.stop()
    with pytest.raises(Error, match="cannot be reached") as caught:
        await follow("127.0.0.1", port.number, KEY, Link(), lambda: None)
    assert caught.value.code is Code.BUSY


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not of this system")
async def test_both_sides_notice_that_a_cable_is_cut(port):
    """``scripts/kill cluster --cuts`` does it; here that the system was asked to."""
    accepted = []
    begin = port._begin
    port._make = lambda: made_by(lambda frames: (accepted.append(frames), begin(frames)))
    port.stop()
    await port.start("127.0.0.1", port.number)
    frames = await follow("127.0.0.1", port.number, KEY, Link(), lambda: None)
    await until(lambda: accepted and accepted[0].transport is not None)
    for side in (frames, accepted[0]):
        connected = side.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        silence = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert silence == SILENCE_SECONDS * 1000
    frames.close()


def made_by(begin):
    frames = Frames()
    frames.made = begin
    return frames
