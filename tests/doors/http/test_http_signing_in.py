"""Signing in over HTTP: Basic, at every door of this room (L2, L9; RFC 7617)."""

import json
from base64 import b64encode

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from asgi import asgi
from http_clients import http_client
from http_server import STREAM, HttpServer
from memory_users import MemoryUsers, ann_and_bob, cheap_passwords
from rowcast.auth.authenticator import Authenticator
from rowcast.auth.tries import LoginRateLimit
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.doors.http.login.signing_in import basic
from rowcast.routes.resource import Resource
from serving import PATIENCE_SECONDS


def authorization(name, password):
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


ANN, BOB = authorization("ann", "pencil"), authorization("bob", "eraser")


@pytest.fixture
async def rest():
    """Return a server that lets nobody in without a name."""
    settings = {
        "authenticator": Authenticator("nobody", ann_and_bob()),
        "anonymous": lambda peer, door: Caller("anonymous", NONE, door, peer=peer),
    }
    async with asgi(**settings) as rest:
        yield rest


async def test_a_user_reads_and_writes(rest):
    assert 201 == (await rest.put("/Dog/1", b'{"name":"Rex"}', authorization=ANN)).status
    for _ in range(2):  # the second from memory
        assert "Rex" == (await rest.get("/Dog/1", authorization=BOB)).value["name"]
    assert "ann" == (await rest.get("/Dog/1?meta=true", authorization=BOB)).value["_client"]


async def test_a_user_may_do_no_more_than_it_may(rest):
    answer = await rest.put("/Dog/1", b'{"name":"Rex"}', authorization=BOB)
    assert (403, "denied") == (answer.status, answer.code)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"authorization": authorization("ann", "x")}, id="wrong password"),
        pytest.param({"authorization": authorization("eve", "pencil")}, id="unknown"),
        pytest.param({"authorization": "Bearer abc"}, id="another scheme"),
        pytest.param({"authorization": "Basic !"}, id="no base64"),
        pytest.param({"authorization": f"{ANN}, {ANN}"}, id="twice"),
    ],
)
@pytest.mark.parametrize("path", ["/Dog/1", "/Dog/", "/Dog/?count"])
async def test_anybody_else_is_asked_to_sign_in(rest, header, path):
    answer = await rest.get(path, **header)
    assert (401, "unauthenticated") == (answer.status, answer.code)
    assert 'Basic realm="Rowcast", charset="UTF-8"' == answer.headers["www-authenticate"]


async def test_fixed_pages_need_no_name(rest):
    assert 200 == (await rest.get("/health", authorization="Basic !")).status


async def test_a_refusal_is_told_to_listeners(rest):
    """L9, X2."""
    told = []
    rest.kernel.hooks.on("auth-failed", lambda *facts: told.append(facts))
    await rest.get("/Dog/1", authorization=authorization("eve", "x"))
    assert 1 == len(told)
    assert "eve" in repr(told)


async def test_without_users_a_name_means_nothing():
    settings = {"authenticator": Authenticator("loopback", MemoryUsers())}
    async with asgi(**settings) as rest:
        answer = await rest.put("/Dog/1", b'{"name":"Rex"}', authorization=ANN)
        assert 201 == answer.status


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        (b"Basic YW5uOnBlbmNpbA==", ("ann", b"pencil")),
        (b"basic  YW5uOnBlbmNpbA==", ("ann", b"pencil")),
        (b"Basic YTpiOmM=", ("a", b"b:c")),
        (b"Basic Og==", ("", b"")),
        (b"Basic YTr/", ("a", b"\xff")),
    ],
)
def test_a_header_is_taken_apart(header, parts):
    assert parts == basic(header)


@pytest.mark.parametrize(
    "header", [b"", b"Basic", b"Basic ", b"Basic YQ==", b"Basic /zph", b"Basic \xff", b"Digest x"]
)
def test_a_header_of_anything_else_is_refused(header):
    with pytest.raises(Error) as caught:
        basic(header)
    assert Code.UNAUTHENTICATED is caught.value.code


NAMED = {"origin": "https://rows.example", "host": "rows.example"}
"""A page of this server, opened by a name that anybody may point anywhere."""


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ({"authorization": ANN}, 201),
        ({"authorization": authorization("ann", "x")}, 401),
        ({"cookie": "rowcast=x"}, 401),
        ({"cookie": "other=1"}, 403),
        ({}, 403),
    ],
)
async def test_l14_a_page_at_a_name_writes_when_it_signs_in(rest, shown, status):
    answer = await rest.put("/Dog/1", b'{"name":"Rex"}', **shown, **NAMED)
    assert status == answer.status
    answer = await rest.put("/Dog/1", b"{}", **shown, **NAMED | {"host": "other.example"})
    assert 403 == answer.status


@pytest.mark.parametrize("shown", [{"authorization": ANN}, {"cookie": "rowcast=x"}, {}])
async def test_l14_where_nobody_has_a_name_no_such_page_writes(shown):
    settings = {"authenticator": Authenticator("loopback", MemoryUsers())}
    async with asgi(**settings) as rest:
        assert 403 == (await rest.put("/Dog/1", b'{"name":"Rex"}', **shown, **NAMED)).status


