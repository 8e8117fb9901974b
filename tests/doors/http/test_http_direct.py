"""Whole answers written at once: the same bytes as plain ASGI, and only where that is safe."""

import asyncio
import contextlib

import pytest
import uvicorn

from asgi import asgi
from rowcast.doors.http.rest import representations, writes
from rowcast.doors.http.uvicorn_fastpath import write_whole

LARGE = b'{"name":"' + b"x" * 50_000 + b'"}'


@pytest.fixture
async def rest(tmp_path):
    async with asgi(folder=tmp_path) as opened:
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
        async with asyncio.timeout(10):
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
