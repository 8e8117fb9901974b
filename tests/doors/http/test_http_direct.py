"""Whole answers written at once: the same bytes as plain ASGI, and only where that is safe."""

import asyncio
import contextlib

import pytest
import uvicorn

from asgi import asgi
from build import ANN
from rowcast.core.events import PUT, Event
from rowcast.doors.http.rest import representations, writes
from rowcast.doors.http.uvicorn_fastpath import write_whole
from rowcast.features.rights.rule_syntax import rule_of
from serving import PATIENCE_SECONDS

LARGE = b'{"name":"' + b"x" * 50_000 + b'"}'


@pytest.fixture
async def rest():
    async with asgi() as opened:
        await opened.put("/Dog/1", b'{"name":"Rex"}')
        await opened.put("/Dog/large", LARGE)
        yield opened


@contextlib.asynccontextmanager
async def serving(edge, protocol="httptools", **options):
    """Serve an edge on a free port; yield a function that sends bytes and returns the answer."""
    server = uvicorn.Server(
        uvicorn.Config(edge, port=0, http=protocol, lifespan="off", log_config=None, **options)
    )
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]

    async def ask(request):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await reader.read()
        writer.close()
        return answer

    try:
        yield ask
    finally:
        server.should_exit = True
        await task


PLAIN = {"date_header": False, "server_header": False, "access_log": False}


@pytest.fixture
def written(monkeypatch):
    """What was written at once."""
    found = []

    def spy(send, answer):
        done = write_whole(send, answer)
        if done:
            found.append(answer)
        return done

    monkeypatch.setattr(representations, "write_whole", spy)
    monkeypatch.setattr(writes, "write_whole", spy)
    return found


def get(path, more=b""):
    return b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path, more)


CLOSE = get(b"/Dog/1", b"Connection: close\r\n")


async def test_it_is_what_plain_asgi_sends(rest, written):
    """Kept alive and written at once, or closed and sent in two messages: the same answer."""
    async with serving(rest.edge, **PLAIN) as ask:
        twice = await ask(get(b"/Dog/1") + CLOSE)
    (whole,) = written
    assert twice == whole + whole.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)


@pytest.mark.parametrize(
    "request_",
    [
        CLOSE,
        b"GET /Dog/1 HTTP/1.0\r\n\r\n",
        b"HEAD /Dog/1 HTTP/1.1\r\nHost: x\r\n\r\n" + CLOSE,
        get(b"/Dog/large") + CLOSE,
        get(b"/Dog/1", b"Origin: http://localhost:3000\r\n") + CLOSE,
    ],
)
async def test_what_is_special_is_plain_asgi(rest, written, request_):
    async with serving(rest.edge, **PLAIN) as ask:
        answer = await ask(request_)
    assert written == []
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_headers_of_the_server_are_kept(rest, written):
    async with serving(rest.edge) as ask:
        answer = await ask(get(b"/Dog/1") + CLOSE)
    assert (written, answer.count(b"date: "), answer.count(b"server: ")) == ([], 2, 2)


async def test_writes_are_answered_at_once_too(rest, written):
    put = b'PUT /Dog/2 HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"name":"Rex"}'
    waits = b"PUT /Dog/3 HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n"
    async with serving(rest.edge, **PLAIN) as ask:
        answer = await ask(put + put + waits + b'{"name":"Rex"}' + CLOSE)
    assert answer.count(b"HTTP/1.1 201 Created") == 2
    assert answer.count(b"HTTP/1.1 204 No Content") == 1
    assert answer.count(b"HTTP/1.1 100 Continue") == 1
    assert len(written) == 3


# -- from memory -----------------------------------------------------------------------------------


REX = b'{"id":"1","name":"Rex"}'
STREAMED = b"Accept: text/event-stream, */*\r\n"


