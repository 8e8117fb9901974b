"""Names that somebody points at this machine: no page reads what trusts it (L14)."""

import pytest

from asgi import asgi
from memory_users import ann_and_bob
from rowcast.auth.authenticator import Authenticator
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.hosts import Hosts

BASIC = "Basic YW5uOnBlbmNpbA=="
"""ann:pencil"""


@pytest.fixture
async def rest():
    """Return a server without users, that trusts whoever reaches it."""
    async with asgi(allowed_hosts=("rows.example", ".local")) as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}')
        yield rest


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
