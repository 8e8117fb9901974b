"""Request heads are bounded: a byte a second, or headers without end, is cut off with a reason."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from rowcast.core.limits import HTTP_HEAD_BYTES_MAX
from rowcast.doors.http.uvicorn_fastpath import RequestHeadLimits


async def hello(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


HURRIED = {"head_seconds_max": 0.05}


@asynccontextmanager
async def connected(limits=None, **settings):
    config = uvicorn.Config(
        hello, http=RequestHeadLimits, log_config=None, lifespan="off", **settings
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: RequestHeadLimits(config, state, {}, **(limits or {})), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()
        await server.wait_closed()


async def test_a_head_that_never_ends_is_answered_408_and_closed():
    async with connected(HURRIED) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


@pytest.mark.parametrize("more", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
async def test_a_head_that_drips_is_answered_408_and_closed(more):
    """The whole head has a time limit: each further byte gives no more of it."""
    async with connected(HURRIED) as (reader, writer):
        writer.write(b"GET /Dog/1 HTTP/1.1\r\nHost: a\r\n" + more + b"X-Slow: ")
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b"x")
            await asyncio.wait([answer], timeout=0.005)
        assert b"HTTP/1.1 408 Request Timeout\r\n" == answer.result()
        with suppress(ConnectionResetError):  # a byte that came after the close is answered so
            await reader.read()


async def test_a_connection_that_says_nothing_is_closed():
    async with connected(HURRIED) as (reader, _writer):
        assert b"" == await reader.read()


async def test_a_head_over_the_limit_is_answered_431_and_closed():
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: ")
        writer.write(b"x" * (HTTP_HEAD_BYTES_MAX + 1))
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_an_idle_connection_between_requests_is_left_to_keep_alive():
    async with connected(HURRIED) as (reader, writer):
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            answer = await reader.readuntil(b"0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            await asyncio.wait_for(asyncio.shield(_passes(0.1)), 5)


async def test_a_connection_that_nobody_uses_any_more_is_closed():
    async with connected(timeout_keep_alive=0.05) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert b"" == await asyncio.wait_for(reader.read(), 5)


@pytest.mark.parametrize(
    ("length", "more"), [(0, b"\r\n"), (9, b"x")], ids=["an empty line", "more of a body"]
)
async def test_what_is_no_request_keeps_no_connection_open(length, more):
    """Once answered, a connection rests until the next request begins."""
    head = f"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode()
    async with connected(timeout_keep_alive=0.05) as (reader, writer):
        writer.write(head)
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(more)
        assert b"" == await asyncio.wait_for(reader.read(), 5)


async def test_a_head_that_began_before_an_answer_may_be_finished():
    """Pipelining: what rests is a connection that has asked for nothing."""
    async with connected(timeout_keep_alive=0.05) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT")
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await _passes(0.15)
        writer.write(b"TP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def _passes(seconds):
    """Let the loop's time pass: longer than a head may take here."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, future.set_result, None)
    await future


@pytest.mark.parametrize("target", ["/Dog/Zo\u00eb", "/Dog/?name==Zo\u00eb", "/Dog/a b", "Dog/1"])
async def test_a_target_that_is_not_encoded_is_told_how_it_is_written(target):
    """It is the usual cause that a request cannot be read; curl sends what it is given."""
    async with connected() as (reader, writer):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"percent-encode" in answer
