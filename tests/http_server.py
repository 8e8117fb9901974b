"""A whole HTTP server for stream tests, in the test's own loop, on a free port of this machine."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from websockets.asyncio.client import connect

from build import Server
from http_clients import http_client
from rowcast.core.callers import ALL, Caller
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Logs, Table, Type
from rowcast.doors.http.socket_pings import SocketPings
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from serving import PATIENCE_SECONDS

TABLES = (
    Table("Dog", "Dog"),
    Table("Cat", "Cat"),
    Table("Chat", "Chat", logs=Logs.RETAINED),
    Table("Pulse", "Pulse", deadline_seconds=0.2),
    Table(
        "Sensor",
        "Sensor",
        (
            Attribute("id", Type.ID, primary_key=True),
            Attribute("at", Type.DATE),
            Attribute("raw", Type.BYTES),
            Attribute("secret", Type.STRING, hidden=True),
        ),
    ),
)
STREAM = {"accept": "text/event-stream"}
GRACE_SECONDS = 10 * PATIENCE_SECONDS
"""What uvicorn waits for before it cancels it: what does not end by itself fails a test."""


async def refuse_fixed(scope, receive, send):
    """Stand in for FastAPI, which streams do not need."""
    raise AssertionError(scope["path"])


class HttpServer(Server):
    """A running server; ``kernel`` is its inside."""

    def __init__(
        self,
        resources=(),
        settings=None,
        undeclared="table",
        grants=ALL,
        hooks=None,
        tables=TABLES,
    ):
        named = [(resource.path or resource.__name__, resource) for resource in resources]
        super().__init__(
            tables,
            topics=TopicSettings(),
            undeclared=undeclared,
            resources=named,
            now=time.time,
            hooks=hooks,
            writer=ThreadPoolExecutor(1),
            readers=ThreadPoolExecutor(2),
        )
        self.edge = self.make_edge(lambda *_: refuse_fixed, grants, **(settings or {}))

    async def __aenter__(self):
        config = uvicorn.Config(
            self.edge,
            port=0,
            http="httptools",
            ws=SocketPings,
            ws_max_size=1_000_000,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self.server = uvicorn.Server(config)
        self.server.capture_signals = contextlib.nullcontext
        self.serving = asyncio.create_task(self.server.serve())
        while not self.server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.http = http_client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_SECONDS)
        self.caller = Caller("test", ALL)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()
        await self.stop()
        self.writer.shutdown()
        self.readers.shutdown()

    async def stop(self):
        """Stop as the program does: streams first."""
        self.edge.closing.set()
        self.server.should_exit = True
        await self.serving
        await super().stop()

    # -- writing ---------------------------------------------------------------------------------

    async def write(self, topic, kind=PUT, value=None, media_type="application/json"):
        """Write through the kernel; return the event."""
        payload = b"" if kind == DELETE else value
        if not isinstance(payload, bytes):
            payload = json.dumps(payload if payload is not None else {}).encode()
        event = Event(topic, kind, payload, media_type, 1, kind != MESSAGE)
        receipt = await self.kernel.write(event, self.caller)
        return receipt.event

    async def writes(self, count, topic="Dog/1", kind=PUT):
        """Write the same topic many times, its value counting up."""
        return [await self.write(topic, kind, {"n": number}) for number in range(count)]

    # -- reading ---------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def sse(self, url, **headers):
        """Open an event stream; yield a reader of its blocks."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.stream("GET", url, headers=STREAM | named) as response:
            yield Blocks(response)

    def ws(self, url="/", **options):
        """Open a WebSocket."""
        return connect(f"ws://127.0.0.1:{self.port}{url}", compression=None, **options)

    def compressing_ws(self, url):
        """Open a WebSocket that offers compression."""
        return connect(f"ws://127.0.0.1:{self.port}{url}")

    @property
    def counts(self):
        """How many tasks, by their names, filters and streams there are."""
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        names = Counter(getattr(t.get_coro(), "__qualname__", "") for t in tasks)
        return names + Counter(filters=self.kernel.bus.subscriptions, streams=len(self.edge.watch))

    async def leave_nothing(self, before):
        """Wait until there is nothing more than before, when earlier tasks may not have ended."""
        await self.until(lambda: self.counts <= before)

    async def until(self, condition):
        """Let the loop run until something holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await a_moment()


class OneByOne:
    """Turns of the loop that a test gives."""

    def __init__(self):
        self.waiting = []

    async def take(self):
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn


class Blocks:
    """The blocks of an event stream, each as a dict of its fields; comments as ``comment``."""

    def __init__(self, response):
        self.response = response
        self._lines = response.aiter_lines()

    def __aiter__(self):
        return self

    async def __anext__(self):
        block = {}
        async for line in self._lines:
            if not line:
                if block:
                    return block
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            block[name or "comment"] = value
        raise StopAsyncIteration

    async def next(self, count=1):
        """Return the next blocks that are events."""
        found = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < count:
                block = await anext(self)
                if "data" in block:
                    found.append(block)
        return found

    async def values(self, count=1):
        """Return the envelopes of the next events."""
        return [json.loads(block["data"]) for block in await self.next(count)]


async def a_moment(seconds=0.002):
    """Let the loop and its threads run, for what nobody tells the end of."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def say(socket, **fields):
    """Send a command as JSON."""
    await socket.send(json.dumps(fields))


async def hear(socket, count=1):
    """Return what a JSON socket brings next."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [json.loads(await socket.recv()) for _ in range(count)]


async def ask(socket, **fields):
    """Send a command and return what comes next."""
    await say(socket, **fields)
    return (await hear(socket))[0]
