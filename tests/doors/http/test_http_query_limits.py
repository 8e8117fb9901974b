"""Queries over HTTP: how long they may take, and that they end with their client (P1)."""

import asyncio
import json
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest

from asgi import asgi
from rowcast.core.errors import Code, Error
from rowcast.core.limits import HTTP_PAGE_RECORDS
from rowcast.core.query_index import is_helped
from rowcast.core.query_text import parse_query
from rowcast.reads.read_queue import ReadCaller

READS = ("search", "matching", "history", "follow", "change", "read", "read_back", "scan")
MANY = HTTP_PAGE_RECORDS + 1
SLOW_PATHS = [
    "/Number/?label=ct=x",
    "/Number/?label=ct=x&count",
    "/Number/?label=x&format=csv",
    "/Number/?sort(-label)&limit(5)",
    "/Number/?last=3",
    "/Number/?from=-1h&label=x",
    "/Number/?from=-1h&every=1m",
    "/Number/1?last=3",
    "/some/topic?last=3",
    "/mqtt_some/?topic=x",
    "/mqtt_some/?count&payload=x",
]


class SlowStore:
    """What a store is whose reads end only when they are ended."""

    def __init__(self, rest, after=0):
        self.store, self.begun, self.left = rest.store, threading.Event(), after
        self.limit = None
        self.store.limited = self.limited
        for name in READS:
            setattr(self.store, name, self.slow(getattr(self.store, name)))

    def limited(self, limit, call):
        self.limit = limit
        limit.check()
        return call()

    def slow(self, read):
        def slow(*given):
            self.left -= 1
            if self.left >= 0:
                return read(*given)
            self.begun.set()
            pause = threading.Event()
            while self.limit.ended is None:
                pause.wait(0.01)
            return self.limit.check()

        return slow


@pytest.fixture
async def rest():
    async with asgi(readers=ThreadPoolExecutor(2)) as opened:
        await opened.put("/some/topic", b"x", content_type="text/plain")
        for start in range(0, MANY, 500):
            rows = [{"n": n, "label": "x"} for n in range(start, min(start + 500, MANY))]
            await opened.put("/Number/", json.dumps(rows).encode())
        yield opened


async def until(happened):
    """Wait for another thread."""
    await asyncio.to_thread(happened.wait, 30)


async def asked(rest, path, left, sent):
    """Ask, by a client that leaves when it is told to."""
    messages = deque([{"type": "http.request", "body": b""}])

    async def receive():
        if messages:
            return messages.popleft()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "headers": [], "client": ("127.0.0.1", 0),
    }  # fmt: skip
    await rest.edge(scope, receive, send)


@pytest.mark.parametrize("path", SLOW_PATHS)
async def test_p1_a_query_ends_when_its_client_leaves(rest, path):
    slow, left, sent = SlowStore(rest), asyncio.Event(), []
    asking = asyncio.ensure_future(asked(rest, path, left, sent))
    await until(slow.begun)
    left.set()
    await asking
    await asyncio.sleep(0)
    assert ([], 1) == (sent, rest.kernel.reader.queue.abandoned)
    assert slow.limit.ended is not None


@pytest.mark.parametrize("path", SLOW_PATHS)
async def test_p1_a_query_whose_time_is_over_is_a_problem_that_says_what_to_do(rest, path):
    SlowStore(rest)
    rest.kernel.reader.queue.query_seconds = 0.01
    got = await rest.get(path)
    assert (503, "busy", 0.01) == (got.status, got.code, got.value["timeout_seconds"])
    assert "store.query_timeout" in got.value["detail"]
    assert "1" == got.headers["retry-after"]
    assert 1 == rest.kernel.reader.queue.timed_out


@pytest.mark.parametrize("accept", ["application/json", "text/csv", "application/x-ndjson"])
async def test_p1_a_stream_whose_next_page_is_ended_never_looks_complete(rest, accept):
    """It raises, so that the server cuts the connection before the last chunk."""
    SlowStore(rest, after=1)
    rest.kernel.reader.queue.query_seconds = 0.01
    sent = []
    path = "/Number/?label=x"
    with pytest.raises(Error) as caught:
        await asked(rest, path, asyncio.Event(), sent)
    assert Code.BUSY is caught.value.code
    assert 200 == sent[0]["status"]
    assert all(message["more_body"] for message in sent[1:])


async def test_p1_each_page_of_a_stream_has_the_time_of_a_query(rest):
    """What a client takes to read what it was sent is not counted."""
    renewed = []

    class Noting(ReadCaller):
        def renew(self):
            renewed.append(self.until > 0)
            super().renew()

    rest.kernel.reader.queue.read_caller = lambda _caller: Noting("ann", 30)
    assert MANY == len((await rest.get("/Number/")).value)
    assert [True] == renewed


# -- whether an index helps ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "helped"),
    [
        ("", True),
        ("limit(5)", True),
        ("n=1", True),
        ("n=gt=1&label=ct=x", True),
        ("label=ct=x", False),
        ("label=x", False),
        ("mark=5", True),
        ("mark=ct=5", False),
        ("mark!=5", False),
        ("(mark=5|n=7)", True),
        ("(mark=5|label=x)", False),
        ("mark=in=5,6", True),
        ("nested.mark=5", False),
        ("sort(mark)", True),
        ("sort(label)", False),
        ("mark=5&sort(label)", True),
        ("nosuch=1", False),
    ],
)
async def test_p1_whether_an_index_may_help_is_seen_from_the_query(query, helped):
    schema = """
type Number @table @export { n: Int @primaryKey label: String mark: String @indexed nested: Any }
"""
    async with asgi(schema) as opened:
        table = opened.kernel.registry.route("Number/").table
        assert helped is is_helped(table, parse_query(query, table))
