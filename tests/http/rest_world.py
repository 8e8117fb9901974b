"""REST without a socket: an edge over a store in memory, and requests as plain ASGI calls."""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from memory_store import MemoryStore
from rowcast.bus.bus import Bus
from rowcast.codecs import decode
from rowcast.core.callers import ALL, Caller
from rowcast.core.clock import HybridClock
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.application import make_application
from rowcast.doors.http.edge import Edge, HttpSettings
from rowcast.features.undeclared_topics.topic_tables import TopicSettings, TopicTables
from rowcast.kernel.commit import Committer
from rowcast.kernel.kernel import Engine
from rowcast.kernel.reader import Reader
from rowcast.kernel.registry import Registry
from rowcast.reads.record_cache import RecordCache
from rowcast.schema import load_schema

SCHEMA = '''
"""A dog."""
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  "In years."
  age: Int
  weight: Decimal
  born: Date
  owner: Owner
  secret: String @hidden
}
type Owner { name: String! phone: String }
type Number @table @export { n: Int @primaryKey label: String }
type Note @table @sealed @export { text: String }
type Open @table @export
type Timed @table @export { id: ID @primaryKey made: Date @createdTime }
type Behind @table @export(rest: false) { id: ID @primaryKey }
type Deep @table @export(name: "a/deep/table") { id: ID @primaryKey x: Any }
'''
EPOCH = "0badcafe"
CURSOR = r"0badcafe:\d+"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    pieces: int = 1

    @property
    def value(self):
        """The body's value, by its Content-Type."""
        return decode(self.body, self.headers["content-type"])

    @property
    def media_type(self):
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def etag(self):
        return self.headers.get("etag")

    @property
    def code(self):
        return self.value["code"]


class World:
    """An edge to ask."""

    def __init__(self, edge, store):
        self.edge = edge
        self.store = store
        self.engine = edge.engine
        self.heard = []

    async def ask(self, method, path, body=b"", chunks=None, raw=None, **headers):
        """Send one request; a header's underscores are hyphens."""
        path, _, query = path.partition("?")
        listed = [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in headers.items()
        ]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": raw if raw is not None else quote(path, safe="/%:@!$&'()*,;=~").encode(),
            "query_string": query.encode(),
            "headers": listed,
            "client": ("127.0.0.1", 0),
        }
        return await call(self.edge, scope, deque(chunks or [body]))

    def __getattr__(self, name):
        """Make `await world.get(path)` of ask."""
        if name not in {"get", "head", "put", "patch", "post", "delete", "options"}:
            raise AttributeError(name)

        async def ask(path, body=b"", **headers):
            return await self.ask(name.upper(), path, body, **headers)

        return ask

    def listen(self, text="#"):
        """Note every event that is announced."""
        heard = self.heard
        _listen(self.engine, text, heard)
        return heard


def _listen(engine, text, heard):
    """Put a subscriber on the bus that only notes."""

    class Listener:
        def offer(self, event):
            heard.append(event)

    engine.bus.add(TopicFilter(text), Listener())


async def call(app, scope, chunks):
    """Run one ASGI call; `chunks` are the body's parts, None never comes, "gone" disconnects."""
    sent = []

    async def receive():
        if not chunks:
            await asyncio.get_running_loop().create_future()
        part = chunks.popleft()
        if part is None:
            await asyncio.get_running_loop().create_future()
        if part == "gone":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(chunks)}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert not bodies[-1].get("more_body")
    headers = {}
    for name, value in start["headers"]:
        key, text = name.decode("ascii"), value.decode("latin-1")
        assert key == key.lower()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    body = b"".join(message.get("body", b"") for message in bodies)
    if "content-length" in headers and scope["method"] != "HEAD":
        assert int(headers["content-length"]) == len(body)
    if start["status"] in {204, 304} or scope["method"] == "HEAD":
        assert body == b""
    return Answer(start["status"], headers, body, len(bodies))


@asynccontextmanager
async def world(
    schema=SCHEMA,
    *,
    resources=(),
    grants=ALL,
    undeclared=True,
    plain=False,
    folder=None,
    **settings,
):
    """Open a world and close it again; a ``plain`` one only delivers undeclared messages."""
    path = Path(folder) / "schema.graphql"
    path.write_text(schema)
    tables = load_schema(path).tables
    store = MemoryStore(EPOCH)
    store.open(tables)
    registry = Registry(tables, undeclared=undeclared, logged=undeclared and not plain)
    for resource in resources:
        registry.add(resource.path or resource.__name__, resource)
    cache, bus = RecordCache(), Bus()
    with ThreadPoolExecutor(1) as writer, ThreadPoolExecutor(2) as readers:
        committer = Committer(store, bus, cache, HybridClock(time.time), writer)
        reader = Reader(store, cache, readers, tables, lambda: committer.announced)
        topics = TopicTables(store, committer, registry, TopicSettings(), time.time)
        engine = Engine(registry, bus, committer, reader, time.time, 100_000, topic_tables=topics)
        facts = {
            "title": "Rowcast",
            "version": "1.2.3",
            "sse_heartbeat_seconds": 15,
            "sse_retry_ms": 1000,
            "websocket_heartbeat_seconds": 20,
            "cors_origins": ("https://app.example.org",),
            "body_bytes_max": 100_000,
            "anonymous": lambda peer, door: Caller("anonymous", grants, door, peer=peer),
        } | settings
        http = HttpSettings(**facts)
        yield World(Edge(engine, http, make_application(engine, http)), store)
        await engine.stop()
