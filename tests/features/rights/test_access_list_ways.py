"""Ways round the access list, on every door of the whole program (G20).

Everything is open but for two places, where one client alone may read and write. What it wrote
there must not come out to others in any form, and nobody else may change it.
"""

import json

import pytest

from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket, query

OWNER = "owner"
HIDDEN, SHOWN = "hush", "loud"
AGE = 7_654_321
RULES = [
    {"effect": "allow", "actions": ["all"], "topics": ["#", "$SYS/#"], "clients": [OWNER]},
    {"effect": "deny", "actions": ["all"], "topics": ["home/shut/#", "Dog/shut"]},
    {"effect": "allow", "actions": ["all"], "topics": ["#", "$SYS/#", "$stale/#"]},
]
SCHEMA = """
type Dog @table @export @deadline(after: "1s") { id: ID @primaryKey name: String age: Int }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"hooks.acl": json.dumps(RULES)}
    folder = tmp_path_factory.mktemp("ways")
    with Server(folder, schema=SCHEMA, settings=settings) as running:
        with Mqtt(running.mqtt_port, client_id=OWNER) as owner:
            fill(owner)
        yield running


def value(name, age=1):
    return json.dumps({"name": name, "age": age}).encode()


def fill(owner):
    """Write both places, and others beside them."""
    for topic in ("home/shut/1", "Dog/shut"):
        assert Reason.SUCCESS == owner.publish(topic, value(HIDDEN, AGE)).reason
        assert owner.publish(topic, value(HIDDEN, AGE), retain=False).reason < 0x80
    for topic in ("home/open/1", "Dog/open"):
        assert Reason.SUCCESS == owner.publish(topic, value(SHOWN)).reason


def leaks(body):
    """Tell whether a body has any of the hidden value."""
    return HIDDEN.encode() in body or str(AGE).encode() in body


RECORD = ["/Dog/shut", "//Dog/shut", "/Dog/sh%75t", "/Dog/shut.json", "/Dog/shut.name"]
PAST = ["/Dog/shut?asof=now", "/Dog/shut?last=9", "/Dog/shut?from=0", "/home/shut/1?last=9"]
CLOSED = [*RECORD, *PAST, "/Dog/shut?meta=true", "/home/shut/1", "/$SYS/retained/home%2Fshut%2F1"]
LISTS = [
    "/Dog/",
    "/Dog/?sort(name)",
    "/Dog/?meta=true",
    "/Dog/?asof=now",
    "/Dog/?last=9",
    "/Dog/?from=0",
    "/Dog/?from=0&every=1h&fn=avg,max",
    "/home/?last=9",
    "/home/?from=0&every=1h",
    "/?last=9",
    "/mqtt_home/",
    "/$SYS/retained/",
    "/$SYS/retained/?filter=home/%23",
    "/$SYS/retained/?filter=home/shut/1",
]
TYPES = ["application/json", "text/csv", "application/x-ndjson", "application/cbor",
         "application/msgpack"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", CLOSED)
def test_a_record_and_its_past_are_refused(server, path):
    answer = server.request("GET", server.url + path)
    assert (403, False) == (answer.status_code, leaks(answer.content)), answer.text
    head = server.request("HEAD", server.url + path)
    assert 403 == head.status_code


@pytest.mark.parametrize("media_type", TYPES)
@pytest.mark.parametrize("path", LISTS)
def test_a_list_leaves_it_out_in_every_format(server, path, media_type):
    answer = server.request("GET", path, headers={"accept": media_type})
    assert not leaks(answer.content), answer.text
    assert answer.status_code in ({200, 406} if path.startswith("/$SYS") else {200}), answer.text


def test_a_list_has_what_is_beside_it(server):
    for path in ("/Dog/", "/Dog/?asof=now", "/Dog/?last=9", "/home/?last=9", "/mqtt_home/"):
        assert SHOWN in server.request("GET", path).text, path


@pytest.mark.parametrize("condition", ["name==hush", f"age=gt={AGE - 1}", "id==shut"])
def test_a_condition_does_not_tell_that_it_is_there(server, condition):
    assert [] == server.request("GET", f"/Dog/?{condition}").json()
    assert {"count": 0} == server.request("GET", f"/Dog/?{condition}&count").json()
    rows = f"/mqtt_home/?payload=ct={HIDDEN}"
    assert [] == server.request("GET", rows).json()


def test_counts_and_pages_are_those_of_what_is_left(server):
    assert {"count": 1} == server.request("GET", "/Dog/?count").json()
    page = server.request("GET", "/Dog/?sort(name)&limit(1)")
    assert ["open"] == [row["id"] for row in page.json()]
    assert "rowcast-after" not in page.headers


def test_a_question_about_it_is_answered_as_the_read_is(server):
    asked = ["Dog/shut", "Dog/open", "home/shut/#", "home/open/#", "Dog/#"]
    told = server.request("GET", "/$SYS/me?" + "&".join(f"read={quoted(t)}" for t in asked))
    assert dict(zip(asked, [False, True, False, True, True], strict=True)) == told.json()["reads"]


def quoted(text):
    return text.replace("#", "%23").replace("+", "%2B")


# -- writes ----------------------------------------------------------------------------------------

NEW = b'{"name": "taken", "age": 2}'
WRITES = [
    ("PUT", "/Dog/shut", NEW),
    ("PUT", "//Dog/shut", NEW),
    ("PUT", "/Dog/sh%75t", NEW),
    ("PATCH", "/Dog/shut", NEW),
    ("DELETE", "/Dog/shut", None),
    ("POST", "/Dog/shut?retain=false", NEW),
    ("POST", "/Dog/", b'{"id": "shut", "name": "taken"}'),
    ("PUT", "/$delayed/9/Dog/shut", NEW),
    ("PUT", "/$delayed/9//Dog/shut", NEW),
    ("DELETE", "/$delayed/9/Dog/shut", None),
    ("PUT", "/home/shut/1", NEW),
    ("DELETE", "/home/shut/1", None),
    ("POST", "/home/shut/2?retain=false", NEW),
    ("DELETE", "/$SYS/retained/home%2Fshut%2F1", None),
    ("PUT", "/Dog/?atomic=true", b'[{"id": "open", "name": "x"}, {"id": "shut", "name": "x"}]'),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_write_is_refused_however_it_is_spelt(server, method, path, body):
    headers = {"content-type": "application/json"} if body else {}
    answer = server.request(method, server.url + path, content=body, headers=headers)
    assert 403 == answer.status_code, answer.text
    again = headers | {"idempotency-key": f"{method} {path}"}
    for _ in range(2):
        assert (
            403
            == server.request(method, server.url + path, content=body, headers=again).status_code
        )
    assert kept(server)


def test_of_a_batch_it_is_refused_alone(server):
    rows = [{"id": "other", "name": "x"}, {"id": "shut", "name": "x"}]
    answer = server.request("PUT", "/Dog/", json=rows)
    assert [201, 403] == [row["status"] for row in answer.json()]
    assert 204 == server.request("DELETE", "/Dog/other").status_code
    assert kept(server)


def test_what_is_cleared_at_once_is_only_the_rest(server):
    path, clear = "/$SYS/retained/", {"clear": "home/#"}
    told = server.request("POST", path, json=clear | {"dry_run": True}).json()
    assert "home/shut/1" not in told["topics"]
    assert 200 == server.request("POST", path, json=clear).status_code
    assert kept(server)
    with Mqtt(server.mqtt_port, client_id=OWNER) as owner:
        assert Reason.SUCCESS == owner.publish("home/open/1", value(SHOWN)).reason


def kept(server):
    """Tell whether both places are as their owner wrote them."""
    with Mqtt(server.mqtt_port, client_id=OWNER) as owner:
        for topic in ("Dog/shut", "home/shut/1"):
            owner.subscribe(topic)
            if HIDDEN.encode() not in owner.message().payload:
                return False
    return True


@pytest.mark.parametrize("op", ["put", "patch", "delete", "message", "get"])
@pytest.mark.parametrize("topic", ["Dog/shut", "/Dog/shut", "home/shut/1"])
def test_a_websocket_s_command_is_refused(server, op, topic):
    command = {"id": 1, "op": op, "topic": topic}
    if op not in {"delete", "get"}:
        command["value"] = {"name": "taken"}
    with open_websocket(server, "/") as socket:
        socket.send(json.dumps(command))
        answer = json.loads(socket.recv(60))
    assert "denied" == answer["error"]["code"]
    assert kept(server)


@pytest.mark.parametrize("topic", ["Dog/shut", "/Dog/shut", "$delayed/9/Dog/shut", "home/shut/9"])
@pytest.mark.parametrize("retain", [True, False])
def test_a_publish_is_refused(server, topic, retain):
    with Mqtt(server.mqtt_port, client_id="c1") as client:
        answer = client.publish(topic, NEW, retain=retain)
        assert Reason.NOT_AUTHORIZED == answer.reason
        client.publish(topic, NEW, qos=0, retain=retain)  # which is not answered
        marked = {"user_property": (("producer", f"p:1:{len(topic)}{int(retain)}"),)}
        answer = client.publish(topic, NEW, retain=retain, properties=marked)
        assert Reason.NOT_AUTHORIZED == answer.reason
    assert kept(server)


def test_a_will_is_not_published_there(server):
    with Mqtt(server.mqtt_port, client_id=OWNER) as owner:
        owner.subscribe("Dog/#", properties={"user_property": (("seq", ""),)})
        while not owner.message().topic.startswith("$snapshot/end"):
            pass
        for topic in ("Dog/shut", "Dog/will"):
            Mqtt(server.mqtt_port, client_id="c2", will=Will(topic, NEW, 1)).cut()
        assert "Dog/will" == owner.message().topic
    assert kept(server)


# -- subscriptions ---------------------------------------------------------------------------------

REFUSED = ["Dog/shut", "/Dog/shut", "home/shut/#", "home/shut/+", "$exclusive/Dog/shut",
           "$share/g/Dog/shut", "$queue/Dog/shut", "$stream/Dog/shut"]  # fmt: skip
PARTS = ["#", "+/#", "+/+", "+/shut", "Dog/#", "Dog/+", "/Dog/#", "$share/g/Dog/#", "$share/g/#",
         "$queue/Dog/+", "$stream/Dog/#"]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_filter_that_is_denied_as_a_whole_is_refused(server, text):
    with Mqtt(server.mqtt_port, client_id="c3") as client:
        assert (Reason.NOT_AUTHORIZED,) == client.subscribe(text).reasons


@pytest.mark.parametrize("begins", [(), ("last", "9")])
@pytest.mark.parametrize("text", PARTS)
def test_of_a_wider_filter_it_is_not_delivered(server, text, begins):
    """Neither as it is, nor from the log, nor live; nor is its silence."""
    properties = {"user_property": (begins,)} if begins else None
    with (
        Mqtt(server.mqtt_port, client_id="c4") as client,
        Mqtt(server.mqtt_port, client_id=OWNER) as owner,
    ):
        (reason,) = client.subscribe(text, properties=properties).reasons
        assert reason < Reason.UNSPECIFIED_ERROR
        client.subscribe("Dog/open")
        owner.publish("Dog/shut", value(HIDDEN, AGE))
        owner.publish("Dog/open", value(f"end of {text}"))
        while f"end of {text}".encode() not in (message := client.message()).payload:
            assert not leaks(message.payload)
            assert not message.topic.endswith("shut")
        owner.publish("Dog/open", value(SHOWN))


@pytest.mark.parametrize("begins", [{}, {"last": "9"}, {"from": "-1h"}])
@pytest.mark.parametrize("text", ["Dog/#", "+/+", "#"])
def test_nor_on_a_stream(server, text, begins):
    with (
        Events(server, "/" + query(topic=text, **begins)) as stream,
        Mqtt(server.mqtt_port, client_id=OWNER) as owner,
    ):
        owner.publish("Dog/shut", value(HIDDEN, AGE))
        owner.publish("Dog/open", value(f"end of {text}"))
        while f"end of {text}" not in (event := stream.next()).text:
            assert not leaks(event.text.encode())
            assert "Dog/shut" != event.fields.get("topic")
        owner.publish("Dog/open", value(SHOWN))


# -- another list after a restart ------------------------------------------------------------------


@pytest.mark.heavy
def test_what_waited_is_judged_by_the_list_of_the_next_start(tmp_path):
    """L8, G20: sessions and groups, what is in flight, wills and delayed writes."""
    every = {"effect": "allow", "actions": ["all"], "topics": ["#", "$SYS/#"]}
    shut = {"effect": "deny", "actions": ["all"], "topics": ["Dog/shut"], "clients": ["a", "b"]}
    with Server(tmp_path, settings={"hooks.acl": json.dumps([every])}) as server:
        let_wait(server)
        server.stop()
        server.settings["hooks.acl"] = json.dumps([shut, every])
        server.start()
        with Mqtt(server.mqtt_port, client_id=OWNER) as owner:
            owner.subscribe("Dog/#")
            for _ in ("shut", "beside"):
                (*_, row) = server.request("GET", "/$SYS/delayed/").json()
                due = {"due": "2000-01-01T00:00:00Z"}
                server.request("PATCH", f"/$SYS/delayed/{row['id']}", json=due)
                wait_until(lambda row=row: gone(server, row), "it was due")
            for client_id in "bc":
                server.request("DELETE", f"/$SYS/sessions/{client_id}")
            told = [owner.message() for _ in range(3)]
            assert ["Dog/shut", "Dog/delayed", "Dog/will"] == [it.topic for it in told]
            assert leaks(told[0].payload)  # as it was kept
            hear_nothing(server, owner)


KEPT = {"session_expiry_interval": 1000}


def let_wait(server):
    """Leave a session with messages, a message in flight, wills and delayed writes."""
    client = Mqtt(server.mqtt_port, client_id="a", properties=KEPT)
    for text in ("Dog/shut", "Dog/+", "$share/g/Dog/#"):
        client.subscribe(text)
    for topic in ("delayed", "shut"):
        assert client.publish(f"$delayed/900/Dog/{topic}", NEW).reason < 0x80
    with Mqtt(server.mqtt_port, client_id=OWNER) as owner:
        owner.publish("Dog/shut", value(HIDDEN, AGE))
        client.receive()  # which is in flight, and never acknowledged
        client.cut()
        owner.publish("Dog/shut", value(HIDDEN, AGE))
    for client_id, topic in (("b", "Dog/shut"), ("c", "Dog/will")):
        will = Will(topic, NEW, 1, True, {"will_delay_interval": 900})
        Mqtt(server.mqtt_port, client_id=client_id, will=will, properties=KEPT).cut()


def gone(server, row):
    return row["id"] not in {it["id"] for it in server.request("GET", "/$SYS/delayed/").json()}


def hear_nothing(server, owner):
    """See that the session that came back hears nothing of what it may no longer read."""
    with Mqtt(server.mqtt_port, client_id="a", properties=KEPT, clean_start=False) as client:
        assert client.connack.session_present
        client.subscribe("Dog/end")
        owner.publish("Dog/shut", value(HIDDEN, AGE))
        owner.publish("Dog/end", value("end"))
        while (message := client.message()).topic != "Dog/end":
            assert not leaks(message.payload)
