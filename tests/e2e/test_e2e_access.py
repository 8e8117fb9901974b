"""Users, roles and tokens at run time, and the ending of what is live, by every door (L8, L10)."""

import json
import time
from base64 import b64encode
from contextlib import ExitStack
from itertools import count

import jwt
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rowcast.mqtt.packets import Disconnect, Will
from rowcast.mqtt.reasons import Reason
from serving import PATIENCE_SECONDS, Server, rowcast, wait_until
from talking import Closed, Events, Mqtt, open_websocket

ANN = ("ann", "pencil")
KEY = "0123456789abcdef0123456789abcdef"
NUMBERS = count(1)
JSON = {"content-type": "application/json"}


def add_first(folder):
    done = rowcast("user", "add", "ann", "--role", "admin", folder=folder, stdin="pencil\n")
    assert "added ann: read, write, role admin, password\n" == done.stdout, done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    add_first(folder)
    settings = {
        "security.jwt.key": KEY,
        "security.jwt.issuer": "elsewhere",
        "security.jwt.leeway_seconds": 0,
        "security.jwt.role_names": "{boss: admin, crew: crew}",
        "mqtt.ban.failed_logins": 3,
    }
    with Server(folder, settings=settings) as server:
        server.request("PUT", "/Dog/1", auth=ANN, json={"name": "Rex"})
        yield server


def change(server, method, path, value=None, auth=ANN):
    return server.request(method, f"/$SYS/{path}", auth=auth, json=value)


@pytest.fixture
def user(server):
    """Return a fresh user with a password of its own."""
    name = f"user{next(NUMBERS)}"
    assert 204 == change(server, "PUT", f"users/{name}", {"password": "secret"}).status_code
    return name


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def foreign(**claims):
    now = int(time.time())
    return jwt.encode({"iss": "elsewhere", "sub": "zoe", "exp": now + 600} | claims, KEY, "HS256")


def login(server, name, **more):
    asked = {"user": name, "password": "secret"} | more
    return server.request("POST", "/$SYS/login", json=asked)


