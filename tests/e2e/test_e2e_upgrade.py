"""Data of older versions, opened by this one (O13).

Each file in ``tests/store/fixtures`` is the database of a server of that time, as SQL: two declared
tables, topics that nobody declared, and the session of a client that was away when two of the
messages that it wants came. A new format of the store leaves one more here.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcast.mqtt.packets import Disconnect
from rowcast.store.sql_migrate import FORMAT
from serving import Server
from talking import Mqtt

FIXTURES = sorted((Path(__file__).parent.parent / "store" / "fixtures").glob("*.sql"))
SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
  born: Date
  weight: Decimal
}
type Counter @table @export {
  id: Long @primaryKey
  n: Long!
}
"""
DOG = {
    "id": "1",
    "name": "Rex",
    "age": 4,
    "born": "2020-01-02T03:04:05Z",
    "weight": 12.5,
    "extra": [1, None],
}
LASTING = {"session_expiry_interval": 0xFFFFFFFF}
KEPT = {"history.keep_seconds": 0}


@pytest.fixture(params=FIXTURES, ids=lambda file: file.stem)
def upgraded(request, tmp_path):
    """A server on the data of an older one."""
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "rowcast.db")) as database:
        database.executescript(request.param.read_text())
    with Server(tmp_path, SCHEMA, settings=KEPT) as running:
        yield running


def test_nothing_is_lost(upgraded):
    """O13: records, undeclared topics, the past, and what waits for who is away."""
    server = upgraded
    dog = server.request("GET", "/Dog/1")
    assert {**dog.json(), "weight": float(dog.json()["weight"])} == DOG
    assert 404 == server.request("GET", "/Dog/2").status_code
    assert 9007199254740993 == server.request("GET", "/Counter/7").json()["n"]
    assert b"\xff\x00on" == server.request("GET", "/home/lamp").content
    assert b"21.5" == server.request("GET", "/single").content
    past = server.request("GET", "/Dog/?from=0").json()
    assert ["put", "put", "patch", "delete", "put"] == [item["_op"] for item in past]
    assert {"count": 2} == server.request("GET", "/Dog/?count").json()
    with Mqtt(server.mqtt_port, client_id="away", clean_start=False, properties=LASTING) as client:
        assert client.connack is not None
        assert client.connack.session_present
        missed = set()
        while not missed >= {"Dog/3", "home/door"}:  # after what was retained when it subscribed
            missed.add(client.message().topic)
        client.send(Disconnect())
    _goes_on(server)


def _goes_on(server):
    """It is written to, and opens again, under the same name of its log."""
    before = server.request("GET", "/health").json()["head"]
    server.request("PUT", "/Dog/4", json={"name": "New"}).raise_for_status()
    server.request("PUT", "/home/lamp", content=b"off").raise_for_status()
    assert 0 == server.stop()
    server.start()
    after = server.request("GET", "/health").json()["head"]
    assert before.split(":")[0] == after.split(":")[0]
    assert int(after.split(":")[1]) > int(before.split(":")[1])
    assert {"New", "Rex"} <= {dog["name"] for dog in server.request("GET", "/Dog/").json()}
    assert b"off" == server.request("GET", "/home/lamp").content


def test_each_format_has_a_fixture():
    """A new format without data of the one before is an upgrade that nobody has tried."""
    formats = {file.stem.split("-")[1] for file in FIXTURES}
    assert {str(number) for number in range(1, int(FORMAT) + 1)} == formats