@pytest.mark.parametrize("query", ["name=ticket=1", "xticket=1", "ticket=1"])
async def test_l14_the_letters_of_a_ticket_sign_nobody_in(query):
    settings = {"authenticator": Authenticator("everywhere", ann_and_bob())}
    async with (
        HttpServer(settings=settings) as doors,
        http_client(timeout=PATIENCE_SECONDS) as client,
    ):
        url = f"http://127.0.0.1:{doors.port}/Dog/1?{query}"
        answer = await client.put(url, content=b"{}", headers=NAMED)
        assert 403 == answer.status_code
        page = f"rows.example:{doors.port}"
        with pytest.raises(InvalidStatus) as caught:
            await connect(
                f"ws://{page}/Dog/1?{query}",
                origin=f"http://{page}",
                host="127.0.0.1",
                port=doors.port,
            )
        assert caught.value.response.status_code in {401, 403}


def slow_after(failures):
    """Return settings of a server that slows guesses down after so many."""
    tries = LoginRateLimit(failures, 300.0, lambda: 0.0)
    users = ann_and_bob()
    authenticator = Authenticator("loopback", users, tries=tries)
    authenticator._passwords = cheap_passwords(users)
    return {"authenticator": authenticator, "anonymous": authenticator.anonymous}


async def test_l11_a_name_in_another_spelling_has_no_tries_of_its_own():
    async with asgi(**slow_after(1)) as rest:
        soft_hyphen = authorization("an\u00adn", "wrong")
        assert 401 == (await rest.get("/Dog/1", authorization=soft_hyphen)).status
        for shown in (soft_hyphen, authorization("\uff41nn", "x"), ANN):
            answer = await rest.get("/Dog/1", authorization=shown)
            assert (429, "300") == (answer.status, answer.headers["retry-after"])


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param({"authorization": "Bearer abc"}, id="tokens"),
        pytest.param({"cookie": "rowcast=abc"}, id="cookies"),
        pytest.param({"authorization": "Basic !"}, id="no credentials"),
        pytest.param({"accept": "text/event-stream"}, id="tickets"),
        pytest.param(
            {"authorization": authorization("ann", "x"), "sec-fetch-site": "cross-site"},
            id="a page of another site",
        ),
        pytest.param(
            {"authorization": authorization("ann", "x"), "sec-fetch-site": "same-site"},
            id="a page of another port",
        ),
        pytest.param(
            {"authorization": authorization("ann", "x"), "origin": "http://localhost:3000"},
            id="a page that says its origin",
        ),
    ],
)
async def test_p3_what_guesses_no_password_and_what_pages_send_locks_nobody_out(noise):
    async with asgi(**slow_after(1)) as rest:
        for _ in range(30):
            answer = await rest.get("/Dog/1?ticket=x", **noise)
            assert answer.status in {401, 403, 404, 429}
        assert 404 == (await rest.get("/Dog/1", authorization=ANN)).status


@pytest.mark.slow
async def test_p3_wrong_names_lock_nobody_out():
    async with asgi(**slow_after(1)) as rest:
        for number in range(30):
            wrong = authorization(f"nobody{number}", "x")
            assert 401 == (await rest.get("/Dog/1", authorization=wrong)).status
        assert 404 == (await rest.get("/Dog/1", authorization=ANN)).status


async def test_l11_guesses_of_a_foreign_page_are_slowed_down_too():
    async with asgi(**slow_after(1)) as rest:
        page = {"sec-fetch-site": "cross-site", "authorization": authorization("ann", "x")}
        answers = [(await rest.get("/Dog/1", **page)).status for _ in range(3)]
        assert [401, 429, 429] == answers


@pytest.mark.parametrize("path", ["/Dog/1", "/$SYS/login"])
async def test_p3_a_page_whose_name_points_here_locks_its_browsers_user_not_out(path):
    """DNS rebinding: to the browser it is a page of this server, at another name."""
    async with asgi(**slow_after(1)) as rest:
        assert 404 == (await rest.get("/Dog/1", host="rows.test", authorization=ANN)).status
        page = {"host": "evil.test", "origin": "http://evil.test"}
        wrong = authorization("ann", "x")
        answers = [
            (await rest.post(path, b"{}", **page, authorization=wrong)).status for _ in range(30)
        ]
        assert 429 == answers[-1]
        assert 404 == (await rest.get("/Dog/1", host="rows.test", authorization=ANN)).status


async def test_l11_names_that_cost_no_work_make_no_room_for_more_guesses():
    """A name that can be nobody's is refused at once: such names are tried by the thousand."""
    tries = LoginRateLimit(1, 300.0, lambda: 0.0, entries_max=8)
    authenticator = Authenticator("loopback", ann_and_bob(), tries=tries)
    settings = {"authenticator": authenticator, "anonymous": authenticator.anonymous}
    async with asgi(**settings) as rest:
        wrong = authorization("ann", "x")
        assert 401 == (await rest.get("/Dog/1", authorization=wrong)).status
        for number in range(30):
            await rest.get("/Dog/1", authorization=authorization(f"${number}", "x"))
        assert 429 == (await rest.get("/Dog/1", authorization=wrong)).status