class Live:
    """One user at every door: MQTT 5, SSE and a WebSocket."""

    def __init__(self, server, name, token):
        self.stack = ExitStack()
        enter = self.stack.enter_context
        who = {"username": name, "password": token.encode()}
        self.mqtt = enter(Mqtt(server.mqtt_port, client_id=f"c-{name}", **who))
        assert Reason.SUCCESS is self.mqtt.connack.reason
        self.mqtt.subscribe("Dog/#")
        self.events = enter(Events(server, "/Dog/", Authorization=f"Bearer {token}"))
        self.events.until_current()
        self.ws = enter(open_websocket(server, "/Dog/", additional_headers=bearer(token)))
        self.ws.recv(PATIENCE_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def ended(self):
        """Return reason and words of MQTT, the problem of SSE, code and words of the WebSocket."""
        while not isinstance(packet := self.mqtt.receive(), Disconnect):
            pass
        last = list(self.events)[-1].fields
        try:
            while True:
                self.ws.recv(PATIENCE_SECONDS)
        except ConnectionClosed as closed:
            code, words = closed.rcvd.code, closed.rcvd.reason
        reasons = [packet.properties["reason_string"], last["detail"], words]
        return packet.reason, last["status"], code, reasons


@pytest.mark.parametrize(
    ("method", "value", "expected", "words"),
    [
        ("PATCH", {"disabled": True}, (Reason.ADMINISTRATIVE_ACTION, 403, 4403), "disabled"),
        ("DELETE", None, (Reason.NOT_AUTHORIZED, 401, 4401), "removed"),
        ("PATCH", {"password": "x"}, (Reason.NOT_AUTHORIZED, 401, 4401), "password"),
        ("PATCH", {"read": False}, (Reason.NOT_AUTHORIZED, 403, 4403), "may not read"),
    ],
)
def test_l8_c28_what_is_live_ends_with_a_reason(server, user, method, value, expected, words):
    token = login(server, user).json()["token"]
    with Live(server, user, token) as live:
        assert 204 == change(server, method, f"users/{user}", value).status_code
        reason, status, code, reasons = live.ended()
    assert expected == (reason, status, code)
    assert all(words in text for text in reasons), reasons
    refused = server.request("GET", "/Dog/1", headers=bearer(token)).status_code
    assert refused == (403 if expected[1] == 403 else 401)


def test_l8_who_may_still_read_goes_on_with_its_new_rights(server, user):
    assert 204 == change(server, "PUT", "roles/keeper", {"administer": True}).status_code
    with Mqtt(server.mqtt_port, client_id="stays", username=user, password=b"secret") as client:
        client.subscribe("Dog/#")
        client.message()
        denied = client.publish("$SYS/sessions/nobody", b"")
        assert Reason.NOT_AUTHORIZED is denied.reason
        assert 204 == change(server, "PATCH", f"users/{user}", {"roles": ["keeper"]}).status_code
        allowed = client.publish("$SYS/sessions/nobody", b"")
        assert Reason.NOT_AUTHORIZED is not allowed.reason  # there is none, but it may
        server.request("PUT", "/Dog/1", auth=ANN, json={"name": "Max"})
        assert b"Max" in client.message().payload


def test_l8_nor_does_a_will_or_a_share_outlive_the_right(server, user):
    will = Will("wills/x", b"from the grave", 1, True, {})
    who = {"username": user, "password": b"secret"}
    with Mqtt(server.mqtt_port, client_id="dies", will=will, **who) as client:
        assert Reason.SUCCESS is client.connack.reason
        client.subscribe("$share/g/Dog/#")
        change(server, "PATCH", f"users/{user}", {"write": False})
        client.subscribe("Dog/2")  # it may still read, and go on
        change(server, "PATCH", f"users/{user}", {"read": False})
        while not isinstance(packet := client.receive(), Disconnect):
            pass
        assert Reason.NOT_AUTHORIZED is packet.reason
        with pytest.raises(Closed):
            client.receive()
    assert 404 == server.request("GET", "/wills/x", auth=ANN).status_code

    def last():
        return change(server, "GET", "events/dies?last=1").json()[-1]["value"]["event"]

    # The server logs it after it has closed the socket.
    wait_until(lambda: last() == "disconnected", "the lost connection is logged")


def test_l8_the_command_ends_them_too(server, user):
    token = login(server, user).json()["token"]
    with Live(server, user, token) as live:
        done = rowcast("user", "disable", user, folder=server.folder)
        assert f"disabled {user}\n" == done.stdout
        assert Reason.ADMINISTRATIVE_ACTION is live.ended()[0]


def test_l5_a_token_that_is_over_ends_every_door(server):
    token = foreign(exp=int(time.time()) + 2, sub="brief")
    with Live(server, "brief", token) as live:
        reason, status, code, reasons = live.ended()
    assert (Reason.NOT_AUTHORIZED, 401, 4401) == (reason, status, code)
    assert all("over" in text for text in reasons)


def test_l10_users_and_roles_are_rows_that_are_watched(server, user):
    watcher = Mqtt(server.mqtt_port, client_id="w", username="ann", password=b"pencil")
    with watcher:
        watcher.subscribe(f"$SYS/users/{user}")
        row = json.loads(watcher.message().payload)
        assert (user, [], False) == (row["name"], row["roles"], row["disabled"])
        change(server, "PATCH", f"users/{user}", {"roles": ["r"], "attributes": {"sites": ["n"]}})
        row = json.loads(watcher.message().payload)
        assert (["r"], {"sites": ["n"]}) == (row["roles"], row["attributes"])
        put = watcher.publish(f"$SYS/users/{user}", json.dumps(row | {"note": 1}).encode())
        assert Reason.NOT_AUTHORIZED < put.reason
        assert Reason.SUCCESS is watcher.publish(f"$SYS/users/{user}", b"").reason
        assert b"" == watcher.message().payload
    assert 404 == change(server, "GET", f"users/{user}").status_code
    kept = (server.folder / "data" / "users.json").read_text()
    assert "secret" not in kept.replace('"secret":', "")


def test_l10_only_administrators_see_and_change_them(server, user):
    mine = (user, "secret")
    assert 200 == change(server, "GET", f"users/{user}", auth=mine).status_code
    for method, path in [("GET", "users/"), ("GET", "users/ann"), ("GET", "roles/admin")]:
        assert 403 == change(server, method, path, auth=mine).status_code
    for path in [f"users/{user}", "users/new", "roles/new"]:
        assert 403 == change(server, "PUT", path, {}, auth=mine).status_code
    with Mqtt(server.mqtt_port, client_id="spy", username=user, password=b"secret") as spy:
        assert [Reason.NOT_AUTHORIZED] == list(spy.subscribe("$SYS/users/#").reasons)
    for path in ["users/", "users/x"]:  # nor a caller without a name, from this machine
        assert server.request("GET", f"/$SYS/{path}").status_code in {401, 403}
    assert server.request("PUT", "/$SYS/users/x", json={}).status_code in {401, 403}


def test_a_row_that_was_read_may_be_written_back(server, user):
    row = change(server, "GET", f"users/{user}").json()
    assert 204 == change(server, "PUT", f"users/{user}", row | {"roles": ["a"]}).status_code
    again = change(server, "GET", f"users/{user}", auth=(user, "secret")).json()
    assert (["a"], ["password", "scram"]) == (again["roles"], again["signs_in_with"])


def test_l9_a_failed_login_stands_in_the_users_row(server, user):
    assert 401 == server.request("GET", "/Dog/1", auth=(user, "wrong")).status_code
    row = change(server, "GET", f"users/{user}").json()
    assert 1 == row["failures"]
    assert "wrong" in row["failure"]
    assert row["last_failure"] is not None
    counted = change(server, "GET", "guard/failed_logins").json()["count"]
    with Mqtt(server.mqtt_port, username=user, password=b"wrong") as client:
        assert Reason.BAD_USER_NAME_OR_PASSWORD is client.connack.reason
        assert "wrong" in client.connack.properties["reason_string"]
    assert counted + 1 == change(server, "GET", "guard/failed_logins").json()["count"]


def test_l15_who_administered_what_is_in_the_log(server, user):
    change(server, "PATCH", f"users/{user}", {"password": "changed", "roles": ["r"]})
    change(server, "PATCH", f"users/{user}", {"nonsense": 1})
    with Mqtt(server.mqtt_port, client_id="dash", username="ann", password=b"pencil") as ann:
        ann.publish(f"$SYS/users/{user}", b"")

    def audited():  # what is told of an action may follow the answer to it
        told = server.request("GET", f"/$AUDIT/users/{user}?last=9", auth=ANN).json()
        return told if len(told) >= 4 else None

    told = wait_until(audited, "all four actions are told")
    seen = [item["value"] for item in told]
    keys = ("user", "door", "action", "members", "outcome")
    assert [
        ("ann", "http", "put", ["password"], "done"),
        ("ann", "http", "patch", ["password", "roles"], "done"),
        ("ann", "http", "patch", ["nonsense"], "invalid"),
        ("ann", "mqtt", "delete", None, "done"),
    ] == [tuple(item.get(key) for key in keys) for item in seen]
    assert "changed" not in json.dumps(told)
    with Mqtt(server.mqtt_port, client_id="w", username="ann", password=b"pencil") as watcher:
        watcher.subscribe("$AUDIT/#")
        change(server, "PUT", "roles/audited", {"note": "x"})
        assert "$AUDIT/roles/audited" == watcher.message().topic


@pytest.fixture
def calm(tmp_path):
    """Return a server that nobody else is refused by: the log has five refusals of a second."""
    add_first(tmp_path)
    with Server(tmp_path) as server:
        yield server


def test_l15_who_was_refused_is_in_the_log(calm):
    server, user = calm, "ben"
    assert 204 == change(server, "PUT", "users/ben", {"password": "secret"}).status_code
    assert 401 == server.request("GET", "/Dog/1", auth=(user, "wrong")).status_code
    with Mqtt(server.mqtt_port, client_id="spy2", username=user, password=b"secret") as spy:
        assert Reason.NOT_AUTHORIZED is spy.publish("$SYS/users/eve", b"{}").reason
    answer = server.request("PUT", "/$SYS/roles/mine", auth=(user, "secret"), json={})
    assert 403 == answer.status_code

    def told():
        found = server.request("GET", "/$AUDIT/refused/?last=50", auth=ANN).json()
        rows = [item["value"] for item in found if "topic" in item["value"]]
        signing_in = any("sign-in" in item["topic"] for item in found)
        keys = ("user", "door", "topic")
        mine = [tuple(row[key] for key in keys) for row in rows if user == row["user"]]
        return signing_in and mine == expected

    expected = [
        (user, "mqtt", "$SYS/users/eve"),
        (user, "http", "$SYS/roles/mine"),
    ]
    wait_until(told, "all three are told")
    answer = server.request("GET", "/$AUDIT/refused/?last=1", auth=(user, "secret"))
    assert 403 == answer.status_code
    done = server.request("GET", "/$AUDIT/?last=99", auth=ANN).text
    assert "$AUDIT/refused" not in done


def test_l15_results_push_nothing_out_of_it(server, user):
    part = {"table": "Dog", "rows": []}
    with Mqtt(server.mqtt_port, client_id="r", username="ann", password=b"pencil") as watcher:
        watcher.subscribe("$AUDIT/results/#")
        watcher.subscribe("$AUDIT/roles/after")
        answer = server.request("PUT", "/$SYS/results/r/0", auth=(user, "secret"), json=part)
        assert 204 == answer.status_code
        change(server, "PUT", "roles/after", {"note": "x"})
        assert "$AUDIT/roles/after" == watcher.message().topic


def test_l15_only_administrators_read_that(server, user):
    for path in ["$AUDIT/users/ann?last=1", "$AUDIT/?last=1"]:
        assert 403 == server.request("GET", f"/{path}", auth=(user, "secret")).status_code
    # Its table is one of the file only: it is nowhere, or not for this user once there are rules
    table = server.request("GET", "/mqtt_sys_audit/", auth=(user, "secret"))
    assert table.status_code in {403, 404}
    with Mqtt(server.mqtt_port, client_id="spy", username=user, password=b"secret") as spy:
        assert Reason.NOT_AUTHORIZED in spy.subscribe("$AUDIT/#").reasons
        assert Reason.NOT_AUTHORIZED in spy.subscribe("$AUDIT/users/+").reasons
        assert Reason.NOT_AUTHORIZED is spy.publish("$AUDIT/users/x", b"forged").reason


def test_l15_an_event_says_who_wrote_it_and_by_which_door(server, user):
    with Mqtt(server.mqtt_port, client_id="meter-7", username=user, password=b"secret") as meter:
        forged = {"user_property": (("by", "http:ann"),)}
        meter.publish("Dog/audited", b'{"name":"Rex"}', properties=forged)
    server.request("PUT", "/plain/1", auth=(user, "secret"), json=1)
    server.request("PUT", "/plain/2", json=1)
    keys = ("_user", "_door", "_client")
    found = []
    for path in ["Dog/audited?meta=true", "plain/1?last=1", "plain/2?last=1"]:
        row = server.request("GET", f"/{path}").json()
        row = row[0] if isinstance(row, list) else row
        found.append(tuple(row.get(key) for key in keys))
    assert [
        (user, "mqtt", "meter-7"), (user, "http", user), (None, None, "anonymous"),
    ] == found  # fmt: skip
    with Mqtt(server.mqtt_port, client_id="w", username="ann", password=b"pencil") as reader:
        reader.subscribe("Dog/audited")
        assert "by" not in (reader.message().properties or {})


def test_l11_who_guesses_is_slowed_down(server, user):
    answers = [server.request("GET", "/Dog/1", auth=(user, "x")) for _ in range(4)]
    assert [401, 401, 401, 429] == [answer.status_code for answer in answers]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert 429 == server.request("GET", "/Dog/1", auth=(user, "secret")).status_code
    assert 429 == login(server, user).status_code
    assert 200 == server.request("GET", "/Dog/1", auth=ANN).status_code  # others go on


def test_c27_a_ticket_opens_one_stream(server, user):
    made = server.request("POST", "/$SYS/tickets/", auth=(user, "secret"))
    ticket = made.json()["ticket"]
    assert (201, "no-store") == (made.status_code, made.headers["cache-control"])
    with Events(server, f"/Dog/1?ticket={ticket}") as first:
        assert 200 == first.status
        assert "Dog/1" == first.next().fields["topic"]
    with Events(server, f"/Dog/?ticket={ticket}") as second:
        assert 401 == second.status
    ticket = server.request("POST", "/$SYS/tickets/", auth=(user, "secret")).json()["ticket"]
    assert server.request("GET", f"/Dog/1?ticket={ticket}").status_code == 400  # no stream
    with open_websocket(server, f"/Dog/1?ticket={ticket}") as socket:
        assert "Dog/1" == json.loads(socket.recv(PATIENCE_SECONDS))["topic"]
    with pytest.raises(InvalidStatus), open_websocket(server, f"/Dog/?ticket={ticket}"):
        pass
    assert 401 == server.request("POST", "/$SYS/tickets/").status_code


def test_l14_a_cookie_counts_with_the_pages_own_origin(server, user):
    made = login(server, user, cookie=True)
    given = made.headers["set-cookie"]
    assert all(word in given for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    cookie = {"cookie": f"other=1; {given.partition(';')[0]}"}
    assert user == server.request("GET", "/$SYS/me", headers=cookie).json()["user"]
    for origin, status in [
        (None, 403), ("http://evil.example", 403), ("null", 403), (server.url, 204),
    ]:  # fmt: skip
        headers = cookie | ({"origin": origin} if origin else {})
        put = server.request("PUT", "/Dog/2", headers=headers, json={"name": "Bo"})
        assert (status if status == 403 else put.status_code) == put.status_code
        assert (put.status_code == 403) is (status == 403)
        try:
            with open_websocket(server, "/Dog/1", additional_headers=headers):
                opened = True
        except InvalidStatus:
            opened = False
        assert opened is (status != 403)
    out = server.request("POST", "/$SYS/logout", headers=cookie | {"origin": server.url})
    assert (204, True) == (out.status_code, "Max-Age=0" in out.headers["set-cookie"])


def test_signing_out_everywhere_ends_all_tokens(server, user):
    token = login(server, user).json()["token"]
    with Live(server, user, token) as live:
        asked = {"everywhere": True}
        out = server.request("POST", "/$SYS/logout", headers=bearer(token), json=asked)
        assert 204 == out.status_code
        assert Reason.NOT_AUTHORIZED is live.ended()[0]
    assert 401 == server.request("GET", "/Dog/1", headers=bearer(token)).status_code
    assert 200 == login(server, user).status_code


def test_l8_a_foreign_token_ends_nothing_of_a_user_of_its_name(server, user):
    token = login(server, user).json()["token"]
    theirs, asked = bearer(foreign(sub=user)), {"everywhere": True}
    out = server.request("POST", "/$SYS/logout", headers=theirs, json=asked)
    assert (403, True) == (out.status_code, "token of elsewhere; sign out there" in out.text)
    assert 200 == server.request("GET", "/Dog/1", headers=bearer(token)).status_code


def test_a_foreign_token_does_not_read_the_row_of_a_user_of_its_name(server, user):
    """Who it is says the issuer too, so it is another user, in rules and sessions as here."""
    row = f"/$SYS/users/{user}"
    mine = bearer(login(server, user).json()["token"])
    assert 200 == server.request("GET", row, headers=mine).status_code
    assert 403 == server.request("GET", row, headers=bearer(foreign(sub=user))).status_code


def test_tokens_of_a_trusted_issuer(server):
    boss = foreign(roles=["boss", "nonsense"])
    me = server.request("GET", "/$SYS/me", headers=bearer(boss)).json()
    assert ("jwt:zoe", ["admin"], True) == (me["user"], me["roles"], me["grants"]["administer"])
    plain = foreign(roles=["admin"])  # by no name of ours
    me = server.request("GET", "/$SYS/me", headers=bearer(plain)).json()
    assert ([], False) == (me["roles"], me["grants"]["administer"])
    for bad in [foreign(iss="another"), foreign(exp=1), foreign(nbf=2**40), foreign(sub=None)]:
        assert 401 == server.request("GET", "/Dog/1", headers=bearer(bad)).status_code
        with Mqtt(server.mqtt_port, username="zoe", password=bad.encode()) as client:
            assert Reason.BAD_USER_NAME_OR_PASSWORD is client.connack.reason
    # a token of theirs is not one of ours
    assert 401 == server.request("POST", "/$SYS/login", headers=bearer(boss)).status_code


def test_a_token_belongs_to_its_name(server, user):
    token = login(server, user).json()["token"].encode()
    for name, reason in [(None, Reason.SUCCESS), ("ann", Reason.BAD_USER_NAME_OR_PASSWORD)]:
        with Mqtt(server.mqtt_port, username=name, password=token) as client:
            assert reason is client.connack.reason


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        ("login", "GET", b"", 405),
        ("login", "POST", b"{", 400),
        ("login", "POST", b"[]", 400),
        ("login", "POST", b'{"user":1,"password":2}', 400),
        ("login", "POST", b'{"usr":"a"}', 400),
        ("login", "POST", b"", 401),
        ("login", "POST", b'{"user":"ann","password":"' + b"x" * 20_000 + b'"}', 413),
        ("login", "POST", b'{"user":"ann","password":"\\ud800"}', 400),
        ("tickets", "DELETE", b"", 405),
        ("me", "POST", b"", 405),
        ("logout", "POST", b'{"everywhere":true}', 401),
    ],
)
def test_what_is_asked_wrongly_is_told(server, path, method, body, status):
    answer = server.request(method, f"/$SYS/{path}", content=body, headers=JSON)
    assert status == answer.status_code
    assert answer.json()["detail"]


