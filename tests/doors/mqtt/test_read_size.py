"""How much is read at a time (L11): a flood of small packets leaves others their turns."""

import asyncio
import socket

import pytest

from rowcast.core.fairness_limits import SHARED_CLIENT_BYTES_HIGH
from rowcast.doors.mqtt.connections.read_size import (
    FEW_PACKETS,
    LARGE_READ_BYTES,
    READ_BYTES,
    SHARED_READ_BYTES,
    fit_reads,
    read_little,
)
from rowcast.doors.mqtt.connections.tcp import TcpConnection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Publish, Subscribe, Subscription, Unsubscribe

SMALL = Publish("a", b"x")


def filters(count):
    return Subscribe(1, (Subscription("a"),) * count)


class Chosen:
    max_size = 0


@pytest.mark.parametrize(
    ("packets", "size"),
    [
        ([], LARGE_READ_BYTES),
        ([SMALL] * FEW_PACKETS, LARGE_READ_BYTES),
        ([SMALL] * (FEW_PACKETS + 1), READ_BYTES),
        ([filters(FEW_PACKETS)], LARGE_READ_BYTES),
        ([filters(FEW_PACKETS), SMALL], READ_BYTES),
        ([Unsubscribe(1, ("a",) * FEW_PACKETS), SMALL], READ_BYTES),
    ],
)
async def test_few_packets_in_a_full_read_are_large_ones(world, packets, size):
    transport, committer = Chosen(), world.kernel.committer
    read_little(transport)
    assert READ_BYTES == transport.max_size
    fit_reads(transport, packets, READ_BYTES, committer)
    assert size == transport.max_size


@pytest.mark.parametrize(
    ("count", "size"), [(16, LARGE_READ_BYTES), (17, SHARED_READ_BYTES), (65, SHARED_READ_BYTES)]
)
async def test_the_least_is_read_of_small_packets_while_several_write(world, count, size):
    """Those of such a read are fewer, too: else packets of 100 bytes would be taken for large."""
    transport, committer = Chosen(), world.kernel.committer
    committer.shares.until = 1.0
    fit_reads(transport, [SMALL] * count, SHARED_READ_BYTES, committer)
    assert size == transport.max_size
    committer.shares.until = 0.0
    fit_reads(transport, [SMALL] * (FEW_PACKETS + 1), READ_BYTES, committer)
    assert READ_BYTES == transport.max_size


def test_a_transport_without_the_choice_is_left_alone(world):
    transport = object()
    read_little(transport)
    fit_reads(transport, [SMALL], READ_BYTES, world.kernel.committer)


async def turns_until(condition):
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)


async def test_a_flood_is_read_little_by_little_and_a_large_packet_at_once(world):
    """The packets of one read are what a turn of the loop handles, between those of others."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as port:
        theirs = socket.create_connection(port.getsockname())
        ours, _ = port.accept()
    ours.setblocking(False)
    with theirs:
        theirs.setblocking(False)
        await loop.connect_accepted_socket(lambda: TcpConnection(world.broker), ours)
        await loop.sock_sendall(theirs, encode(Connect(5, "flood"), 5))
        assert await loop.sock_recv(theirs, 100)
        small = encode(Publish("a", b"x"), 5) * 20_000
        sending = loop.create_task(loop.sock_sendall(theirs, small))
        counts, (client,) = [], world.broker.clients
        while sum(counts) < 20_000:
            before = client.traffic.packets_in
            await asyncio.sleep(0)
            counts.append(client.traffic.packets_in - before)
        await sending
        most = READ_BYTES // len(encode(Publish("a", b"x"), 5)) + 1
        assert most >= max(counts)
        assert READ_BYTES == client.transport.max_size
        await loop.sock_sendall(theirs, encode(Publish("a", bytes(1_000_000)), 5))
        await turns_until(lambda: client.transport.max_size != READ_BYTES)
        assert LARGE_READ_BYTES == client.transport.max_size


async def test_a_flood_beside_another_writer_is_read_no_further_than_some_batches(world):
    """P2: what is read beyond them takes turns of the loop, and is not stored sooner for that."""
    flood, other = await world.connected("flood"), await world.connected("other")
    world.writer.hold()
    large = b'{"name": "%s"}' % (b"x" * (SHARED_CLIENT_BYTES_HIGH // 2))
    for _ in range(2):
        assert flood.transport.reading
        flood.publish("Dog/1", large, retain=True)
        other.publish("Dog/2", b"{}", retain=True)
        await world.turn()
    flood.publish("Dog/1", b"{}", retain=True)
    assert (False, True) == (flood.transport.reading, other.transport.reading)
    world.writer.release()
    for _ in range(3):
        await world.turn()
    assert flood.transport.reading
