"""Rows of topic tables on every door of the real program (F1, F3).

Each test has a first level of its own.
"""

import json
from itertools import islice

import pytest

from rowcast.codecs import decode
from rowcast.mqtt.packets import Publish
from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket, query, told

COLUMNS = ["id", "topic", "payload", "qos", "retain", "timestamp", "client_id"]
LASTING = {"session_expiry_interval": 3600}
SETTINGS = {"topics.undeclared": "table"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file."""
    with Server(tmp_path_factory.mktemp("rows"), settings=SETTINGS) as running:
        yield running


def say(server, topic, *payloads, qos=1, retain=False, client_id="writer"):
    """Publish over MQTT."""
    with Mqtt(server.mqtt_port, client_id=client_id) as client:
        for payload in payloads:
            client.publish(topic, payload, qos, retain=retain)


def rows(server, path):
    answer = server.request("GET", path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_collection_like_any_other(server):
    """F3, F20, B1-B17, B19: JSON, columns, query, one row, count, HEAD, description."""
    say(server, "home/temperature", b'{"temp":22.5}', b'{"temp":23}')
    say(server, "home/door", b"open", retain=True)
    one, two, door = rows(server, "/mqtt_home/")
    assert list(one) == COLUMNS
    assert (one["topic"], one["payload"], one["qos"]) == ("home/temperature", {"temp": 22.5}, 1)
    assert (one["retain"], one["client_id"]) == (False, "writer")
    assert (door["payload"], door["retain"]) == ("open", True)
    assert one["id"] < two["id"] < door["id"]
    assert rows(server, "/mqtt_home/?payload.temp=gt=22.9&select(id)") == [two["id"]]
    assert rows(server, "/mqtt_home/?topic=home/temperature&sort(-timestamp)&limit(1)") == [two]
    assert rows(server, f"/mqtt_home/{one['id']}") == one
    assert rows(server, f"/mqtt_home/{one['id']}.payload") == {"temp": 22.5}
    assert rows(server, "/mqtt_home/?count=true") == {"count": 3}
    assert server.request("HEAD", "/mqtt_home/").headers["rowcast-count"] == "3"
    about = rows(server, "/mqtt_home")
    assert ([item["name"] for item in about["attributes"]], about["count"]) == (COLUMNS, 3)
    assert about["database"] == "mqtt_topics"
    assert {"path": "/mqtt_home", "kind": "table"} in rows(server, "/")["resources"]


def test_every_format(server):
    """B6: the same rows, and dates and bytes as each format spells them."""
    say(server, "formats/a", b'{"n":1}', b"\xff")
    plain = rows(server, "/mqtt_formats/")
    assert plain[1]["payload"] == {"$bytes": "/w=="}
    with server.client() as client:
        for media_type in ("application/cbor", "application/x-msgpack"):
            answer = client.get("/mqtt_formats/", headers={"accept": media_type})
            found = decode(answer.content, media_type)
            assert [row["payload"] for row in found] == [{"n": 1}, b"\xff"]
            assert found[0]["timestamp"].isoformat()[:19] == plain[0]["timestamp"][:19]
        lines = client.get("/mqtt_formats/", headers={"accept": "application/x-ndjson"}).text
        assert [json.loads(line) for line in lines.splitlines()] == plain
        table = client.get("/mqtt_formats/", headers={"accept": "text/csv"}).text
        assert table.splitlines()[0] == ",".join(COLUMNS)


def test_pages_are_linked_and_long_ones_are_streamed(server):
    """B17: a long listing goes out in pieces, a short one with a link."""
    with Mqtt(server.mqtt_port) as client:
        for n in range(1_200):
            client.publish("long/a", b"%d" % n, 0, retain=False)
        client.publish("long/a", b"1200", 1, retain=False)
    payloads = [row["payload"] for row in rows(server, "/mqtt_long/")]
    assert payloads == list(range(1_201))
    found, path = [], "/mqtt_long/?sort(-id)&limit(500)"
    with server.client() as client:
        while path:
            answer = client.get(path)
            found += [row["payload"] for row in answer.json()]
            path = answer.links["next"]["url"] if "next" in answer.links else ""
    assert found == payloads[::-1]


def test_a_row_can_be_asked_for_conditionally(server):
    """B9: its ETag is its place in the log, which never changes."""
    say(server, "etag/a", b"1")
    (row,) = rows(server, "/mqtt_etag/")
    with server.client() as client:
        first = client.get(f"/mqtt_etag/{row['id']}")
        again = client.get(
            f"/mqtt_etag/{row['id']}", headers={"if-none-match": first.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


def test_rows_cannot_be_written(server):
    """F3: on no door, and the refusal says what to do instead."""
    say(server, "readonly/a", b"1")
    (row,) = rows(server, "/mqtt_readonly/")
    path = f"/mqtt_readonly/{row['id']}"
    for method, where in (
        ("PUT", path), ("PATCH", path), ("DELETE", path), ("POST", path),
        ("POST", "/mqtt_readonly/"), ("PUT", "/mqtt_readonly/"), ("DELETE", "/mqtt_readonly"),
    ):  # fmt: skip
        answer = server.request(method, where, json={})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS"), method
        assert "publish to a topic such as 'readonly/...'" in answer.json()["detail"]
    with Mqtt(server.mqtt_port) as client:
        refused = client.publish("mqtt_readonly/x", b"1", retain=True)
        assert refused.reason >= Reason.UNSPECIFIED_ERROR
    assert len(rows(server, "/mqtt_readonly/")) == 1


def test_what_is_unknown_is_told(server):
    say(server, "unknown/a", b"1")
    answer = server.request("GET", "/mqtt_unknown/?topics=unknown/a")
    assert (answer.status_code, 'did you mean "topic"' in answer.json()["detail"]) == (400, True)
    assert server.request("GET", "/mqtt_unknown/x").status_code == 404
    assert server.request("GET", "/mqtt_never/").status_code == 404


def test_the_document_tells_of_them_once(server):
    """B15: however many there are."""
    for level in ("doc1", "doc2"):
        say(server, f"{level}/a", b"1")
    paths = rows(server, "/openapi.json")["paths"]
    assert not [path for path in paths if "doc" in path and path.startswith("/mqtt")]
    assert set(paths["/mqtt_{level}/"]) == {"get", "parameters"}
    assert "get" in paths["/mqtt_sys_metrics/{id}"]


def test_events_of_rows(server):
    """C1, C10, C24: before there is a table, live, from an id, and the last ones."""
    with Events(server, "/mqtt_events/") as stream:
        assert stream.until_current() == []
        say(server, "events/a", b'{"n":1}', b'{"n":2}')
        first, second = islice(stream, 2)
        assert first.fields["topic"] == f"mqtt_events/{first.value['id']}"
        assert (list(first.value), first.value["payload"]) == (COLUMNS, {"n": 1})
    with Events(server, "/mqtt_events/", since=first.id) as stream:
        again = stream.next()
        assert (again.id, again.value) == (second.id, second.value)
        say(server, "events/b", b'{"n":3}')
        assert stream.next().value["payload"] == {"n": 3}
    with Events(server, "/mqtt_events/?previousCount=2") as stream:
        assert [event.value["payload"]["n"] for event in islice(stream, 2)] == [2, 3]
    with Events(server, f"/mqtt_events/{first.value['id']}") as stream:
        assert [event.value for event in stream.until_current()] == [first.value]


def test_both_at_once(server):
    """X1: a message is told as a row and as itself; only the second is a place to go on from."""
    path = "/both/" + query(topic="mqtt_both/#")
    with Events(server, path) as stream:
        stream.until_current()
        say(server, "both/a", b"1")
        row, itself = islice(stream, 2)
        assert (row.fields["cursor"], row.value["payload"]) == (None, 1)
        assert (itself.fields["topic"], itself.id) == ("both/a", itself.fields["cursor"])
        assert row.id != itself.id


def test_a_websocket_of_rows(server):
    """C2: the URL's own stream and a subscription."""
    with open_websocket(server, "/mqtt_socket/") as socket:
        assert told(socket).kind == "current"
        socket.send(json.dumps({"op": "subscribe", "topic": "mqtt_other/+", "id": 1}))
        assert "ack" in json.loads(socket.recv())
        assert told(socket).kind == "current"
        say(server, "socket/a", b"1")
        say(server, "other/a", b"2")
        one, two = told(socket), told(socket)
        assert (one.value["payload"], "subscription" in one.fields) == (1, False)
        assert (two.value["payload"], two.fields["subscription"]) == (2, 1)


def parsed(message: Publish) -> dict[str, object]:
    return json.loads(message.payload)


def test_mqtt_of_rows(server):
    """F3: mqtt_x/#, mqtt_x/+ and one row, in JSON or what was asked for."""
    cbor = {"user_property": (("accept", "application/cbor"),)}
    with Mqtt(server.mqtt_port) as reader, Mqtt(server.mqtt_port, properties=cbor) as other:
        reader.subscribe("mqtt_wire/+")
        other.subscribe("mqtt_wire/#")
        say(server, "wire/a", b'{"n":1}')
        message = reader.message()
        row = parsed(message)
        assert (message.topic, list(row)) == (f"mqtt_wire/{row['id']}", COLUMNS)
        assert message.properties["content_type"] == "application/json"
        packed = other.message()
        assert decode(packed.payload, "application/cbor")["payload"] == {"n": 1}
        reader.subscribe(message.topic)
        again = reader.message()
        assert (again.retain, again.payload) == (True, message.payload)


def test_mqtt_of_both(server):
    """X1, D27: a session that was away gets each message as a row and as itself, once."""
    with Mqtt(server.mqtt_port, client_id="both", properties=LASTING) as reader:
        reader.subscribe("pair/#")
        reader.subscribe("mqtt_pair/+")
        say(server, "pair/a", b"0")
        assert [reader.message().topic[:5] for _ in range(2)] == ["mqtt_", "pair/"]
    say(server, "pair/a", b"1", b"2")
    with Mqtt(server.mqtt_port, client_id="both", properties=LASTING, clean_start=False) as reader:
        told_of = [reader.message() for _ in range(4)]
        assert [message.topic[:5] for message in told_of] == ["mqtt_", "pair/"] * 2
        assert [parsed(message) for message in told_of[1::2]] == [1, 2]
        assert [parsed(message)["payload"] for message in told_of[::2]] == [1, 2]


def test_a_shared_subscription_of_rows(server):
    """D30: rows are assigned to members as any messages are."""
    with Mqtt(server.mqtt_port) as one:
        one.subscribe("$share/g/mqtt_dealt/+")
        say(server, "dealt/a", b"1", b"2")
        assert [parsed(one.message())["payload"] for _ in range(2)] == [1, 2]


def test_rows_survive_a_kill(tmp_path):
    """E29, D27: the table, its rows, and a row that was in flight."""
    with Server(tmp_path, settings=SETTINGS) as server:
        with Mqtt(server.mqtt_port, client_id="durable", properties=LASTING) as reader:
            reader.subscribe("mqtt_home/#")
            say(server, "home/a", b'{"n":1}')
            wanted = reader.message()
        server.kill()
        server.start()
        (row,) = rows(server, "/mqtt_home/")
        assert row["payload"] == {"n": 1}
        with Mqtt(
            server.mqtt_port, client_id="durable", properties=LASTING, clean_start=False
        ) as reader:
            say(server, "home/a", b'{"n":2}')
            message = reader.message()
            if message.topic == wanted.topic:  # QoS 1 may repeat what a kill made uncertain
                assert message.payload == wanted.payload
                message = reader.message()
            assert parsed(message)["payload"] == {"n": 2}


def test_the_past_of_rows(server):
    """B13, E25: a window of rows, the last ones, and their numbers by topic."""
    say(server, "past/a", b'{"n":1}', b'{"n":3}')
    say(server, "past/b", b'{"n":5}')
    whole = rows(server, "/mqtt_past/?from=-1h")
    assert [entry["value"]["payload"]["n"] for entry in whole] == [1, 3, 5]
    assert whole[0]["topic"] == f"mqtt_past/{whole[0]['value']['id']}"
    last = rows(server, "/mqtt_past/?last=1&topic=past/a")
    assert [entry["value"]["payload"] for entry in last] == [{"n": 3}]
    path = "/mqtt_past/?from=-1h&every=1d&fn=avg,count&select=payload.n"
    buckets = rows(server, path)
    found = {bucket["topic"]: next(iter(bucket["values"].values()))["avg"] for bucket in buckets}
    assert found == {"past/a": 2, "past/b": 5}
    one = rows(server, f"/{whole[0]['topic']}?from=0")
    assert [entry["value"] for entry in one] == [whole[0]["value"]]
    for path in ("/mqtt_past/?asof=now", f"/{whole[0]['topic']}?asof=now"):
        answer = server.request("GET", path)
        assert (answer.status_code, "do not change" in answer.json()["detail"]) == (400, True)


def test_what_the_server_tells_of_itself(server):
    """F1, F22: over REST, as events and over MQTT, by topic, with numbers as numbers."""
    path = "mqtt_sys_metrics/$SYS/broker/uptime"
    first = wait_until(lambda: server.request("GET", f"/{path}").json(), "there is an uptime")
    assert list(first) == ["id", "topic", "value", "timestamp"]
    assert first["id"] == first["topic"] == "$SYS/broker/uptime"
    encoded = server.request("GET", "/mqtt_sys_metrics/%24SYS%2Fbroker%2Fuptime")
    assert encoded.json()["id"] == first["id"]
    many = rows(server, "/mqtt_sys_metrics/?value=ge=0&topic=sw=$SYS/broker/clients/")
    assert {type(row["value"]) for row in many} <= {int, float}
    assert "$SYS/broker/clients/connected" in {row["id"] for row in many}
    assert rows(server, "/mqtt_sys_metrics/?count=true")["count"] >= len(many)
    wanted = "mqtt_sys_metrics/$SYS/broker/clients/connected"
    # Of a client that has just left it may still be told, and then two for one change nothing.
    wait_until(lambda: server.request("GET", f"/{wanted}").json()["value"] == 0, "all have left")
    with Events(server, f"/{wanted}") as stream, Mqtt(server.mqtt_port) as watcher:
        assert [event.fields["topic"] for event in stream.until_current()] == [wanted]
        with Mqtt(server.mqtt_port):  # the watcher may have been counted in what was current
            assert type(stream.next().value["value"]) is int
        # Of a value that changes meanwhile there would be the event only, which is not retained.
        constant = "mqtt_sys_metrics/$SYS/broker/queries/timeout"
        watcher.subscribe(constant)
        message = watcher.message()
        assert (message.retain, message.topic) == (True, constant)
    assert server.request("PUT", f"/{path}", json={}).status_code == 405
