"""Names that somebody points at this machine: no page reads what trusts it (L14)."""

import asyncio

import pytest

from asgi import asgi
from http_server import HttpServer
from memory_users import ann_and_bob
from rowcast.auth.authenticator import Authenticator
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.hosts import Hosts
from rowcast.doors.http.uvicorn_samples import UPGRADE

BASIC = "Basic YW5uOnBlbmNpbA=="
"""ann:pencil"""


@pytest.fixture
async def rest():
    """Return a server without users, that trusts whoever reaches it."""
    async with asgi(allowed_hosts=("rows.example", ".local")) as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}')
        yield rest


class Raw(HttpServer):
    """A server that is sent bytes."""

    async def sent(self, request):
        """Return the answer, up to the end of the connection or of its body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer


@pytest.fixture
async def doors():
    async with Raw() as running:
        yield running


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1:9926",
        "[::1]:9926",
        "192.0.2.7",
        "localhost:9926",
        "a.localhost",
        "rowcast:9926",
        "rows.example",
        "ROWS.example.:80",
        "pi.local",
        "app.example.org",  # of an origin that may call
    ],
)
async def test_l14_a_name_that_nobody_else_can_own_is_served(rest, host):
    answer = await rest.get("/Dog/1", host=host)
    assert (200, "Rex") == (answer.status, answer.value["name"])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9926", "rows.example.evil.example", "127.0.0.1.evil.ex"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_l14_another_name_is_not(rest, host, method):
    answer = await rest.ask(method, "/Dog/1", b"{}", host=host)
    assert 421 == answer.status
    if method != "HEAD":
        name = host.partition(":")[0]
        assert f"--set http.allowed_hosts={name}" in answer.value["detail"]
        assert "denied" == answer.code
    assert 200 == (await rest.get("/Dog/1")).status


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"cookie": "rowcast=x; a=b"}, id="a cookie of its own"),
        pytest.param({"cookie": "a=b"}, id="another cookie"),
        pytest.param({"authorization": BASIC}, id="a name of nobody"),
        pytest.param({"accept": "text/event-stream"}, id="a stream"),
        pytest.param({"origin": "http://evil.example"}, id="its own origin"),
    ],
)
@pytest.mark.parametrize(
    "path", ["/Dog/1", "/Dog/?ticket=x", "/$SYS/users/", "/metrics", "/openapi.json"]
)
async def test_l14_nothing_that_a_page_can_show_helps_it(rest, header, path):
    """Without users whoever signs in is nobody, too."""
    assert (await rest.get(path, host="evil.example", **header)).status in {401, 421}


async def test_l14_pages_of_known_origins_and_what_tells_nothing_are_served(rest):
    origin = {"host": "evil.example", "origin": "https://app.example.org"}
    assert 200 == (await rest.get("/Dog/1", **origin)).status
    asks = {"access-control-request-method": "PUT"}
    assert 204 == (await rest.options("/Dog/1", **origin, **asks)).status
    for path in ("/health", "/ui/"):
        assert 200 == (await rest.get(path, host="evil.example")).status


async def test_l14_who_signs_in_may_ask_for_any_name():
    """The page has nothing to sign in with: a browser sends what it keeps to no other name."""
    known = Authenticator("loopback", ann_and_bob())
    async with asgi(authenticator=known) as rest:
        who = {"host": "rows.example", "authorization": BASIC}
        assert 201 == (await rest.put("/Dog/1", b'{"name":"Rex"}', **who)).status
        assert 421 == (await rest.get("/Dog/1", host="rows.example")).status
        body = b'{"user": "ann", "password": "pencil"}'
        own = {"host": "rows.example", "origin": "http://rows.example"}
        assert 200 == (await rest.post("/$SYS/login", body, **own)).status


def test_l14_names_are_remembered_within_a_bound():
    hosts = Hosts(())
    for number in range(1_000):
        with pytest.raises(Error) as refused:
            hosts.check({b"host": b"n%d.example" % number})
        assert Code.DENIED is refused.value.code
    assert len(hosts.known) <= 256
    Hosts(("*",)).check({b"host": b"n.example"})


HOSTS = [
    pytest.param(b"Host: a\r\nHost: a\r\n", id="the same twice"),
    pytest.param(b"Host: localhost\r\nHost: evil.example\r\n", id="two"),
    pytest.param(b"host: a\r\nAccept: */*\r\nHOST: b\r\n", id="apart"),
    pytest.param(b"Host: a, b\r\n", id="two in one"),
]


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize(
    "path", [b"/Dog/1", b"/health", b"/ui/", b"/Dog/?ticket=x", b"/openapi.json"]
)
async def test_rfc_9112_a_request_with_two_hosts_is_refused(doors, hosts, path):
    """RFC 9112, 3.2: whoever looked at the other one may have let it pass."""
    answer = await doors.sent(b"GET %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (path, hosts))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"more than one Host header" in answer


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"HEAD", b"OPTIONS"])
async def test_rfc_9112_nor_does_it_write(doors, hosts, method):
    head = b"%b /Dog/1 HTTP/1.1\r\n%bContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    assert (await doors.sent(head % (method, hosts))).startswith(b"HTTP/1.1 400 ")
    assert 0 == doors.kernel.committer.announced


@pytest.mark.parametrize(
    "more", [b"", b"Origin: http://localhost\r\n", b"Sec-WebSocket-Protocol: mqtt\r\n"]
)
async def test_rfc_9112_nor_does_it_open_a_websocket(doors, more):
    upgrade = UPGRADE.replace(b"Host: x\r\n", b"Host: a\r\nHost: a\r\n" + more)
    answer = await doors.sent(upgrade)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"more than one Host header" in answer


@pytest.mark.parametrize(
    "path", [b"/Dog/1", b"/health", b"/ui/", b"/Dog/?ticket=x", b"/openapi.json"]
)
@pytest.mark.parametrize(
    "more", [b"", b"Accept: text/event-stream\r\n", b"Origin: http://localhost\r\n"]
)
async def test_rfc_9112_a_request_of_1_1_without_a_host_is_refused(doors, path, more):
    """RFC 9112, 3.2: a proxy that lost it would have another server's content shown."""
    answer = await doors.sent(b"GET %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (path, more))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the request has no Host header" in answer


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"HEAD", b"OPTIONS"])
async def test_rfc_9112_nor_is_written_without_one(doors, method):
    head = b"%b /Dog/1 HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    assert (await doors.sent(head % method)).startswith(b"HTTP/1.1 400 ")
    assert 0 == doors.kernel.committer.announced


@pytest.mark.parametrize("more", [b"", b"Sec-WebSocket-Protocol: mqtt\r\n"])
async def test_rfc_9112_nor_is_a_websocket_opened_without_one(doors, more):
    answer = await doors.sent(UPGRADE.replace(b"Host: x\r\n", more))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the request has no Host header" in answer


@pytest.mark.parametrize("head", [b"PUT /Dog/1 HTTP/1.0\r\n", b"PUT /Dog/1 HTTP/1.1\r\nHost:\r\n"])
async def test_rfc_9112_http_1_0_needs_none_and_it_may_be_empty(doors, head):
    answer = await doors.sent(head + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 201 ")
