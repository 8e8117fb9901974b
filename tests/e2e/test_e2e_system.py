"""What the server knows of itself, by every door of the real program (FEATURES D10, M11)."""

import json

import pytest

from app.mqtt.packets import Disconnect
from app.mqtt.reasons import Reason
from serving import Server
from talking import Mqtt, open_websocket

LASTING = {"session_expiry_interval": 600}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file."""
    with Server(tmp_path_factory.mktemp("system")) as running:
        yield running


def test_sessions_are_read_by_rest(server):
    """One, all, and those that a query selects."""
    with Mqtt(server.mqtt_port, client_id="a/b") as client:
        client.subscribe("Dog/+")
        row = server.request("GET", "/$SYS/sessions/a/b").json()
        listed = server.request("GET", "/$SYS/sessions/?connected==true").json()
        count = server.request("GET", "/$SYS/sessions/?select(transport,lag)").json()
    assert ("a/b", "tcp", "mqtt", 5) == tuple(
        row[name] for name in ("client_id", "transport", "door", "version")
    )
    assert ["Dog/+"] == [item["filter"] for item in row["subscriptions"]]
    assert ["a/b"] == [item["client_id"] for item in listed]
    assert [{"transport": "tcp", "lag": 0}] == count
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
