"""$SYS, $delayed and $stream, by every door of the real program (D10, D52, D55, M11)."""

import json

import pytest

from rowcast.mqtt.packets import Disconnect
from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket

LASTING = {"session_expiry_interval": 600}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file."""
    with Server(tmp_path_factory.mktemp("system")) as running:
        yield running


def lags_of(server):
    rows = server.request("GET", "/$SYS/sessions/?select(transport,lag)").json()
    return [(row["transport"], row["lag"]) for row in rows]


def test_sessions_are_read_by_rest(server):
    """One, all, and those that a query selects."""
    with Mqtt(server.mqtt_port, client_id="a/b") as client:
        client.subscribe("Dog/+")
        row = server.request("GET", "/$SYS/sessions/a/b").json()
        listed = server.request("GET", "/$SYS/sessions/?connected==true").json()
        wait_until(lambda: lags_of(server) == [("tcp", 0)], "no lag once the records were sent")
    assert ("a/b", "tcp", "mqtt", 5) == tuple(
        row[name] for name in ("client_id", "transport", "door", "version")
    )
    assert ["Dog/+"] == [item["filter"] for item in row["subscriptions"]]
    assert ["a/b"] == [item["client_id"] for item in listed]
    assert 404 == server.request("GET", "/$SYS/sessions/nobody").status_code


def test_sessions_are_read_by_websocket(server):
    with Mqtt(server.mqtt_port, client_id="seen"), open_websocket(server, "/") as socket:
        socket.send(json.dumps({"id": 1, "op": "get", "topic": "$SYS/sessions/seen"}))
        answer = json.loads(socket.recv())
    assert (1, "seen") == (answer["ack"], answer["value"]["client_id"])


def test_a_session_is_ended_by_rest(server):
    """Its client hears why; written it cannot be."""
    with Mqtt(server.mqtt_port, client_id="ended", properties=LASTING) as client:
        assert 405 == server.request("PUT", "/$SYS/sessions/ended", json={}).status_code
        assert 204 == server.request("DELETE", "/$SYS/sessions/ended").status_code
        goodbye = client.receive()
    assert isinstance(goodbye, Disconnect)
    assert Reason.ADMINISTRATIVE_ACTION == goodbye.reason
    assert 404 == server.request("DELETE", "/$SYS/sessions/ended").status_code


def test_retained_messages_are_listed_read_and_cleared_by_rest(server):
    """E30: as docs/history.md shows it."""
    for room in ("kitchen", "hall"):
        server.request("PUT", f"/home/{room}/temperature", content=b"21").raise_for_status()
    path = "/$SYS/retained/"
    wanted = "filter=home/%2B/temperature&payload=ct=21&limit(1)"
    (first,) = server.request("GET", f"{path}?{wanted}").json()
    second = server.request("GET", f"{path}?{wanted}&after({first['cursor']})").json()
    assert (["home/hall/temperature"], ["home/kitchen/temperature"]) == (
        [first["topic"]], [row["topic"] for row in second],
    )  # fmt: skip
    one = server.request("GET", f"{path}home/hall/temperature").json()
    assert ("21", 2) == (one["payload"], one["size"])
    told = server.request("POST", path, json={"clear": "home/#", "dry_run": True}).json()
    assert (2, True) == (told["count"], told["dry_run"])
    assert 204 == server.request("DELETE", f"{path}home/hall/temperature").status_code
    assert 404 == server.request("DELETE", f"{path}home/hall/temperature").status_code
    assert 1 == server.request("POST", path, content=b'{"clear":"home/#"}').json()["count"]
    assert [] == server.request("GET", f"{path}?filter=home/%23").json()
    assert 400 == server.request("POST", path, json={"clear": 1}).status_code


def test_sessions_are_watched_by_sse(server):
    """E15: as they are, and then what happens."""
    with Mqtt(server.mqtt_port, client_id="before"), Events(server, "/$SYS/sessions/") as stream:
        topics = [event.fields["topic"] for event in stream.until_current()]
        with Mqtt(server.mqtt_port, client_id="after"):
            told = [stream.next() for _ in range(2)]
        told += [stream.next() for _ in range(2)]
    assert "$SYS/sessions/before" in topics
    assert {"$SYS/sessions/after"} == {event.fields["topic"] for event in told}
    assert ["put", "put", "put", "delete"] == [event.kind for event in told]
    values = [event.value["event"] for event in told[:3]]
    assert ["registered", "connected", "disconnected"] == values


def test_topic_tables_are_watched(server):
    """E15: as they are, and then each new one; one that is dropped is gone."""
    server.request("PUT", "/first/a", content=b"1").raise_for_status()
    with Events(server, "/$SYS/topic_tables/") as stream:
        begins = [event.fields["topic"] for event in stream.until_current()]
        server.request("PUT", "/second/a", content=b"1").raise_for_status()
        told = stream.next()
    assert "$SYS/topic_tables/mqtt_first" in begins
    assert ("put", "$SYS/topic_tables/mqtt_second") == (told.kind, told.fields["topic"])
    assert "second" == told.value["level"]


def test_sessions_are_watched_by_websocket(server):
    """E15: one of them."""
    with open_websocket(server, "/") as socket:
        socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": "$SYS/sessions/one"}))
        with Mqtt(server.mqtt_port, client_id="one"):
            heard = [json.loads(socket.recv())]
            while heard[-1].get("value", {}).get("event") != "connected":
                heard.append(json.loads(socket.recv()))
    assert {"$SYS/sessions/one"} == {event["topic"] for event in heard if event.get("value")}


def delayed_rows(server):
    """Return what waits."""
    return server.request("GET", "/$SYS/delayed/").json()


def test_a_write_is_delayed_by_every_door(server):
    """D52: and comes out by MQTT."""
    with Mqtt(server.mqtt_port) as client, open_websocket(server, "/") as socket:
        client.subscribe("Dog/#")
        put = {"id": 1, "op": "put", "topic": "$delayed/1/Dog/ws", "value": {"name": "a"}}
        socket.send(json.dumps(put))
        assert 1 == json.loads(socket.recv())["ack"]
        answer = server.request("PUT", "/$delayed/1/Dog/rest", json={"name": "b"})
        said = server.request("POST", "/$delayed/1/Dog/said?retain=false", json={"name": "c"})
        client.publish("$delayed/1/Dog/mqtt", b'{"name": "d"}')
        assert (204, 202) == (answer.status_code, said.status_code)
        assert {"Dog/ws", "Dog/rest", "Dog/said", "Dog/mqtt"} == {
            client.message().topic for _ in range(4)
        }
    assert {"name": "b", "id": "rest"} == server.request("GET", "/Dog/rest").json()
    refused = server.request("PUT", "/$delayed/soon/Dog/1", json={"name": "b"})
    assert (400, True) == (refused.status_code, "$delayed/60/" in refused.text)


def test_a_delayed_write_is_cancelled(server):
    """D52: DELETE of its row."""
    assert 204 == server.request("PUT", "/$delayed/600/Dog/9", json={"name": "x"}).status_code
    [row] = delayed_rows(server)
    assert ("Dog/9", "put") == (row["topic"], row["kind"])
    assert 204 == server.request("DELETE", f"/$SYS/delayed/{row['id']}").status_code
    assert [] == delayed_rows(server)


def test_a_delayed_write_survives_a_kill(tmp_path):
    """D52: due while the server was away, published once when it is back."""
    with Server(tmp_path) as server:
        with Mqtt(server.mqtt_port, client_id="d", properties=LASTING) as client:
            client.subscribe("a/#")
            client.publish("$delayed/1/a/b", b"x", retain=False)
            [row] = delayed_rows(server)
        server.kill()
        server.start()
        with Mqtt(server.mqtt_port, client_id="d", properties=LASTING, clean_start=False) as client:
            message = client.message()
            assert ("a/b", b"x") == (message.topic, message.payload)
            assert [] == delayed_rows(server)
        assert row["topic"] == "a/b"


def test_a_stream_begins_at_its_offset(server):
    """D55: over the log of the real store, by time and from its first event."""
    cursors = [
        server.request("PUT", f"/Counter/{number}", json={"n": number}).headers["rowcast-position"]
        for number in range(5)
    ]
    for value, expected in (("first", [0, 1, 2, 3, 4]), (cursors[2], [3, 4]), ("last", [4])):
        with Mqtt(server.mqtt_port) as client:
            properties = {"user_property": (("stream-offset", value),)}
            client.subscribe("$stream/Counter/+", properties=properties)
            heard = [json.loads(client.message().payload)["n"] for _ in expected]
        assert expected == heard
