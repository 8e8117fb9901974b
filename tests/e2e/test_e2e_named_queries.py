"""Live queries that the schema names, on every door, over a restart with other conditions (M3)."""

import json

import pytest

from serving import Server, rowcast
from talking import Events, Mqtt, open_websocket, told, user_properties

TABLE = "type Sensor @table @export { id: ID @primaryKey temp: Float }\n"
HOT = 'query Hot @query(table: "Sensor", where: "temp=gt={}")\n'
LASTING = {"session_expiry_interval": 3600}


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path, TABLE + HOT.format(80)) as running:
        put(running, "cold", 20)
        put(running, "warm", 85)
        put(running, "hot", 95)
        yield running


def put(server, name, temp):
    assert server.request("PUT", f"/Sensor/{name}", json={"temp": temp}).status_code in {201, 204}


def names(events):
    return [(event.kind, event.fields["topic"].removeprefix("Sensor/")) for event in events]


def step(server, hear):
    """Let a record enter, change and leave; check that one reader hears that, and nothing else."""
    for temp in (10, 90, 91, 11):
        put(server, "new", temp)
    heard = [hear() for _ in range(3)]
    assert heard == [("enter", "new"), ("change", "new"), ("leave", "new")]


@pytest.mark.parametrize("path", ["/$query/Hot", "/?topic=$query/Hot/%23"])
def test_over_sse(server, path):
    with Events(server, path) as stream:
        begun = stream.until_current()
        assert sorted(names(begun)) == [("snapshot", "hot"), ("snapshot", "warm")]
        step(server, lambda: names([stream.next()])[0])


def test_over_websocket(server):
    with open_websocket(server, "/") as socket:
        socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": "$query/Hot/#"}))
        begun = []
        while not begun or begun[-1].kind != "current":
            said = told(socket)
            begun += [said] if "kind" in said.fields else []
        assert sorted(names(begun[:-1])) == [("snapshot", "hot"), ("snapshot", "warm")]
        step(server, lambda: names([told(socket)])[0])


def test_over_mqtt(server):
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("$query/Hot/#")
        topics = {client.message().topic for _ in range(2)}
        assert topics == {"Sensor/hot", "Sensor/warm"}

        def hear():
            message = client.message()
            return user_properties(message)["op"], message.topic.removeprefix("Sensor/")

        step(server, hear)
        client.unsubscribe("$query/Hot/#")
        put(server, "hot", 96)
        put(server, "last", 1)
        client.subscribe("Sensor/last", retain_handling=0)
        assert client.message().topic == "Sensor/last"


def test_a_name_that_is_none_is_refused_with_the_nearest(server):
    answer = server.request("GET", "/$query/Hott", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 404
    assert answer.json()["detail"].endswith('did you mean "Hot"?')


def test_readers_begin_anew_when_its_conditions_have_changed(server):
    """A cursor of the old conditions says nothing about the records of the new ones."""
    with Mqtt(server.mqtt_port, client_id="lasting", properties=LASTING) as client:
        client.subscribe("$query/Hot/#")
        assert {client.message().topic for _ in range(2)} == {"Sensor/hot", "Sensor/warm"}
    with Events(server, "/$query/Hot") as stream:
        stream.until_current()
        put(server, "hot", 96)
        cursor = stream.next().id
    server.stop()
    server.start()
    with Events(server, "/$query/Hot", cursor) as stream:  # as it was: it goes on
        put(server, "hot", 97)
        assert names([stream.next()]) == [("change", "hot")]
    server.stop()
    server.schema_file.write_text(TABLE + HOT.format(90))
    server.start()
    with Events(server, "/$query/Hot", cursor) as stream:
        assert stream.next().kind == "reset"
        begun = stream.until_current()
        assert names(begun) == [("snapshot", "hot")]
        put(server, "hot", 98)
        newer = stream.next().id
    with Events(server, "/$query/Hot", newer) as stream:
        put(server, "hot", 99)
        assert names([stream.next()]) == [("change", "hot")]
    with Mqtt(
        server.mqtt_port, client_id="lasting", properties=LASTING, clean_start=False
    ) as client:
        heard = []
        while not heard or b"99" not in heard[-1][1]:
            message = client.message()
            heard.append((message.topic, message.payload))
        assert {topic for topic, _ in heard} == {"Sensor/hot"}
    server.stop()
    server.start()
    with Events(server, "/$query/Hot", cursor) as stream:
        assert stream.next().kind == "reset", "also after another start"


def test_check_tells_what_is_wrong_with_one(tmp_path):
    schema = tmp_path / "schema.graphql"
    schema.write_text(TABLE + HOT.replace("temp", "tmp"))
    found = rowcast("check", folder=tmp_path)
    assert found.returncode == 1
    assert 'schema.graphql:2:42: Sensor declares no attribute "tmp"' in found.stdout + found.stderr
