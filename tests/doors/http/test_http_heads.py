"""Request heads are bounded: a byte a second, or headers without end, is cut off with a reason."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from rowcast.core.limits import HTTP_HEAD_BYTES_MAX
from rowcast.doors.http.uvicorn_fastpath import RequestHeadLimits
from serving import PROMPT_SECONDS


async def hello(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def names_of_fields(scope, receive, send):
    """Read the body, and answer the names of the header fields."""
    while (await receive()).get("more_body"):
        pass
    body = b" ".join(name for name, _ in scope["headers"])
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


HURRIED = {"head_seconds_max": 0.05}


@asynccontextmanager
async def connected(limits=None, application=hello, protocol=RequestHeadLimits, **settings):
    config = uvicorn.Config(
        application, http=RequestHeadLimits, log_config=None, lifespan="off", **settings
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: protocol(config, state, {}, **(limits or {})), "127.0.0.1", 0
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


@pytest.mark.parametrize("more", [True, False])
async def test_c26_who_does_not_read_the_answer_is_cut_off(more):
    """In its midst, or at its end, when the server would close and waits until all is read."""
    gone = asyncio.Event()

    class Told(RequestHeadLimits):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            gone.set()

    async def large(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            body = {"type": "http.response.body", "body": bytes(8_000_000), "more_body": more}
            await send(body)
            if not more:
                return
        await asyncio.get_running_loop().create_future()

    limits = {"head_seconds_max": 0.02, "stall_seconds_max": 0.05}
    async with connected(limits, large, timeout_keep_alive=0.02, protocol=Told) as (_, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(gone.wait(), PROMPT_SECONDS)


async def test_who_reads_slowly_gets_all_of_the_answer():
    """However long it takes: whatever is read gives more time."""

    async def large(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(1, 5):
            body = bytes(2_000_000)
            await send({"type": "http.response.body", "body": body, "more_body": number < 4})

    limits = {"head_seconds_max": 0.002, "stall_seconds_max": PROMPT_SECONDS}
    async with connected(limits, large) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = 0
        while piece := await reader.read(10_000):
            received += len(piece)
    assert received > 8_000_000


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
        assert b"" == await asyncio.wait_for(reader.read(), PROMPT_SECONDS)


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
        assert b"" == await asyncio.wait_for(reader.read(), PROMPT_SECONDS)


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


UNREADABLE = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01", b"begins with no method"),
    "MQTT": (b"\x10\x0e\x00\x04MQTT", b"begins with no method"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"begins with no method"),
    "half a line": (b"FOO / HT", b"begins with no method"),
    "a line end": (b"GET / HTTP/1.1\nHost: a\n\n", b"the request line cannot be read"),
    "a version": (b"GET / HTTP/7\r\nHost: a\r\n\r\n", b"the request line cannot be read"),
    "a space": (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", b"the request line cannot be read"),
    "a target": (b"GET Dog HTTP/1.1\r\nHost: a\r\n\r\n", b"the URL in the request line"),
    "an authority": (
        b"GET http://a.example:b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"the URL in the request",
    ),
    "a field": (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"a header field cannot be read"),
    "no field": (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", b"a header field cannot be read"),
    "a folded field": (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", b"a header field cannot be read"),
    "a field's value": (b"GET / HTTP/1.1\r\nA: \0\r\n\r\n", b"a header field cannot be read"),
}
BODIES = {
    "a length": (b"Content-Length: two", b"", b"Content-Length cannot be read"),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 2", b"", b"Content-Length cannot be"),
    "both": (b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"", b"send one of them"),
    "and both": (b"Transfer-Encoding: chunked\r\nContent-Length: 2", b"", b"send one of them"),
    "a coding": (b"Transfer-Encoding: gzip", b"", b"Transfer-Encoding cannot be read"),
    "a chunk's size": (b"Transfer-Encoding: chunked", b"0x2\r\n{}\r\n", b"a chunk of the body"),
    "a chunk's end": (b"Transfer-Encoding: chunked", b"2\r\n{}{}\r\n", b"a chunk of the body"),
    "a trailer": (b"Transfer-Encoding: chunked", b"0\r\na\r\n\r\n", b"a header field cannot"),
}
for _name, (_field, _body, _told) in BODIES.items():
    UNREADABLE[_name] = b"PUT / HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (_field, _body), _told


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_is_no_readable_http_is_told_what_it_misses(name):
    request, told = UNREADABLE[name]
    async with connected() as (reader, writer):
        writer.write(request)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert told in answer


LIMIT = {"head_bytes_max": 1_000}
UPGRADE_HEAD = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
LONG = {
    "a URL": (LIMIT, b"/" + b"x" * 1_000, b"", 414, b"1000 bytes together"),
    "a field": (LIMIT, b"/", b"A: %b\r\n" % (b"x" * 1_000), 431, b"1000 bytes together"),
    "many fields": (LIMIT, b"/", b"A: b\r\n" * 200, 431, b"1000 bytes together"),
    "a URL and fields": (LIMIT, b"/" + b"x" * 600, b"A: b\r\n" * 80, 414, b"1000 bytes together"),
    "a very long URL": (None, b"/" + b"x" * 100_000, b"", 414, b"65536 bytes together"),
    "a socket's URL": (None, b"/" + b"x" * 8_192, UPGRADE_HEAD, 414, b"8192 bytes"),
    "a socket's fields": (None, b"/", UPGRADE_HEAD + b"A: b\r\n" * 128, 431, b"may have 128"),
    "a socket's field": (
        None, b"/", UPGRADE_HEAD + b"A: %b\r\n" % (b"x" * 8_192), 431, b"each may have 8192"
    ),
}  # fmt: skip


@pytest.mark.parametrize("parts", [1, 2], ids=["at once", "in two parts"])
@pytest.mark.parametrize("name", LONG)
async def test_what_is_too_long_is_told_the_limit(name, parts):
    """RFC 9110, 15.5.15, and RFC 6585, 5: also if it is there before it can be counted."""
    limits, url, fields, status, told = LONG[name]
    request = b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (url, fields)
    async with connected(limits) as (reader, writer):
        writer.write(request[: -2 * (parts - 1) or None])
        await writer.drain()
        if parts > 1:
            await _passes(0.05)
            writer.write(request[-2:])
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert told in answer


async def test_a_head_up_to_the_limit_is_read():
    async with connected(LIMIT) as (reader, writer):
        writer.write(b"GET /%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (b"x" * 940))
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_body_counts_for_no_head():
    """Pipelining: the end of a large body and the start of the next request are read together."""
    body = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2_000
    async with connected(LIMIT) as (reader, writer):
        writer.write(body + b"GET / HT")
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("method", "told"),
    [("FOO", b"the method FOO is not known here"), ("get", b"in capitals: GET, not get")],
)
async def test_a_method_that_is_not_known_is_answered_501(method, told):
    """RFC 9110, 9.1: and not as bytes that are no HTTP."""
    async with connected() as (reader, writer):
        writer.write(f"{method} /Dog/1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 501 Not Implemented\r\n")
    assert told in answer


CHUNKED = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%b\r\n2\r\n{}\r\n0\r\n%b"


async def test_fields_after_the_body_are_none_of_the_head():
    """RFC 9110, 6.5.1: a proxy that removes a field from heads does not look for it there."""
    trailers = b"X-Forwarded-For: 127.0.0.1\r\nIf-Match: *\r\n\r\n"
    async with connected(application=names_of_fields) as (reader, writer):
        for part in (CHUNKED % (b"", trailers), CHUNKED % (b"Connection: close\r\n", trailers)):
            writer.write(part)
        answer = await reader.read()
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert b"host transfer-encoding\r\n".strip() in answer
    assert b"if-match" not in answer
    assert b"x-forwarded-for" not in answer


@pytest.mark.parametrize("trailer", [b"A: " + b"b" * 3_000, b"A: b\r\n" * 500])
async def test_fields_after_the_body_are_bounded(trailer):
    async with connected(LIMIT, application=names_of_fields) as (reader, writer):
        writer.write(CHUNKED % (b"", b""))
        await writer.drain()
        await _passes(0.05)
        writer.write(trailer)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"trailers may have 1000 bytes" in answer


async def test_a_body_without_end_is_not_read_for_ever_after_its_answer():
    async with connected({"drained_bytes_max": 1_000}) as (reader, writer):
        writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n")
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        with suppress(ConnectionResetError):
            writer.write(b"x" * 1_001)
            assert b"" == await asyncio.wait_for(reader.read(), 5)


async def pieces(_scope, receive, send):
    """Answer in pieces, whose length is not known before."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"one ", b"two ", b"three"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("application", [pieces, names_of_fields])
