"""Durable streams on the real program: kills, retries, and subscribers of MQTT (V7)."""

import json

import pytest

from serving import Server, rowcast
from talking import Mqtt

JSON = {"content-type": "application/json"}
CHAT = "/$streams/chat/1"


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as running:
        yield running


def numbered(number, epoch=0):
    return JSON | {
        "producer-id": "meter 7",
        "producer-epoch": str(epoch),
        "producer-seq": str(number),
    }


def post(server, value, headers=JSON):
    return server.request("POST", CHAT, content=json.dumps(value), headers=headers)


def test_v7_a_retry_after_a_kill_appends_nothing_twice(server):
    """V7."""
    assert 201 == server.request("PUT", CHAT, headers=JSON).status_code
    for number in range(6):
        first = post(server, [{"n": number}, {"half": number}], numbered(number))
        assert 200 == first.status_code
        server.kill()  # the answer may have been lost
        server.start()
        again = post(server, [{"n": number}, {"half": number}], numbered(number))
        assert (204, str(number)) == (again.status_code, again.headers["producer-seq"])
        assert first.headers["stream-next-offset"] == again.headers["stream-next-offset"]
    read = server.request("GET", CHAT)
    assert [x for n in range(6) for x in ({"n": n}, {"half": n})] == read.json()
    assert 200 == post(server, 1, numbered(0, epoch=1)).status_code
    late = post(server, 1, numbered(6))
    assert (403, "1") == (late.status_code, late.headers["producer-epoch"])
    gap = post(server, 1, numbered(9, epoch=1))
    assert (409, "1") == (gap.status_code, gap.headers["producer-expected-seq"])


def test_v7_all_of_a_stream_survives_a_kill(server):
    """V7."""
    made = JSON | {"stream-ttl": "3600"}
    server.request("PUT", CHAT, headers=made)
    post(server, {"n": 1}, JSON | {"stream-seq": "b"})
    fork = {"stream-forked-from": "/chat/1"}
    assert 201 == server.request("PUT", "/$streams/chat/2", headers=fork).status_code
    post(server, {"n": 2}, JSON | {"stream-seq": "c", "stream-closed": "true"})
    before = server.request("HEAD", CHAT).headers
    server.kill()
    server.start()
    after = server.request("HEAD", CHAT).headers
    names = ("stream-next-offset", "stream-closed", "stream-ttl", "content-type")
    assert [before[name] for name in names] == [after[name] for name in names]
    assert [{"n": 1}, {"n": 2}] == server.request("GET", CHAT).json()
    assert [{"n": 1}] == server.request("GET", "/$streams/chat/2").json()
    refused = post(server, {"n": 3})
    assert (409, "application/problem+json") == (
        refused.status_code,
        refused.headers["content-type"],
    )
    assert "is closed" in refused.json()["detail"]
    assert 204 == server.request("DELETE", CHAT).status_code
    server.kill()
    server.start()
    assert 410 == server.request("GET", CHAT).status_code
    assert [{"n": 1}] == server.request("GET", "/$streams/chat/2").json()


def test_v7_subscribers_of_mqtt_see_what_is_appended(server):
    """V7: and what they publish there is no part of the stream."""
    server.request("PUT", CHAT, headers=JSON)
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("chat/#")
        post(server, [{"n": 1}, {"n": 2}])
        heard = [client.message() for _ in range(2)]
        assert [b'{"n": 1}', b'{"n": 2}'] == [message.payload for message in heard]
        client.publish("chat/1", b"from elsewhere")
        assert b"from elsewhere" == client.message().payload
    post(server, {"n": 3})
    assert [{"n": 1}, {"n": 2}, {"n": 3}] == server.request("GET", CHAT).json()


def test_v7_a_table_is_read_as_a_stream(server):
    """V7."""
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    first = server.request("GET", "/$streams/Dog/+?offset=-1")
    assert [("Dog/1", "Rex")] == [(x["topic"], x["value"]["name"]) for x in first.json()]
    offset = first.headers["stream-next-offset"]
    server.request("PUT", "/Dog/2", json={"name": "Ash"})
    url = f"/$streams/Dog/+?offset={offset}&live=long-poll"
    assert ["Dog/2"] == [x["topic"] for x in server.request("GET", url).json()]
    assert 405 == server.request("PUT", "/$streams/Dog/3", headers=JSON).status_code


def test_v7_streams_are_restored_to_a_point(server, tmp_path):
    """O12: without what was appended after it, of which a repeat is no repeat."""
    assert 201 == server.request("PUT", CHAT, headers=JSON).status_code
    assert 200 == post(server, {"n": 0}, numbered(0)).status_code
    then = server.request("GET", "/health").json()["head"]
    closing = {"stream-closed": "true", "stream-seq": "b"}
    assert 200 == post(server, {"n": 1}, numbered(1) | closing).status_code
    later = "/$streams/chat/2"
    server.request("PUT", later, headers=JSON).raise_for_status()
    many = json.dumps(list(range(2_000)))
    server.request("POST", later, content=many, headers=JSON).raise_for_status()
    server.request("PUT", "/$streams/chat/3", headers=JSON).raise_for_status()
    kept, folder = tmp_path / "kept", tmp_path / "again"
    options = ("--data", tmp_path / "data", "--schema", server.schema_file)
    assert 0 == rowcast("backup", kept, *options).returncode
    folder.mkdir()
    done = rowcast("restore", kept, "--data", folder / "data", "--to", then)
    assert 0 == done.returncode, done.stderr
    with Server(folder) as restored:
        assert [{"n": 0}] == restored.request("GET", CHAT).json()
        repeat = post(restored, {"n": 1}, numbered(1))
        assert (409, "0") == (repeat.status_code, repeat.headers["producer-expected-seq"])
        assert 200 == post(restored, {"n": 1}, numbered(0, epoch=1)).status_code
        read = restored.request("GET", CHAT)
        assert [{"n": 0}, {"n": 1}] == read.json()
        offset = read.headers["stream-next-offset"]
        assert 200 == restored.request("GET", f"{CHAT}?offset={offset}").status_code
        for path in (later, "/$streams/chat/3"):
            assert 404 == restored.request("GET", path).status_code
            assert 201 == restored.request("PUT", path, headers=JSON).status_code
            restored.request("POST", path, content="7", headers=JSON).raise_for_status()
            assert [7] == restored.request("GET", path).json()