async def test_l11_the_login_counts_as_any_other_try():
    async with asgi(**slow_after(1)) as rest:
        wrong, right = (b'{"user":"ann","password":"%b"}' % word for word in (b"x", b"pencil"))
        page = {"origin": "http://localhost:3000"}  # refused before a password is compared
        assert 403 == (await rest.post("/$SYS/login", wrong, **page)).status
        assert 401 == (await rest.post("/$SYS/login", wrong)).status
        assert 429 == (await rest.post("/$SYS/login", right)).status


async def test_streams_and_sockets_take_a_name_too():
    settings = {"authenticator": Authenticator("nobody", ann_and_bob())}
    async with (
        HttpServer(settings=settings, grants=NONE) as doors,
        http_client(timeout=PATIENCE_SECONDS) as client,
    ):
        url = f"http://127.0.0.1:{doors.port}/Dog/1"
        async with client.stream("GET", url, headers={**STREAM, "authorization": BOB}) as answer:
            assert 200 == answer.status_code
        denied = await client.get(url, headers={**STREAM, "authorization": "Basic !"})
        assert 401 == denied.status_code
        socket = url.replace("http", "ws")
        async with connect(socket, additional_headers={"authorization": BOB}) as stream:
            assert "current" in await stream.recv()
        with pytest.raises(InvalidStatus) as caught:
            await connect(socket, additional_headers={"authorization": "Basic !"})
        assert 401 == caught.value.response.status_code
        assert denied.json()["detail"] == json.loads(caught.value.response.body)["detail"]


@pytest.mark.parametrize("protocols", [None, ["mqtt"]])
async def test_a_socket_at_the_path_of_mqtt_is_told_what_is_there(protocols):
    """It is refused as a request is: with a sentence, whether MQTT is offered there or not."""
    async with HttpServer(grants=NONE) as doors:
        with pytest.raises(InvalidStatus) as caught:
            await connect(f"ws://127.0.0.1:{doors.port}/mqtt", subprotocols=protocols)
    told = json.loads(caught.value.response.body)
    assert (400, "invalid", 400) == (
        caught.value.response.status_code,
        told["code"],
        told["status"],
    )
    assert ("subprotocol mqtt" if protocols is None else "mqtt.webSocket") in told["detail"]


@pytest.mark.parametrize("header", [{}, {"authorization": BOB}, {"authorization": ANN}])
async def test_who_asks_whether_it_may_read_is_told_what_a_read_would_be(rest, header):
    """O8: a page knows what to offer before anything is refused."""
    asked = ("Dog/1", "$SYS/sessions", "$SYS/users", "home/lamp")
    words = "&".join(f"read={topic}" for topic in (*asked, "%23"))
    told = (await rest.get(f"/$SYS/me?{words}", **header)).value["reads"]
    for topic in asked:
        answer = await rest.get(f"/{topic}?last=1" if topic[0] != "$" else f"/{topic}/", **header)
        assert told[topic] == (answer.status not in {401, 403}), topic
    assert told["#"] == bool(header)


@pytest.mark.parametrize(
    ("header", "may"),
    [({}, False), ({"authorization": BOB}, False), ({"authorization": ANN}, True)],
)
async def test_who_asks_whether_it_may_administer_is_told(rest, header, may):
    """O8, V5: a page offers no button that would be refused."""
    told = (await rest.get("/$SYS/me?administer=$SYS/alarms/%23", **header)).value
    assert {"$SYS/alarms/#": may} == told["administers"]
    assert "reads" not in told


async def test_p5_a_question_with_a_leading_slash_is_about_what_that_names(rest):
    rest.kernel.registry.add("$SYS/users", Resource)
    words = "read=/$SYS/users&read=/Dog/1"
    told = (await rest.get(f"/$SYS/me?{words}", authorization=BOB)).value["reads"]
    assert {"/$SYS/users": False, "/Dog/1": True} == told


@pytest.mark.parametrize(
    "words",
    [
        "read=a%23b",
        "administer=a%23b",
        *("&".join([f"{one}=a"] * 33) for one in ("read", "administer")),
    ],
)
async def test_questions_that_cannot_be_answered_are_malformed(rest, words):
    assert 400 == (await rest.get(f"/$SYS/me?{words}", authorization=ANN)).status
    assert "reads" not in (await rest.get("/$SYS/me", authorization=ANN)).value


async def test_a_question_is_no_refusal(rest):
    """L9: administrators are told of what was refused, and nobody was."""
    told = []
    rest.edge.kernel.listeners.refusals.append(lambda *facts: told.append(facts))
    assert {"Dog/1": False} == (await rest.get("/$SYS/me?read=Dog/1")).value["reads"]
    assert [] == told
    await rest.get("/Dog/1")
    assert 1 == len(told)
