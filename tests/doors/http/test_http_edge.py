"""The edge: where requests go, who asks, which pages may call, and what a body may be."""

import asyncio
import contextlib
import re
from pathlib import Path

import pytest
import uvicorn

from asgi import asgi, call, deque
from http_clients import http_client
from memory_users import ann_and_bob
from rowcast.auth.authenticator import Authenticator, Credentials
from rowcast.core.callers import NONE, Caller
from rowcast.core.limits import HTTP_CALLERS_MAX
from rowcast.doors import http
from rowcast.doors.http.messages.cors import Origins
from rowcast.seams.seams import Page
from serving import PATIENCE_SECONDS

DOOR = Path(http.__file__).parent
LIMIT = 100_000  # of asgi
ADDRESS = "192.0.2.7"


@pytest.fixture
async def rest():
    async with asgi() as opened:
        yield opened


# -- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
@pytest.mark.parametrize("parts", [1, 7])
async def test_a_body_is_bounded(rest, size, parts):
    """B1: 413 exactly above the limit, however it comes."""
    body = b"x" * size
    step = -(-size // parts)
    chunks = [body[at : at + step] for at in range(0, size, step)]
    answer = await rest.ask("PUT", "/loose", chunks=chunks, content_type="text/plain")
    assert answer.status == (201 if size == LIMIT else 413)
    assert size == LIMIT or answer.headers["connection"] == "close"


async def test_a_body_that_says_it_is_too_large_is_not_read(rest):
    answer = await rest.ask("PUT", "/loose", chunks=[None], content_length=str(LIMIT + 1))
    assert answer.status == 413


async def test_a_body_that_never_ends_is_not_waited_for():
    """C26: a client that sends one byte a second is answered and closed."""
    async with asgi(body_seconds_max=0.01) as rest:
        answer = await rest.ask("PUT", "/loose", chunks=[b"x", None])
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert (await rest.get("/loose")).status == 404


async def test_a_body_that_breaks_off_is_not_written(rest):
    answer = await rest.ask("PUT", "/loose", chunks=[b"x", "gone"])
    assert answer.status == 400
    assert (await rest.get("/loose")).status == 404


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 415), ("br", 415), ("identity", 201)])
async def test_an_encoded_body_is_refused(rest, encoding, status):
    answer = await rest.put("/loose", b"x", content_encoding=encoding, content_type="text/plain")
    assert answer.status == status


# -- origins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("https://app.example.org", "rowcast.test", True),
        ("http://app.example.org", "rowcast.test", False),
        ("https://app.example.org.test", "rowcast.test", False),
        ("http://localhost:3000", "localhost:9926", False),
        ("http://localhost:9926", "127.0.0.1:9926", False),
        ("http://localhost:9926", "localhost:9926", True),
        ("http://127.0.0.1:8000", "127.0.0.1:9926", False),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://[::1]:8000", "x", False),
        ("http:" + "//app.localhost", "app.localhost", True),
        ("http:" + "//app.localhost", "x", False),
        (f"http://{ADDRESS}:9926", f"{ADDRESS}:9926", True),
        (f"http://{ADDRESS}:80", f"{ADDRESS}:9926", False),
        ("http://rebound.test", "rebound.test", False),
        ("http://localhost.test", "x", False),
        ("null", "x", False),
        ("file://localhost", "x", False),
        ("http://[", "x", False),
        ("", "x", False),
    ],
)
def test_which_origins_may_call(origin, host, allowed):
    assert Origins(["https://app.example.org"]).allows(origin, host) == allowed


@pytest.mark.parametrize(
    ("origin", "host", "trusted"),
    [
        ("https://app.example.org", "rowcast.test", True),
        ("https://rowcast.test:1", "rowcast.test:1", True),
        ("https://rowcast.test:2", "rowcast.test:1", False),
        ("file://rowcast.test", "rowcast.test", False),
        ("http://", "", False),
        ("http://[", "rowcast.test", False),
    ],
)
def test_which_pages_may_use_a_cookie(origin, host, trusted):
    """L14; no Origin, however odd, is more than a refusal."""
    assert trusted == Origins(["https://app.example.org"]).is_trusted(origin, host)


async def test_an_allowed_page_may_read_the_answer(rest):
    got = await rest.get("/Dog/", origin="https://app.example.org")
    assert got.headers["access-control-allow-origin"] == "https://app.example.org"
    assert got.headers["access-control-allow-credentials"] == "true"
    assert "etag" in got.headers["access-control-expose-headers"]
    assert got.headers["vary"] == "Accept, Origin"


