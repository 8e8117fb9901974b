"""Commands of one WebSocket take effect in the order in which they came (C19)."""

import asyncio
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from http_server import HttpServer, hear, say
from rowcast.core.callers import Grants
from rowcast.features.transactions.feature import Transactions
from rowcast.routes.resource import Resource
from rowcast.writes.pending_bytes import WriteBounds
from serving import PATIENCE_SECONDS


@pytest.fixture
async def doors(request):
    async with HttpServer(settings=getattr(request, "param", None)) as running:
        yield running


async def test_a_get_sees_the_puts_before_it(doors):
    """Also when all of them are sent at once."""
    async with doors.ws() as peer:
        for number in range(30):
            topic = f"Dog/{number % 3}"
            await say(peer, id="w", op="put", topic=topic, value={"n": number})
            await say(peer, id=number, op="get", topic=topic)
        answers = await hear(peer, 60)
    assert list(range(30)) == [each["value"]["n"] for each in answers if "value" in each]
    assert not [each for each in answers if "error" in each]


async def test_a_get_sees_the_delete_before_it(doors):
    await doors.write("Dog/1")
    async with doors.ws() as peer:
        await say(peer, id=1, op="delete", topic="Dog/1")
        await say(peer, id=2, op="get", topic="Dog/1")
        deleted, gotten = await hear(peer, 2)
    assert (1, "not_found") == (deleted["ack"], gotten["error"]["code"])


async def test_a_get_sees_what_a_resource_class_wrote_before_it():
    class Slow(Resource):
        async def put(self, value):
            await asyncio.sleep(0)
            return await self.kernel.write_value("Dog/1", "put", value, self.caller)

    async with HttpServer(resources=[Slow]) as doors, doors.ws() as peer:
        await say(peer, id=1, op="put", topic="Slow/1", value={"n": 1})
        await say(peer, id=2, op="get", topic="Dog/1")
        _, gotten = await hear(peer, 2)
    assert {"n": 1} == gotten["value"]


async def test_a_get_is_refused_whose_rights_go_while_it_waits_for_writes():
    """It is asked with the rights that its connection has once it is its turn (L8)."""
    go_on, begun = asyncio.Event(), asyncio.Event()

    class Slow(Resource):
        async def put(self, value):
            begun.set()
            await go_on.wait()

    async with HttpServer(resources=[Slow]) as doors, doors.ws() as peer:
        await doors.write("Dog/1")
        await say(peer, id=1, op="put", topic="Slow/1", value={"n": 1})
        await say(peer, id=2, op="get", topic="Dog/1")
        await begun.wait()
        access = doors.kernel.reauthorization
        access.judges[:] = [lambda caller: replace(caller, grants=Grants(write=True))]
        access.changed()
        go_on.set()
        answered, gotten = await hear(peer, 2)
    assert (1, 2, "unauthenticated") == (answered["ack"], gotten["id"], gotten["error"]["code"])


async def test_a_subscription_to_what_is_new_leaves_out_the_writes_before_it(doors):
    async with doors.ws() as peer:
        await say(peer, id=1, op="put", topic="Dog/1", value={"n": 1})
        await say(peer, id=2, op="subscribe", topic="Dog/#", start="new")
        await say(peer, id=3, op="put", topic="Dog/1", value={"n": 2})
        heard = await hear(peer, 5)
    assert [{"n": 2}] == [each["value"] for each in heard if each.get("kind") == "put"]


async def test_writes_do_not_wait_for_each_other(doors):
    """Those of one connection go to the disk together; only what reads waits."""
    go_on = threading.Event()
    doors.writer.submit(go_on.wait)
    async with doors.ws() as peer:
        for number in range(20):
            await say(peer, id=number, op="put", topic=f"Dog/{number}", value={})
        await say(peer, id="read", op="get", topic="Dog/19")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(doors.committer.pending.values()) < 20:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        before = doors.committer.commits
        go_on.set()
        answers = await hear(peer, 21)
    assert [*range(20), "read"] == [each["ack"] for each in answers]
    assert doors.committer.commits - before < 20


async def test_what_a_socket_writes_faster_than_the_disk_takes_is_not_read(doors):
    """P2: commands behind it wait, and all are answered in the end."""
    committer = doors.kernel.committer
    committer._bounds = committer.pending._bounds = WriteBounds(client_high=2_000)
    committer.pending.share(shared=False)
    disk = threading.Event()
    doors.writer.submit(disk.wait)
    try:
        async with doors.ws() as peer:
            for number in range(6):
                await say(peer, id=number, op="put", topic="Dog/1", value="x" * 1_000)
            await doors.until(lambda: doors.kernel.committer.pending.slowed)
            assert 3_100 > doors.kernel.committer.pending.size
            disk.set()
            assert list(range(6)) == [each["ack"] for each in await hear(peer, 6)]
    finally:  # the writer's thread would wait for ever, and the run with it
        disk.set()


@pytest.mark.parametrize("doors", [{"socket_answers_bytes_high": 3_000}], indirect=True)
async def test_answers_that_nobody_takes_are_bounded_in_bytes(doors):
    """P2: no more commands are read; then all are answered."""
    await doors.write("Dog/1", value="x" * 1_000)
    async with doors.ws() as peer:
        await doors.until(lambda: len(doors.edge.watch) == 1)
        (stream,) = doors.edge.watch._streams
        held, flush = [], stream._writer.ready
        stream._writer = SimpleNamespace(ready=lambda: held.append(stream._said_bytes))
        for number in range(10):
            await say(peer, id=number, op="get", topic="Dog/1")
        await doors.until(lambda: held and held[-1] >= 3_000)
        for _ in range(10):
            await asyncio.sleep(0)
        assert 3 == len(held)
        stream._writer = SimpleNamespace(ready=flush, close=flush.__self__.close)
        flush()
        assert list(range(10)) == [each["ack"] for each in await hear(peer, 10)]


async def test_what_came_before_a_close_is_carried_out(doors):
    """C19: also behind a read that waits for the disk, when an answer finds nobody any more."""
    go_on = threading.Event()
    doors.writer.submit(go_on.wait)
    async with doors.ws() as peer:
        for number in range(5):
            await say(peer, id="put", op="put", topic=f"Dog/{number}", value={"n": number})
            await say(peer, id="get", op="get", topic=f"Dog/{number}")
        peer.transport.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
        go_on.set()
        await peer.wait_closed()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(doors.edge.watch):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    assert [f"Dog/{number}" for number in range(5)] == [
        event.topic for event in doors.store.read(0, 100)
    ]


async def test_a_write_does_not_overtake_a_transaction_before_it(doors):
    """C19, B22: what comes behind it at one of its topics is the later one."""
    Transactions().install(doors.kernel)
    async with doors.ws() as peer:
        for number in range(0, 20, 2):
            writes = [{"op": "put", "topic": "Dog/1", "value": {"n": number}}]
            topic = ("$tx", "/$tx")[number % 4 // 2]
            await say(peer, id=number, op="message", topic=topic, value=writes)
            await say(peer, id=number + 1, op="put", topic="Dog/1", value={"n": number + 1})
        answers = await hear(peer, 20)
    assert list(range(20)) == [each["ack"] for each in answers]
    assert list(range(20)) == [json.loads(event.payload)["n"] for event in doors.store.read(0, 100)]
