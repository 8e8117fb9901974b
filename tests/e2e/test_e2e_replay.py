"""Replays by every door of the real program, over a kill (V6, M6)."""

import json

import pytest

from serving import Server
from talking import Events, Mqtt, open_websocket, told

SCHEMA = """
type Counter @table @export { id: ID @primaryKey n: Long! }
"""
COUNT = 12
START = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on which a record has a past, killed and started again."""
    with Server(tmp_path_factory.mktemp("replay"), SCHEMA) as running:
        with Mqtt(running.mqtt_port) as client:
            for number in range(COUNT):
                client.publish("Counter/a", json.dumps({"n": number}).encode())
        running.kill()
        running.start()
        yield running


@pytest.fixture(scope="module")
def past(server):
    """What REST tells of each event: cursor and number."""
    answer = server.request("GET", "/Counter/a?from=0&meta=true")
    answer.raise_for_status()
    return [(f"{row['_origin']}:{row['_seq']}", row["value"]["n"]) for row in answer.json()]


def test_m6_every_door_replays_what_was(server, past):
    """M6: the record of the start first, then each event with its own cursor, then the end."""
    assert list(range(COUNT)) == [number for _, number in past]
    start, rest = past[START], past[START + 1 :]
    size = len(rest)
    with Events(server, f"/Counter/?from={start[0]}&speed=0") as stream:
        events = [stream.next() for _ in range(size + 3)]
    heard = [(event.id, event.value["n"]) for event in events[2:-1]]
    assert (start[1], rest) == (events[0].value["n"], heard)
    assert "end" == events[-1].kind
    with open_websocket(server, "/") as socket:
        command = {"id": 1, "op": "replay", "topic": "Counter/+", "from": start[0], "speed": 1000}
        socket.send(json.dumps(command))
        assert 1 == json.loads(socket.recv())["replay"]
        spoken = [told(socket).fields for _ in range(size + 3)]
    assert all(fields["replay"] for fields in spoken)
    assert rest == [(fields["cursor"], fields["value"]["n"]) for fields in spoken[2:-1]]
    with Mqtt(server.mqtt_port) as client:
        prefix = f"$replay/{start[0]},,0/"
        client.subscribe(f"{prefix}Counter/+")
        packets = [client.message() for _ in range(size + 3)]
    topics = [packet.topic.removeprefix(prefix) for packet in packets]
    assert ["Counter/a", "$current", *["Counter/a"] * size, "$end"] == topics
    assert rest == [
        (dict(packet.properties["user_property"])["seq"], json.loads(packet.payload)["n"])
        for packet in packets[2:-1]
    ]


def test_m6_a_shared_replay_is_made_and_changed_over_rest(server, past):
    """M6, V6: a row; its subscriber over MQTT hears what was, and the present is as it was."""
    before = server.request("GET", "/Counter/a").json()
    row = {"filter": "Counter/#", "from": past[0][0], "state": "paused", "speed": 0}
    server.request("PUT", "/$SYS/replays/tour", json=row).raise_for_status()
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("$replay/tour/#")
        heard = [client.message().topic for _ in range(2)]
        assert ["$replay/tour/Counter/a", "$replay/tour/$current"] == heard
        changed = server.request("PATCH", "/$SYS/replays/tour", json={"state": "playing"})
        changed.raise_for_status()
        packets = [client.message() for _ in range(COUNT)]
    assert [*range(1, COUNT)] == [json.loads(packet.payload)["n"] for packet in packets[:-1]]
    assert "$replay/tour/$end" == packets[-1].topic
    server.request("DELETE", "/$SYS/replays/tour").raise_for_status()
    assert before == server.request("GET", "/Counter/a").json()
