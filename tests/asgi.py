"""HTTP without a socket: an edge on a built server, and requests as plain ASGI calls."""

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from build import EPOCH, Listener, Server
from rowcast.codecs import decode
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.schema import parse_schema

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


class Asgi:
    """An edge to ask."""

    def __init__(self, edge, store):
        self.edge = edge
        self.store = store
        self.kernel = edge.kernel

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
        """Make `await asgi.get(path)` of ask."""
        if name not in {"get", "head", "put", "patch", "post", "delete", "options"}:
            raise AttributeError(name)

        async def ask(path, body=b"", **headers):
            return await self.ask(name.upper(), path, body, **headers)

        return ask

    def listen(self, text="#"):
        """Note every event that is announced."""
        return Listener(self.kernel, text).events


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


@lru_cache(maxsize=100)
def _parsed(schema):
    """Parse a schema, once for all servers that have it."""
    return parse_schema(schema)


@asynccontextmanager
async def asgi(
    schema=SCHEMA,
    *,
    resources=(),
    undeclared="table",
    readers=None,
    features=(),
    hooks=None,
    now=time.time,
    **settings,
):
    """Open a server and close it again; other options are settings of the edge."""
    named = [(resource.path or resource.__name__, resource) for resource in resources]
    server = Server(
        _parsed(schema).tables,
        topics=TopicSettings(),
        undeclared=undeclared,
        resources=named,
        now=now,
        payload_bytes_max=100_000,
        readers=readers,
        features=features,
        hooks=hooks,
    )
    settings = {"cors_origins": ("https://app.example.org",)} | settings
    yield Asgi(server.make_edge(**settings), server.store)
    await server.stop()
    server.readers.shutdown()


__all__ = ["CURSOR", "EPOCH", "SCHEMA", "Answer", "asgi", "call", "deque"]