async def test_a_client_of_http_1_0_gets_no_chunks(application):
    """RFC 9112, 6.1: it ends with the connection."""
    async with connected(application=application) as (reader, writer):
        writer.write(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"HTTP/1.1 200 " == head[:13]
    assert b"transfer-encoding" not in head
    assert body == (b"one two three" if application is pieces else b"expect content-length")


async def told_body(scope, receive, send):
    """Answer the method, and the body as it was read."""
    body, more = scope["method"].encode() + b":", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


HTTP2 = (
    b"Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
)
OFFERING = {
    "a length": b"Content-Length: 5\r\n\r\nhello",
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "100": b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
}
NEXT = b"GET / HTTP/1.1\r\nConnection: close, Upgrade\r\nUpgrade: x\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("length", [1, 7, 1_000])
@pytest.mark.parametrize("name", OFFERING)
async def test_an_offer_of_another_protocol_takes_no_body_away(name, length):
    """RFC 9110, 7.8: Java's HttpClient and curl --http2 offer HTTP/2 with each request."""
    sent = (b"PUT / HTTP/1.1\r\n" + HTTP2 + OFFERING[name]) * 2 + NEXT
    async with connected(application=told_body) as (reader, writer):
        for start in range(0, len(sent), length):
            writer.write(sent[start : start + length])
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), PROMPT_SECONDS)
    assert answer.count(b"HTTP/1.1 200 ") == 3
    assert answer.count(b"\r\n\r\nPUT:hello") == 2
    assert answer.endswith(b"\r\n\r\nGET:")


@pytest.mark.heavy
async def test_many_offers_at_once_are_all_answered():
    async with connected(application=told_body) as (reader, writer):
        writer.write((b"PUT / HTTP/1.1\r\n" + HTTP2 + OFFERING["a length"]) * 2_000 + NEXT)
        answer = await asyncio.wait_for(reader.read(), PROMPT_SECONDS)
    assert answer.count(b"\r\n\r\nPUT:hello") == 2_000


@pytest.mark.parametrize(
    "body", [b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
async def test_a_websocket_is_not_opened_with_a_body(body):
    """The library for WebSockets says nothing of it, so the connection would wait without end."""
    async with connected() as (reader, writer):
        writer.write(b"PUT /Dog/1 HTTP/1.1\r\nHost: a\r\n" + UPGRADE_HEAD + body)
        answer = await asyncio.wait_for(reader.read(), PROMPT_SECONDS)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"a GET without a body" in answer
