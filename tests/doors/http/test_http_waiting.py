"""What a node answers that cannot begin (K12)."""

import asyncio
import json
from contextlib import suppress

import pytest

from free_ports import free_port
from rowcast.core.errors import Code, Error
from rowcast.doors.http.waiting import CONNECTIONS_MAX, HEAD_BYTES_MAX, waiting_door
from rowcast.program.config import load_config
from rowcast.program.doors import waiting_doors
from securing import Authority, ServerFiles
from serving import PATIENCE_SECONDS

FULL = Error(Code.BUSY, "the disk of the database is full; free some space and try again")


async def ask(port, request, **how):
    """Return status, headers and body of what is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **how)
    writer.write(request)
    text = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    writer.close()
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ") for line in lines), body


def request(method, path):
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n".encode()


async def test_each_request_is_told_why_and_when_to_come_back():
    port = free_port()
    async with waiting_door("127.0.0.1", port, lambda: FULL):
        status, headers, body = await ask(port, request("PUT", "/Dog/1?a") + b"{}")
    told = json.loads(body)
    assert (503, "1", str(len(body))) == (status, headers["Retry-After"], headers["Content-Length"])
    assert ("busy", FULL.message, "/Dog/1") == (told["code"], told["detail"], told["instance"])
    assert "application/problem+json" == headers["Content-Type"]


async def test_it_is_live_and_not_ready():
    port = free_port()
    async with waiting_door("127.0.0.1", port, lambda: FULL):
        live, _, _ = await ask(port, request("GET", "/health"))
        ready, _, body = await ask(port, request("GET", "/health/ready"))
        no_body = await ask(port, request("HEAD", "/health/ready"))
    assert (200, 503) == (live, ready)
    assert {"ready": False, "checks": {"start": FULL.message}} == json.loads(body)
    assert (503, b"") == (no_body[0], no_body[2])


def test_it_answers_on_the_loop_that_servers_have():
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_it_is_live_and_not_ready())


async def test_a_request_without_end_is_answered_and_one_without_beginning_is_cut():
    port = free_port()
    async with waiting_door("127.0.0.1", port, lambda: FULL):
        assert 503 == (await ask(port, b"x" * (HEAD_BYTES_MAX + 1)))[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET ")
    with suppress(ConnectionError):
        assert b"" == await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def test_a_connection_that_never_asks_or_never_leaves_is_cut():
    """L11: one holds a file of a process that may have few."""
    port, connections = free_port(), []
    async with waiting_door("127.0.0.1", port, lambda: FULL, seconds=0.2):
        for data in (b"", b"GET ", request("GET", "/health")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            connections.append((reader, writer))
        for reader, writer in connections:
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
            with pytest.raises(ConnectionError):  # it takes nothing more, either
                while True:
                    writer.write(b"x")
                    await asyncio.wait_for(writer.drain(), PATIENCE_SECONDS)
                    await asyncio.sleep(0)
            writer.close()


async def test_more_connections_than_there_is_room_for_are_cut():
    """L11: those that are open are answered, and others again when some have left."""
    port, writers = free_port(), []
    async with waiting_door("127.0.0.1", port, lambda: FULL):
        for _ in range(CONNECTIONS_MAX):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            assert b"" == await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
        writer.close()
        for one in writers:
            one.close()
        while True:  # the server has yet to see that they have left
            try:
                assert 200 == (await ask(port, request("GET", "/health")))[0]
            except (ConnectionError, IndexError):
                continue
            break


async def test_a_port_that_is_taken_is_left_to_its_owner():
    port, reached = free_port(), asyncio.Event()

    def owner(_, writer):
        reached.set()
        writer.close()

    async with (
        await asyncio.start_server(owner, "127.0.0.1", port),
        waiting_door("127.0.0.1", port, lambda: FULL),
        waiting_door("127.0.0.1", None, lambda: FULL),
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait_for(reached.wait(), PATIENCE_SECONDS)
        writer.close()


@pytest.fixture
def secure(tmp_path):
    """Return the settings of a node that has HTTPS only, and its authority."""
    authority = Authority(tmp_path)
    files = ServerFiles(tmp_path, authority.issue("localhost"))
    settings = {
        "http.port": "off",
        "http.securePort": free_port(),
        "tls.certificate": str(files.certificate),
        "tls.privateKey": str(files.key),
    }
    return load_config(None, {}, settings), authority


async def test_where_there_is_only_https_that_answers(secure):
    config, authority = secure
    how = {"ssl": authority.client(), "server_hostname": "localhost"}
    async with waiting_doors(config, lambda: FULL):
        port = config.http.secure_port
        status, _, body = await ask(port, request("PUT", "/Dog/1") + b"{}", **how)
        live, _, _ = await ask(port, request("GET", "/health"), **how)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, **how)
    with suppress(ConnectionError):
        assert b"" == await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    writer.close()
    assert (503, 200, FULL.message) == (status, live, json.loads(body)["detail"])


async def test_a_certificate_that_cannot_be_read_is_told(secure, caplog):
    """The port stays closed as it would be without this door, and the log says why."""
    config, _ = secure
    config.tls.certificate.write_text("")
    async with waiting_doors(config, lambda: FULL):
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", config.http.secure_port)
    assert "the port of HTTPS stays closed meanwhile: tls.certificate: " in caplog.text
