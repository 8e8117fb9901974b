"""Small reads where the transport hands over all it has (L11): uvloop's, and TLS."""

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from rowcast.doors.mqtt.connections.read_size import (
    LARGE_READ_BYTES,
    SHARED_READ_BYTES,
)
from rowcast.doors.mqtt.connections.tcp import TcpConnection
from rowcast.net.handshake import Handshakes
from rowcast.net.identity import Files, server_context
from rowcast.net.listener import Listener
from rowcast.net.sliced_reads import READ_BYTES, SlicedReads
from securing import Authority, ServerFiles

DATA = bytes(range(256)) * (2 * READ_BYTES // 256) + b"end"
"""Two slices and a part of one."""


class Below:
    """A transport that cannot be told how much to read."""

    def __init__(self):
        self.reading, self.closed, self.written, self.ends = True, False, [], []

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closed

    def close(self):
        self.ends.append("close")

    def abort(self):
        self.ends.append("abort")

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = high

    def get_write_buffer_size(self):
        return sum(map(len, self.written))

    def write(self, data):
        self.written.append(data)

    def set_protocol(self, protocol):
        self.protocol = protocol

    def get_extra_info(self, name, default=None):
        return f"the {name}"


class Receiver(asyncio.Protocol):
    """What takes the slices, and notes what came when."""

    def __init__(self):
        self.slices, self.ends, self.also = [], [], lambda: None
        self.once = lambda: None

    def data_received(self, data):
        assert type(data) is bytes
        self.slices.append(data)
        once, self.once = self.once, lambda: None
        once()
        self.also()

    def eof_received(self):
        self.ends.append("eof")

    def connection_lost(self, exc):
        self.ends.append(exc)

    def pause_writing(self):
        self.ends.append("full")

    def resume_writing(self):
        self.ends.append("free")

    @property
    def sizes(self):
        return [len(data) for data in self.slices]

    @property
    def heard(self):
        return b"".join(self.slices)


@pytest.fixture
async def ends():
    """What is below, the slices, and the receiver."""
    below, receiver = Below(), Receiver()
    slices = SlicedReads.of(below)
    slices.set_protocol(receiver)
    assert below.protocol is slices
    return below, slices, receiver


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_turn_of_the_loop_has_one_slice_and_nothing_is_read_before_the_last(ends):
    below, slices, receiver = ends
    slices.data_received(DATA)
    assert ([READ_BYTES], False) == (receiver.sizes, below.reading)
    await turns(1)
    assert ([READ_BYTES] * 2, False) == (receiver.sizes, below.reading)
    await turns(1)
    assert (DATA, True) == (receiver.heard, below.reading)


async def test_what_fits_is_handed_over_at_once(ends):
    below, slices, receiver = ends
    slices.data_received(DATA[:READ_BYTES])
    assert ([READ_BYTES], True) == (receiver.sizes, below.reading)


async def test_another_size_counts_from_the_next_slice(ends):
    _, slices, receiver = ends
    slices.data_received(DATA)
    slices.max_size = SHARED_READ_BYTES
    await turns(1)
    assert [READ_BYTES, SHARED_READ_BYTES] == receiver.sizes
    slices.max_size = len(DATA)
    await turns(1)
    assert (3, DATA) == (len(receiver.slices), receiver.heard)


async def test_a_receiver_that_pauses_gets_nothing_until_it_resumes(ends):
    below, slices, receiver = ends
    receiver.also = slices.pause_reading
    slices.data_received(DATA)
    await turns()
    assert [READ_BYTES] == receiver.sizes
    slices.data_received(b"more")  # it was read already
    await turns()
    assert [READ_BYTES] == receiver.sizes
    slices.resume_reading()
    await turns()
    assert ([READ_BYTES] * 2, False) == (receiver.sizes, below.reading)
    receiver.also = lambda: None
    slices.resume_reading()
    slices.resume_reading()
    await turns(1)
    assert (DATA + b"more", True) == (receiver.heard, below.reading)


async def test_what_comes_while_a_rest_waits_keeps_its_place(ends):
    _, slices, receiver = ends
    slices.data_received(DATA)
    slices.data_received(b"more")
    assert [READ_BYTES] == receiver.sizes
    await turns()
    assert (DATA + b"more", 3) == (receiver.heard, len(receiver.slices))


@pytest.mark.parametrize("paused", [False, True])
async def test_the_rest_comes_before_the_end(ends, paused):
    below, slices, receiver = ends
    if paused:
        receiver.also = slices.pause_reading
    slices.data_received(DATA)
    slices.eof_received()
    assert (DATA, ["eof"]) == (receiver.heard, receiver.ends)
    below.closed = True
    slices.data_received(DATA)
    slices.connection_lost(None)
    await turns()
    assert (DATA * 2, ["eof", None]) == (receiver.heard, receiver.ends)


async def test_nothing_is_read_again_from_what_is_closed(ends):
    below, slices, receiver = ends
    slices.data_received(DATA)
    below.closed = True
    await turns()
    assert (DATA, False) == (receiver.heard, below.reading)


async def test_a_stream_that_was_not_paused_is_not_resumed(ends):
    """Each connection goes on reading when its CONNECT is answered, and nearly none has paused."""
    below, slices, _ = ends
    below.reading = "as it was"
    slices.resume_reading()
    assert below.reading == "as it was"
    slices.pause_reading()
    slices.resume_reading()
    assert below.reading is True


async def test_all_else_is_the_transport_s(ends):
    below, slices, receiver = ends
    slices.write(b"out")
    slices.pause_writing()
    slices.resume_writing()
    assert ([b"out"], ["full", "free"]) == (below.written, receiver.ends)
    assert slices.get_extra_info("peername") == "the peername"
    slices.set_write_buffer_limits(high=8)
    below.closed = True
    assert (True, 8, 3) == (slices.is_closing(), below.high, slices.get_write_buffer_size())
    slices.close()
    slices.abort()
    assert ["close", "abort"] == below.ends


async def test_a_transport_that_can_be_told_is_used_as_it_is():
    below = Below()
    below.max_size = 1
    assert SlicedReads.of(below) is below


class Entrance:
    """What accepts connections, and counts what each turn of the loop hands over."""

    def __init__(self):
        self.receiver, self.over = Receiver(), asyncio.Event()
        self.receiver.connection_lost = lambda exc: self.over.set()
        self.first = lambda transport: None

    def enter(self, transport, peer, media_type=None):
        self.receiver.also = self.note_turn
        self.turn = self.most = 0
        asyncio.get_running_loop().call_soon(self.first, transport)
        return self.receiver

    def note_turn(self):
        """Count the slices of one turn: a last one, and the first one of the next read."""
        self.turn += 1
        self.most = max(self.most, self.turn)
        asyncio.get_running_loop().call_soon(self.end_turn)

    def end_turn(self):
        self.turn = 0


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_flood_is_handed_over_in_slices_on_each_loop_and_with_tls(tmp_path, loop, secure):
    """All bytes, in order, though the peer closes at once; and little of them in a turn."""
    flood = DATA * 30

    async def scenario():
        entrance, authority = Entrance(), Authority(tmp_path)
        files = ServerFiles(tmp_path, authority.issue("localhost"))
        context = server_context(Files(files.certificate, files.key), None, ("mqtt",))
        handshakes = Handshakes("a port", lambda: context, lambda: TcpConnection(entrance))
        made = handshakes.protocol if secure else lambda: TcpConnection(entrance)
        listener = Listener(made, "127.0.0.1", 0)
        await listener.start()
        tls = {"ssl": authority.client(), "server_hostname": "localhost"} if secure else {}
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, **tls)
        writer.write(flood)
        writer.close()  # TLS must not lose what it has not decrypted yet
        await entrance.over.wait()
        listener.stop()
        await handshakes.stop()
        return entrance

    factory = pytest.importorskip(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        entrance = runner.run(asyncio.wait_for(scenario(), 60))
    assert flood == entrance.receiver.heard
    *sizes, last = entrance.receiver.sizes
    assert READ_BYTES >= max(sizes)
    assert (LARGE_READ_BYTES if secure else READ_BYTES) >= last  # TLS may have read the end, too
    assert entrance.most <= 2 + secure


def send_and_close(port, context, data, closed):
    """Be a peer that waits for one byte, sends all it has and closes at once."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        peer = context.wrap_socket(plain, server_hostname="localhost")
        assert peer.recv(1)
        peer.sendall(data)
        peer.setblocking(False)
        with suppress(OSError):
            peer.unwrap()  # says that it closes, and waits for no answer
        peer.close()
    closed.set()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nothing_is_lost_of_a_tls_peer_that_closes_while_slices_wait(tmp_path, loop):
    """D8: uvloop's TLS, when it is paused, forgets what it has read and not decrypted."""
    data, closed = DATA * 9, threading.Event()

    async def scenario():
        entrance, authority = Entrance(), Authority(tmp_path)
        files = ServerFiles(tmp_path, authority.issue("localhost"))
        context = server_context(Files(files.certificate, files.key), None, ("mqtt",))
        handshakes = Handshakes("a port", lambda: context, lambda: TcpConnection(entrance))
        listener = Listener(handshakes.protocol, "127.0.0.1", 0)
        await listener.start()
        entrance.first = lambda transport: transport.write(b"x")
        entrance.receiver.once = closed.wait  # it has closed before the second slice
        peer = threading.Thread(
            target=send_and_close, args=(listener.port, authority.client(), data, closed)
        )
        peer.start()
        async with asyncio.timeout(60):
            await entrance.over.wait()
        peer.join()
        listener.stop()
        await handshakes.stop()
        return entrance.receiver

    factory = pytest.importorskip(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        receiver = runner.run(scenario())
    assert len(data) == len(receiver.heard)
    assert data == receiver.heard
