"""How a WebSocket is refused, is slow and ends (C18, C22, C26)."""

import asyncio
import base64
import contextlib
import json
import os
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from http_server import HttpServer, OneByOne, ask, hear, say
from rowcast.core.callers import NONE
from rowcast.core.events import PUT
from rowcast.doors.http.streams import websocket
from serving import PATIENCE_SECONDS, PROMPT_SECONDS


@pytest.fixture
async def doors(request):
    async with HttpServer(settings=getattr(request, "param", None)) as running:
        yield running


async def end_of(connecting):
    """Return the code and the reason with which the server closes."""
    async with connecting as peer:
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await peer.recv()
    return caught.value.rcvd.code, caught.value.rcvd.reason


# -- refusals and ends ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "code", "hint"),
    [
        ("/Dog/1?since=x", 1007, "not a cursor"),
        ("/Dog/1?x=1", 1007, "no parameter"),
        ("/Dog/1?format=xml", 1003, "no format"),
        ("/Dog/%FF", 1007, "UTF-8"),
        ("/?topic=%24share/g/x", 1003, "shared"),
    ],
)
async def test_a_refusal_is_a_close_with_its_reason(doors, url, code, hint):
    got = await end_of(doors.ws(url))
    assert code == got[0]
    assert hint in got[1]
    assert 0 == doors.kernel.bus.subscriptions


async def test_an_unknown_path_is_a_close_that_a_browser_can_read():
    async with HttpServer(undeclared="reject") as doors:
        assert 4404 == (await end_of(doors.ws("/nope/1")))[0]


async def test_a_caller_without_rights_is_closed():
    async with HttpServer(grants=NONE) as doors:
        assert 4401 == (await end_of(doors.ws("/Dog/1")))[0]


async def test_a_reason_that_is_too_long_is_cut(doors):
    code, reason = await end_of(doors.ws("/Dog/1?since=" + "%C3%B6" * 80))
    assert 1007 == code
    assert len(reason.encode()) <= 123


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("own", True),
        ("http://localhost:3000", False),
        ("http://127.0.0.1:1", False),
        ("https://app.example", True),
        ("https://evil.example", False),
        ("null", False),
    ],
)
async def test_a_page_of_a_foreign_origin_is_refused_before_the_handshake(origin, allowed):
    async with HttpServer(settings={"cors_origins": ("https://app.example",)}) as doors:
        origin = f"http://127.0.0.1:{doors.port}" if origin == "own" else origin
        options = {"origin": origin} if origin else {}
        if allowed:
            async with doors.ws(**options) as peer:
                assert "ack" in await ask(peer, id=1, op="ping")
        else:
            with pytest.raises(InvalidStatus) as caught:
                await doors.ws(**options)
            assert 403 == caught.value.response.status_code


async def test_a_message_that_is_too_large_closes_with_1009(doors):
    async with doors.ws() as peer:
        await peer.send("x" * 200_000)
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1009 == caught.value.rcvd.code


@pytest.mark.parametrize("parts", [(b"\xff",), (b"{\xc3", b"(}"), (b"\xc3",) * 3])
async def test_a_text_that_is_not_utf8_closes_and_leaves_no_traceback(doors, caplog, parts):
    """RFC 6455, 8.1: it is a peer's mistake, of which anybody could fill the log."""
    async with doors.ws("/Dog/1") as peer:
        await hear(peer)
        await peer.send(parts if len(parts) > 1 else parts[0], text=True)
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
    assert 1007 == caught.value.rcvd.code
    assert [] == [record for record in caplog.records if record.exc_info]


async def test_a_stop_of_the_server_closes_with_1012(doors):
    async with doors.ws("/Dog/1") as peer:
        await hear(peer)
        async with asyncio.timeout(PROMPT_SECONDS):
            await doors.stop()
            with pytest.raises(ConnectionClosed) as caught:
                await peer.recv()
    assert 1012 == caught.value.rcvd.code


async def test_a_store_that_cannot_be_read_closes_the_connection(doors, monkeypatch):
    def fail(*_, **__):
        raise OSError("secret")

    monkeypatch.setattr(doors.store, "scan", fail)
    code, reason = await end_of(doors.ws("/Dog/"))
    assert 1013 == code
    assert "secret" not in reason


HANDSHAKE = (
    "GET {} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n"
)


def handshake(url):
    return HANDSHAKE.format(url, base64.b64encode(os.urandom(16)).decode()).encode()