async def test_an_allowed_page_sees_every_header_of_an_answer(rest):
    """Each header of ours that an answer of REST or a stream has, as the code names it."""
    known = re.compile(r'"(rowcast-[a-z]+)"')
    source = "".join(path.read_text() for path in DOOR.rglob("*.py") if path.name != "cors.py")
    asked = {"rowcast-low", "rowcast-origin", "rowcast-producer"}
    got = await rest.get("/Dog/", origin="https://app.example.org")
    shown = set(got.headers["access-control-expose-headers"].split(", "))
    assert {*known.findall(source)} - asked <= shown


@pytest.mark.parametrize("path", ["/Dog/", "/openapi.json", "/$SYS/me", "/$SYS/users/"])
async def test_a_foreign_page_may_not_read(rest, path):
    """As the manual says: whatever it asks, and not only by headers that are missing."""
    got = await rest.get(path, origin="https://evil.test")
    assert (got.status, "access-control-allow-origin" in got.headers) == (403, False)


@pytest.mark.parametrize("path", ["/health", "/ui/", "/ui/rowcast.js"])
async def test_what_tells_nothing_is_answered_to_every_page(rest, path):
    got = await rest.get(path, origin="https://evil.test")
    assert (got.status, "access-control-allow-origin" in got.headers) == (200, False)


HOST = "127.0.0.1:9926"
OWN = f"http://{HOST}"
NEIGHBOUR = "http://localhost:3000"
"""A page of another program on this machine."""


async def test_p3_without_users_a_page_of_this_machine_reads_without_credentials(rest):
    """README: a page of ten lines, from `python3 -m http.server`."""
    got = await rest.get("/Dog/", origin=NEIGHBOUR)
    assert (200, NEIGHBOUR) == (got.status, got.headers["access-control-allow-origin"])
    assert "access-control-allow-credentials" not in got.headers
    asked = {"access_control_request_method": "GET"}
    assert 204 == (await rest.options("/Dog/1", origin=NEIGHBOUR, **asked)).status


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
async def test_p3_a_page_of_this_machine_is_another_site_and_writes_nothing(rest, method):
    """Without users it could make itself an administrator."""
    for path in ("/Dog/1", "/$SYS/users/x", "/$SYS/login"):
        assert 403 == (await rest.ask(method, path, b"{}", origin=NEIGHBOUR)).status
    asked = {"access_control_request_method": method}
    assert 403 == (await rest.options("/Dog/1", origin=NEIGHBOUR, **asked)).status


@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/", "/$SYS/me"])
async def test_p3_with_users_no_other_page_of_this_machine_reads(path):
    """The browser sends it the cookie of this server's own page: a port is no site of its own."""
    known = Authenticator("loopback", ann_and_bob())
    ann = await known.identify(Credentials("ann", b"pencil"))
    cookie = "rowcast=" + (await known.token(ann, 60))[0]
    async with asgi(authenticator=known) as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}', origin=OWN, host=HOST, cookie=cookie)
        got = await rest.get(path, origin=NEIGHBOUR, host=HOST, cookie=cookie)
        assert (403, "access-control-allow-origin" in got.headers) == (got.status, False)
        assert 200 == (await rest.get(path, origin=OWN, host=HOST, cookie=cookie)).status
        assert 200 == (await rest.get(path, host=HOST, cookie=cookie)).status


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
async def test_a_foreign_page_may_not_write(rest, method):
    """A simple request needs no preflight, so it is refused here."""
    answer = await rest.ask(method, "/loose?retain=false", b"{}", origin="https://evil.test")
    assert answer.status == 403


async def test_a_preflight(rest):
    asked = {"access_control_request_method": "PUT", "access_control_request_headers": "if-match"}
    answer = await rest.options("/Dog/1", origin="https://app.example.org", **asked)
    assert answer.status == 204
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "if-match"
    del asked["access_control_request_headers"]
    usual = await rest.options("/Dog/1", origin="https://app.example.org", **asked)
    names = usual.headers["access-control-allow-headers"].split(", ")
    assert {"if-match", "if-none-match", "if-unmodified-since"} <= set(names)
    refused = await rest.options("/Dog/1", origin="https://evil.test", **asked)
    assert refused.status == 403


READ = "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/health", READ),
        ("/health/ready", READ),
        ("/docs", READ),
        ("/openapi.json", READ),
        ("/asyncapi.json", READ),
        ("/ui/", READ),
        ("/ui/rowcast.js", READ),
        ("/$SYS/me", READ),
        ("/$SYS/login", "POST, OPTIONS"),
        ("/$SYS/tickets/", "POST, OPTIONS"),
        ("/figures", READ),
    ],
)
async def test_a_preflight_of_what_is_no_topic(rest, path, allowed):
    """A page sends one before it asks with Authorization; refused, it could not ask at all."""
    rest.kernel.pages["/figures"] = Page("figures", "figures", "text/plain", bytes)
    asked = {"access_control_request_method": "GET"}
    asked["access_control_request_headers"] = "authorization"
    answer = await rest.options(path, origin="https://app.example.org", **asked)
    assert (204, allowed) == (answer.status, answer.headers["allow"])
    assert "authorization" == answer.headers["access-control-allow-headers"]
    assert (204, allowed) == ((got := await rest.options(path)).status, got.headers["allow"])


