"""Streams end, with their reason, when their reader may not have them any more (C28)."""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from websockets.exceptions import ConnectionClosed

from asgi_streams import Socket
from http_server import STREAM, HttpServer, a_moment, hear, say
from rowcast.core.callers import NONE, Grants
from rowcast.core.errors import Code, Error
from rowcast.routes.resource import Resource
from serving import PATIENCE_SECONDS

GONE = Error(Code.UNAUTHENTICATED, "the user was removed")
WATCHER = Counter(_shutdown_watcher=1)
"""The task that sse-starlette starts with the first stream of a resource and leaves running."""


class Hello(Resource):
    """Greets again and again, in its own words."""

    async def connect(self, incoming=None):
        """Greet."""
        while True:
            yield "hello"
            await a_moment()


class Watched(Resource):
    """Streams as the server does, by a class of its own."""

    def connect(self, incoming=None):
        """Stream."""
        return super().connect(incoming)


@pytest.fixture
async def doors():
    async with HttpServer(resources=[Hello, Watched]) as running:
        yield running


def judged(doors, outcome):
    """Let everybody be judged so."""

    def judge(caller):
        if isinstance(outcome, Error):
            raise outcome
        return replace(caller, grants=outcome)

    doors.kernel.reauthorization.judges[:] = [judge]
    doors.kernel.reauthorization.changed()


async def last_of(blocks):
    """Return the last block of an event stream."""
    last = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for block in blocks:
            last = block
    return last


async def end_of(peer):
    """Return code and reason with which a WebSocket is closed."""
    with pytest.raises(ConnectionClosed) as caught:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await peer.recv()
    return caught.value.rcvd.code, caught.value.rcvd.reason


@pytest.mark.parametrize("path", ["/Dog/", "/Hello/1", "/Watched/1"])
@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [(GONE, 401, "the user was removed"), (NONE, 401, "may not read")],
)
async def test_every_stream_ends_with_its_reason(doors, path, outcome, code, words):
    before = doors.counts + WATCHER
    async with doors.sse(path) as blocks, doors.ws(path) as peer:
        await doors.until(lambda: 2 == len(doors.edge.watch))
        judged(doors, outcome)
        last = await last_of(blocks)
        assert "problem" == last["event"]
        told = json.loads(last["data"])
        assert (code, True) == (told["status"], words in told["detail"])
        closed, reason = await end_of(peer)
        assert (4000 + code, True) == (closed, words in reason)
    await doors.leave_nothing(before)


async def test_who_may_still_read_goes_on_and_writes_no_more(doors):
    async with doors.sse("/Dog/") as blocks, doors.ws("/Dog/") as peer:
        await blocks.next()
        await hear(peer)
        judged(doors, Grants(read=True))
        await say(peer, op="put", topic="Dog/1", value={}, id=1)
        assert "unauthenticated" == (await hear(peer))[0]["error"]["code"]
        await doors.write("Dog/2")
        assert "Dog/2" == (await hear(peer))[0]["topic"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "Dog/2" not in (await anext(blocks)).get("data", ""):
                pass


async def test_who_is_removed_between_signing_in_and_the_stream_is_refused(doors):
    doors.kernel.reauthorization.judges.append(lambda caller: (_ for _ in ()).throw(GONE))
    assert 401 == (await doors.http.get("/Dog/", headers=STREAM)).status_code
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(doors.ws("/Dog/"))
        assert 4401 == (await end_of(peer))[0]


async def test_who_is_removed_between_the_stream_and_its_first_event_is_told_too(doors):
    def judge(caller):
        if doors.kernel.bus.subscriptions:
            raise GONE
        return caller

    doors.kernel.reauthorization.judges.append(judge)
    async with doors.sse("/Dog/") as blocks:
        assert "problem" == (await last_of(blocks))["event"]
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(doors.ws("/Dog/"))
        assert 4401 == (await end_of(peer))[0]


async def test_callers_without_a_name_are_made_anew(doors):
    """What is kept of an address is forgotten when users come."""
    made = []
    doors.edge.settings = replace(
        doors.edge.settings, anonymous=lambda peer, door: made.append(door) or doors.caller
    )
    for _ in range(2):
        await doors.http.get("/Dog/1")
    assert ["http"] == made
    doors.kernel.reauthorization.changed()
    await doors.http.get("/Dog/1")
    assert ["http", "http"] == made


class Unread(Socket):
    """A WebSocket whose peer reads nothing after the handshake."""

    def __init__(self, home):
        self.home, self.reads = home, asyncio.Event()

    async def _send(self, message):
        self.sent.append(message)
        if message["type"] == "websocket.send":
            await self.reads.wait()


@pytest.mark.parametrize("outcome", [GONE, NONE])
async def test_l8_who_reads_nothing_writes_nothing_after_the_change(doors, outcome):
    """L8: its close frame waits until it reads, or is cut off; its commands do not."""
    peer = Unread(doors)
    await peer.connect()
    await peer.say(op="subscribe", topic="Dog/#")
    await peer.say(op="put", topic="Dog/1", value={})
    await doors.until(lambda: len(peer.sent) > 1 and doors.kernel.reader.announced())
    judged(doors, outcome)
    written = doors.kernel.reader.announced()
    for number in range(9):
        await peer.say(op="put", topic="Dog/2", value={"n": number})
    for _ in range(20):
        await asyncio.sleep(0)
    assert written == doors.kernel.reader.announced()
    peer.reads.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await peer.task
    assert ("websocket.close", 4401) == (peer.sent[-1]["type"], peer.sent[-1]["code"])