@pytest.mark.parametrize("doors", [{"stream_send_seconds": 0.2}], indirect=True)
async def test_a_peer_that_stops_reading_is_cut_off_in_the_end(doors):
    """C18, C26."""
    doors.edge.watch.interval_seconds = 0.05
    before = doors.counts
    with socket.create_connection(("127.0.0.1", doors.port)) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(handshake("/Dog/1?start=new"))
        await doors.until(lambda: len(doors.edge.watch) == 1)
        big = b'"' + b"x" * 90_000 + b'"'
        for _ in range(200):
            await doors.write("Dog/1", PUT, big)
        await doors.until(lambda: len(doors.edge.watch) == 0)
    await doors.leave_nothing(before)


async def test_a_slow_peer_gets_all_that_is_logged(doors):
    """C18."""
    doors.reader.queue_events = 10
    async with doors.ws("/Dog/1?start=new") as peer:
        await hear(peer)
        value = {"x": "y" * 20_000}
        await asyncio.gather(*[doors.write("Dog/1", value=value) for _ in range(500)])
        cursors = [each["cursor"] for each in await hear(peer, 500)]
    assert [doors.cursor(n) for n in range(1, 501)] == cursors


@pytest.mark.heavy
async def test_a_peer_that_says_much_and_hears_nothing_is_waited_for(doors):
    """C26: answers that nobody reads are bounded; then no more commands are read."""
    with socket.create_connection(("127.0.0.1", doors.port)) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(handshake("/"))
        await doors.until(lambda: len(doors.edge.watch) == 1)
        (stream,) = doors.edge.watch._streams
        body = b'{"op": "' + b"x" * 100 + b'"}'
        frame = b"\x81" + bytes((0x80 | len(body),)) + b"\0\0\0\0" + body
        peer.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100_000):
                peer.sendall(frame * 100)
                await asyncio.sleep(0)
        await doors.until(lambda: stream.busy_since)
        assert len(stream._said) <= websocket.SOCKET_PENDING_COMMANDS_MAX


@pytest.mark.slow
async def test_a_thousand_connects_and_aborts_leave_nothing(doors):
    """C26."""
    await doors.write("Dog/1")
    before = doors.counts
    for number in range(1_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", doors.port)
        writer.write(handshake("/Dog/" if number % 2 else "/"))
        if number % 3:
            await reader.read(100)
        writer.transport.abort()
    await doors.leave_nothing(before)
    assert 0 == len(doors.server.server_state.connections)


async def test_a_client_that_leaves_while_its_streams_are_opened_leaves_nothing(doors):
    """C26."""
    before = doors.counts
    doors.edge.stream_turns = turns = OneByOne()
    _reader, writer = await asyncio.open_connection("127.0.0.1", doors.port)
    writer.write(handshake("/Dog/"))
    await doors.until(lambda: turns.waiting)
    writer.transport.abort()
    await doors.until(lambda: not doors.server.server_state.connections)
    turns.waiting[0].set_result(None)
    await doors.leave_nothing(before)


async def test_the_order_over_all_subscriptions_is_that_of_the_log(doors):
    """C22."""
    async with doors.ws() as peer:
        for topic in ("Dog/#", "Cat/#", "x"):
            await say(peer, op="subscribe", topic=topic, start="new")
        await hear(peer, 6)
        topics = ("Dog/1", "Cat/1", "x")
        await asyncio.gather(*[doors.write(topics[n % 3]) for n in range(90)])
        cursors = [each["cursor"] for each in await hear(peer, 90)]
    assert [doors.cursor(n) for n in range(1, 91)] == cursors


async def test_a_connection_that_compresses_is_served_frame_by_frame(doors):
    """The fast path is for frames that all may share."""
    doors.server.config.ws_per_message_deflate = True
    await doors.write("Dog/1", value={"n": 1})
    async with doors.compressing_ws("/Dog/1") as peer:
        assert {"n": 1} == (await hear(peer))[0]["value"]
        assert "permessage-deflate" in peer.response.headers["sec-websocket-extensions"]


async def test_a_socket_is_served_by_plain_asgi_too(doors):
    """Without uvicorn underneath, ``send`` is all there is."""
    sent, said = asyncio.Queue(), asyncio.Queue()
    scope = {
        "type": "websocket", "path": "/Dog/1", "raw_path": b"/Dog/1", "query_string": b"",
        "headers": [], "client": None, "subprotocols": [],
    }  # fmt: skip
    await doors.write("Dog/1")
    said.put_nowait({"type": "websocket.connect"})
    serving = asyncio.create_task(doors.edge(scope, said.get, sent.put))
    types = [(await sent.get())["type"]]
    kinds = [json.loads((await sent.get())["text"])["kind"] for _ in range(2)]
    said.put_nowait({"type": "websocket.receive", "bytes": None, "text": '{"op":"x"}'})
    assert "error" in json.loads((await sent.get())["text"])
    said.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await serving
    assert ["websocket.accept"] == types
    assert ["snapshot", "current"] == kinds
