"""The same mark gives the same answer on every door of the real program (M8, B17, P4)."""

import json

import pytest

from serving import Server
from talking import Mqtt, open_websocket, user_properties

MARK = "meter-7:1:1041"
KEY = {"idempotency-key": '"8e03978e"'}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("once")) as running:
        yield running


def test_a_repeat_on_another_door_gets_the_first_one_s_receipt(server):
    """P4: also after a kill."""
    body = {"n": 1}
    first = server.request("PUT", "/Counter/a", json=body, headers={"rowcast-producer": MARK})
    server.kill()
    server.start()
    again = server.request("PUT", "/Counter/a", json=body, headers={"rowcast-producer": MARK})
    for name in ("etag", "rowcast-version", "rowcast-position", "location"):
        assert first.headers[name] == again.headers[name]
    assert (201, 201, "1") == (
        first.status_code,
        again.status_code,
        again.headers["rowcast-repeat"],
    )
    with Mqtt(server.mqtt_port) as client:
        pairs = (("rowcast-producer", MARK),)
        answer = client.publish("Counter/a", b'{"n":1}', properties={"user_property": pairs})
    assert first.headers["rowcast-position"] == user_properties(answer)["seq"]
    with open_websocket(server, "/") as socket:
        command = {"id": 1, "op": "put", "topic": "Counter/a", "value": body, "producer": MARK}
        socket.send(json.dumps(command))
        told = json.loads(socket.recv())
    assert first.headers["rowcast-position"] == told["cursor"]
    assert first.headers["rowcast-version"] == str(told["version"])
    assert (True, True) == (told["created"], told["repeat"])


def test_the_key_of_a_whole_batch_survives_a_kill(server):
    """B17: its one receipt answers for all, and nothing is written again."""
    rows = [{"id": "x", "n": 1}, {"id": "y", "n": 2}]
    headers = {"idempotency-key": "whole", "prefer": "return=minimal"}
    first = server.request("PUT", "/Counter/?atomic=true", json=rows, headers=headers)
    etags = [server.request("GET", f"/Counter/{name}").headers["etag"] for name in "xy"]
    server.kill()
    server.start()
    again = server.request("PUT", "/Counter/?atomic=true", json=rows, headers=headers)
    assert (204, 204) == (first.status_code, again.status_code)
    assert first.headers["rowcast-position"] == again.headers["rowcast-position"]
    assert etags == [server.request("GET", f"/Counter/{name}").headers["etag"] for name in "xy"]


def test_a_key_survives_a_kill(server):
    """B17: one record, and its Location leads to it."""
    first = server.request("POST", "/Counter/", json={"n": 2}, headers=KEY)
    server.kill()
    server.start()
    again = server.request("POST", "/Counter/", json={"n": 2}, headers=KEY)
    assert (201, 201) == (first.status_code, again.status_code)
    assert first.headers["location"] == again.headers["location"]
    assert first.content == again.content
    assert {"n": 2} == {"n": server.request("GET", again.headers["location"]).json()["n"]}
    other = server.request("POST", "/Counter/", json={"n": 3}, headers=KEY)
    assert 422 == other.status_code