@pytest.mark.slow
def test_a_server_that_alone_names_users(tmp_path):
    """L10: the last administrator stays; L8: a removed user leaves no session."""
    add_first(tmp_path)
    with Server(tmp_path) as server:
        for method, value in [("DELETE", None), ("PATCH", {"disabled": True}), ("PUT", {})]:
            answer = change(server, method, "users/ann", value)
            assert (409, "conflict") == (answer.status_code, answer.json()["code"])
        change(server, "PUT", "users/ben", {"password": "secret"})
        keeps = {"session_expiry_interval": 1000}
        who = {"username": "ben", "password": b"secret"}
        with Mqtt(server.mqtt_port, client_id="kept", properties=keeps, **who) as client:
            client.subscribe("Dog/#")
        wait_until(lambda: session(server)["connected"] is False, "it is away")
        change(server, "DELETE", "users/ben")
        assert 404 == change(server, "GET", "sessions/kept").status_code


def session(server):
    return change(server, "GET", "sessions/kept").json()


def test_basic_header_is_what_a_browser_is_asked_for(server):
    """A page's own request brings up no window of the browser's."""
    wrong = {"authorization": "Basic " + b64encode(b"ann:x").decode()}
    shown = server.request("GET", "/Dog/1", headers=wrong).headers["www-authenticate"]
    assert shown.startswith("Basic")
    fetched = server.request("GET", "/Dog/1", headers=wrong | {"sec-fetch-mode": "cors"})
    assert fetched.headers["www-authenticate"].startswith("Bearer")