@pytest.mark.parametrize("origin", [b"https://evil.test", NEIGHBOUR.encode()])
@pytest.mark.parametrize("protocols", [[], ["mqtt"]])
async def test_a_foreign_page_opens_no_socket(rest, protocols, origin):
    sent = []
    scope = {
        "type": "websocket", "path": "/Dog/", "raw_path": b"/Dog/", "query_string": b"",
        "headers": [(b"origin", origin)], "subprotocols": protocols,
    }  # fmt: skip

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await rest.edge(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


# -- who and where ---------------------------------------------------------------------------------


async def test_callers_are_remembered_by_address(rest):
    scope = {"client": ("127.0.0.1", 0)}
    assert rest.edge.caller(scope, "http") is rest.edge.caller(dict(scope), "http")
    assert rest.edge.caller(scope, "ws") is not rest.edge.caller(scope, "ws")
    for number in range(HTTP_CALLERS_MAX + 10):
        rest.edge.caller({"client": (f"peer-{number}", 1)}, "http")
    assert len(rest.edge._callers) <= HTTP_CALLERS_MAX


async def test_rights_are_those_of_the_address():
    def anonymous(peer, door):
        return Caller("anonymous", NONE, door, peer=peer)

    async with asgi(anonymous=anonymous) as rest:
        answer = await rest.get("/Dog/")
        assert (answer.status, answer.code) == (401, "unauthenticated")


async def test_repeated_headers_are_one_list(rest):
    await rest.put("/Dog/1", b'{"name":"Rex"}')
    scope = {
        "type": "http", "method": "GET", "path": "/Dog/1", "raw_path": b"/Dog/1",
        "query_string": b"", "client": None,
        "headers": [(b"if-none-match", b'"x"'), (b"if-none-match", b'"0badcafe:1"')],
    }  # fmt: skip
    assert (await call(rest.edge, scope, deque([b""]))).status == 304


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/health"])
async def test_fixed_pages_are_not_topics(rest, path):
    assert (await rest.get(path)).status == (307 if path == "/docs" else 200)
    assert (await rest.put(path, b"{}")).status == 405


# -- a real server ---------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serving(edge):
    """Serve an edge on a free port of this machine."""
    config = uvicorn.Config(
        edge, port=0, http="httptools", lifespan="off", log_config=None, server_header=False
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with http_client(base_url=f"http://127.0.0.1:{port}") as client:
            yield client, port
    finally:
        server.should_exit = True
        await task


async def test_over_a_socket(rest):
    """Lengths, HEAD, 304, chunks and refusals as a real server and client see them."""
    async with serving(rest.edge) as (client, _):
        made = await client.put("/Dog/ü b", content=b'{"name":"Rex"}')
        got = await client.get(made.headers["location"])
        head = await client.head(made.headers["location"])
        assert (made.status_code, got.json()) == (201, {"id": "ü b", "name": "Rex"})
        assert head.headers["content-length"] == str(len(got.content))
        same = await client.get("/Dog/ü b", headers={"if-none-match": got.headers["etag"]})
        assert (same.status_code, same.headers["etag"]) == (304, got.headers["etag"])
        many = [{"n": number} for number in range(1_200)]
        assert (await client.put("/Number/", json=many)).status_code == 200
        listed = await client.get("/Number/")
        assert listed.headers["transfer-encoding"] == "chunked"
        assert [row["n"] for row in listed.json()] == list(range(1_200))
        assert (await client.put("/loose", content=b"x" * (LIMIT + 1))).status_code == 413
        assert (await client.get("/Dog/x")).status_code == 404


async def test_a_slow_client_is_closed():
    """C26, D8: answered, then cut, and nothing of it is left."""
    async with (
        asgi(body_seconds_max=0.05) as rest,
        serving(rest.edge) as (_, port),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PUT /loose HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        writer.close()


async def test_pipelined_requests_are_answered_in_order(rest):
    async with serving(rest.edge) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        put = b'PUT /Dog/%d HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"name":"Rex"}'
        get = b"GET /Dog/%d.name HTTP/1.1\r\nHost: x\r\n\r\n"
        writer.write(b"".join((put + get) % (number, number) for number in range(20)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = b""
            while found.count(b'"Rex"') < 20:
                found += await reader.read(65536)
        assert found.count(b"HTTP/1.1 201") == found.count(b"HTTP/1.1 200") == 20
        writer.close()