@pytest.mark.parametrize(
    ("request_", "begins"),
    [
        (get(b"/Dog/1", b"If-None-Match: *\r\n"), b"HTTP/1.1 304"),
        (get(b"/Dog/1", b'If-Match: "x"\r\n'), b"HTTP/1.1 412"),
        (get(b"/Dog/1", b"Authorization: Bearer x\r\n"), b"HTTP/1.1 401"),
        (get(b"/Dog/1", b"Origin: https://evil.example\r\n"), b"HTTP/1.1 403"),
        (get(b"/Dog/1", b"Accept: application/cbor\r\n"), b"HTTP/1.1 200"),
        (get(b"/Dog/1").replace(b"Host: x", b"Host: evil.example"), b"HTTP/1.1 421"),
        (get(b"/Dog/1?meta"), b"HTTP/1.1 200"),
        (get(b"/Dog/%31"), b"HTTP/1.1 200"),
        (get(b"//Dog/1"), b"HTTP/1.1 200"),
        (get(b"/Dog/2"), b"HTTP/1.1 404"),
        (get(b"/health"), b"HTTP/1.1 200 OK\r\ncontent-length: "),
    ],
)
async def test_a_get_that_is_not_plain_is_looked_at(rest, request_, begins):
    """It is answered as ever, also when the plain one would be answered from memory."""
    await rest.kernel.write(Event("health", PUT, b"ill", None, 1, True), ANN)
    async with serving(rest.edge, **PLAIN) as ask:
        warm = get(b"/Dog/1") * 3
        answer = await ask(warm + request_.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    plain, _, others = answer.partition(REX)
    assert others.startswith((plain + REX) * 2 + begins)
    assert b"ill" not in others


async def test_memory_answers_with_the_newest_record(rest, written):
    plain = get(b"/Dog/1")
    put = b'PUT /Dog/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"name":"Ann"}'
    delete = b"DELETE /Dog/1 HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving(rest.edge, **PLAIN) as ask:
        answer = await ask(plain * 3 + put + plain * 3 + delete + CLOSE)
    counts = [answer.count(text) for text in (b'"Rex"', b'"Ann"', b"404 Not Found")]
    assert counts == [3, 3, 1]
    assert len(written) == 7


async def test_memory_answers_nobody_who_may_not_read_any_more(rest):
    plain = get(b"/Dog/1")
    async with serving(rest.edge, **PLAIN) as ask:
        before = await ask(plain * 2 + CLOSE)
        rest.kernel.rights.replace(
            [rule_of("1", {"filter": "Dog/#", "effect": "deny", "actions": ["read"]})]
        )
        after = await ask(plain * 2 + CLOSE)
    assert (before.count(b"200 OK"), after.count(b"200 OK")) == (3, 0)


@pytest.mark.slow
async def test_a_stream_is_a_stream_whatever_is_in_memory(rest):
    """HEAD tells of a stream, and GET gets one, though the same GET is answered from memory."""
    head = get(b"/Dog/1", STREAMED).replace(b"GET", b"HEAD", 1)
    async with serving(rest.edge, **PLAIN) as ask:
        task = asyncio.create_task(ask(get(b"/Dog/1") * 2 + head + get(b"/Dog/1", STREAMED)))
        while not any(rest.edge.subscriptions()):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        rest.edge.closing.set()
        answer = await task
    assert answer.count(b"content-type: text/event-stream") == 2


async def test_answers_from_memory_are_timed_like_others(rest):
    async with serving(rest.edge, **PLAIN) as ask:
        await ask(get(b"/Dog/1") * 4 + CLOSE)
    (family,) = (item for item in rest.kernel.histograms if "http" in item.name)
    found = family.series()[("GET", "/Dog/{id}", "200")]
    assert sum(found.counts) == 5


async def test_who_is_cut_off_by_the_end_of_the_server_is_told(rest, monkeypatch):
    """Its web server ends what takes longer than its patience: a write may have been done."""
    asked = asyncio.Event()

    async def hang(*_, **__):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(rest.kernel, "write", hang)

    async def cut_off():
        asked.clear()
        task = asyncio.ensure_future(rest.put("/Dog/9", b'{"name":"Rex"}'))
        await asked.wait()
        task.cancel()
        return await task

    with pytest.raises(asyncio.CancelledError):
        await cut_off()
    rest.edge.closing.set()
    answer = await cut_off()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "not known whether this was done" in answer.value["detail"]
