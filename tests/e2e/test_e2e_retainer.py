"""The retainer's settings in the real program, on every door (E12, E17 to E20, X17)."""

import json

import pytest

from rowcast.mqtt.reasons import Reason
from serving import Server
from talking import Mqtt, open_websocket

SETTINGS = {
    "retainer.enable": "true",
    "retainer.max_payload_size": "10",
    "retainer.max_retained_messages": 3,
    "retainer.msg_expiry_interval": "1h",
    "retainer.msg_expiry_interval_override": "30m",
    "retainer.msg_clear_interval": "50ms",
    "retainer.batch_read_number": 2,
    "retainer.stop_publish_clear_msg": "true",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file, in which each of them begins with nothing."""
    with Server(tmp_path_factory.mktemp("retainer"), settings=SETTINGS) as running:
        yield running


def put(server, topic, content=b"x"):
    return server.request("PUT", f"/{topic}", content=content)


@pytest.fixture(autouse=True)
def empty(server):
    """Begin with no retained message."""
    server.request("POST", "/$SYS/retained/", json={"clear": "#"}).raise_for_status()


def test_x17_the_former_name_is_told_once(server):
    assert 1 == server.log.count("retainer.enable is now retainer.enabled")


def test_e18_what_is_refused_is_told_on_every_door(server):
    """Nothing is taken and then not kept."""
    answer = put(server, "a/1", b"x" * 11)
    assert (413, True) == (answer.status_code, "retainer.max_payload_size" in answer.text)
    with open_websocket(server, "/") as socket:
        socket.send(json.dumps({"id": 1, "op": "put", "topic": "a/1", "value": "x" * 11}))
        told = json.loads(socket.recv())
    assert "too_large" in json.dumps(told)
    with Mqtt(server.mqtt_port) as client:
        answer = client.publish("a/1", b"x" * 11)
    assert (Reason.QUOTA_EXCEEDED, True) == (
        answer.reason, "retainer.max_payload_size" in answer.properties["reason_string"],
    )  # fmt: skip
    assert 404 == server.request("GET", "/a/1").status_code


def test_e18_there_is_room_for_so_many_and_no_more(server):
    """What the server keeps under $SYS takes none of it."""
    assert [201, 201, 201, 413, 204] == [
        put(server, f"a/{n}").status_code for n in (1, 2, 3, 4, 3)
    ]  # fmt: skip
    assert 204 == server.request("DELETE", "/a/1").status_code
    assert 201 == put(server, "a/4").status_code


def test_e17_a_message_ends_at_the_sooner_of_both(server):
    put(server, "a/1")
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("a/+")
        left = client.message().properties["message_expiry_interval"]
    assert 1_700 < left <= 1_800


def test_e20_clearing_is_not_heard_of(server):
    put(server, "a/1")
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("a/+")
        assert b"x" == client.message().payload
        server.request("DELETE", "/a/1").raise_for_status()
        put(server, "a/2", b"y")
        assert ("a/2", b"y") == (client.message().topic, b"y")


def test_a_retainer_that_is_off_says_so(tmp_path):
    """E12: by the backend's name too."""
    with Server(tmp_path, settings={"retainer.backends.built_in_database": "off"}) as server:
        answer = put(server, "a/1")
        assert (405, True) == (answer.status_code, "retainer.enabled" in answer.text)
        assert 201 == server.request("PUT", "/Dog/1", json={"name": "a"}).status_code
        assert [] == server.request("GET", "/$SYS/retained/").json()
