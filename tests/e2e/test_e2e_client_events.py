"""What happened to clients, by every door of the real program (O6)."""

import json

import pytest

from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file."""
    with Server(tmp_path_factory.mktemp("events")) as running:
        yield running


def past(server, name, **facts):
    """Return what happened, oldest first, with those facts."""
    rows = server.request("GET", f"/$SYS/events/{name}?last=100").json()
    values = [row["value"] for row in rows]
    return [value for value in values if facts.items() <= value.items()]


def test_a_client_is_seen_from_first_to_last(server):
    with Mqtt(server.mqtt_port, client_id="seen") as client:
        client.subscribe("Dog/+")
        client.subscribe("home/#", 1)
        with Mqtt(server.mqtt_port, client_id="seen"):
            pass
    wait_until(lambda: len(past(server, "seen", event="disconnected")) == 2, "both ends are told")
    found = [(item["event"], item.get("filter"), item.get("code")) for item in past(server, "seen")]
    taken = Reason.SESSION_TAKEN_OVER
    assert [
        ("connected", None, None),
        ("subscribed", "Dog/+", None),
        ("subscribed", "home/#", None),
        ("taken_over", None, None),
        ("disconnected", None, taken),
        ("connected", None, None),
        ("disconnected", None, None),
    ] == found


def test_who_is_refused_is_told_why(server):
    stream = {"accept": "text/event-stream"}
    assert 400 == server.request("GET", "/Dog/?since=nonsense", headers=stream).status_code
    (told,) = wait_until(lambda: past(server, "sse/anonymous", event="refused"), "it is told")
    assert 400 == told["code"]
    assert "nonsense" in told["reason"]
    with Mqtt(server.mqtt_port, client_id="refused") as client:
        client.subscribe("home/#/x")
        (told,) = wait_until(lambda: past(server, "refused", event="refused"), "it is told")
    assert ("home/#/x", Reason.TOPIC_FILTER_INVALID) == (told["filter"], told["code"])


def test_readers_of_streams_are_seen(server):
    with Events(server, "/Dog/") as stream, open_websocket(server, "/home/") as socket:
        assert stream is not None
        socket.send(json.dumps({"id": 1, "op": "ping"}))
        wait_until(lambda: past(server, "ws/anonymous", event="connected"), "the socket is told")
        assert "Dog/#" in [
            item["filter"] for item in past(server, "sse/anonymous", event="subscribed")
        ]
    wait_until(lambda: past(server, "sse/anonymous", event="disconnected"), "its end is told")


def test_they_are_watched_live(server):
    with Mqtt(server.mqtt_port, client_id="watcher") as watcher:
        watcher.subscribe("$SYS/events/live")
        with Mqtt(server.mqtt_port, client_id="live"):
            message = watcher.receive()
    assert ("$SYS/events/live", "connected") == (
        message.topic,
        json.loads(message.payload)["event"],
    )


def test_a_kill_shows_and_the_past_is_there_after_it(tmp_path):
    with Server(tmp_path) as server:
        with Mqtt(server.mqtt_port, client_id="before"):
            wait_until(lambda: past(server, "before"), "it is in the log")
            server.kill()
        server.start()
        assert ["connected"] == [item["event"] for item in past(server, "before")]
        assert [False, True] == ["after" in item for item in past(server, "server/process")]
        server.stop()
        server.start()
        kinds = [item["event"] for item in past(server, "server/process")]
    assert ["started", "started", "stopped", "started"] == kinds


def test_they_can_be_switched_off(tmp_path):
    settings = {"client_events.enabled": "false"}
    with Server(tmp_path, settings=settings) as server, Mqtt(server.mqtt_port):
        assert [] == past(server, "")
