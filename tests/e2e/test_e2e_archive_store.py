"""The archive of the real program in an object store, which goes and comes again (M2, O12)."""

import json
import shutil
import sqlite3
import uuid
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from object_store import BUCKET, SECRET, object_store
from rowcast.store.sql_tables import TABLES
from serving import Server, rowcast, wait_until
from talking import Events, Mqtt

SCHEMA = "type Counter @table @export { id: ID @primaryKey n: Long! }"
COUNT = 30


@pytest.fixture
def settings(monkeypatch):
    """The settings of a server, while a store is there; ``store`` starts one there again."""
    place = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    return {
        "log.archive": "true",
        "log.archive_location": place,
        "history.keep_events": 4,
        "history.keep_seconds": 0,
        "history.sweep_seconds": 0.1,
    }


def use(variables, monkeypatch):
    """Let commands find a store; return its port."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return urlsplit(variables["AWS_ENDPOINT_URL"]).port


def write(server, numbers):
    with Mqtt(server.mqtt_port) as client:
        for number in numbers:
            client.publish("Counter/a", json.dumps({"n": number}).encode())
    wait_until(lambda: last(server)[-1][1] == numbers[-1], "all is written")


def last(server, count=5):
    answer = server.request("GET", f"/Counter/a?last={count}")
    answer.raise_for_status()
    return [(row["_seq"], row["value"]["n"]) for row in answer.json()] or [(0, None)]


def rows(server):
    return server.request("GET", "/$SYS/archive/").json()


def archived(server):
    """Wait until all but the last four are archived."""
    oldest = last(server)[0][0]
    wait_until(lambda: any((x["last"] or 0) >= oldest for x in rows(server)), "they are archived")


def trimmed(folder):
    """Return the number up to which the log of the table is trimmed."""
    database = f"file:{folder / 'data' / 'rowcast.db'}?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as connection:
        query = f"SELECT trimmed FROM {TABLES} WHERE name='Counter'"
        return connection.execute(query).fetchone()[0]


def past(server):
    answer = server.request("GET", "/Counter/a?from=0")
    answer.raise_for_status()
    assert "rowcast-trimmed" not in answer.headers
    return [(row["_seq"], row["value"]["n"]) for row in answer.json()]


def test_m2_a_store_that_is_away_for_a_while(tmp_path, settings, monkeypatch):
    """Nothing is trimmed meanwhile and no reader is told of a trim; then all goes on."""
    with object_store() as variables:
        port = use(variables, monkeypatch)
        with Server(tmp_path, SCHEMA, settings=settings) as server:
            write(server, range(COUNT))
            archived(server)
            assert [*range(COUNT)] == [n for _, n in past(server)]
            assert not (tmp_path / "data" / "archive").exists()
            wait_until(lambda: trimmed(tmp_path), "what is archived leaves the log")
            server.kill()
    shutil.rmtree(tmp_path / "data" / "archive-cache")
    with Server(tmp_path, SCHEMA, settings=settings) as server:
        assert "reads of it are refused until it can be read" in server.log
        write(server, range(COUNT, 2 * COUNT))
        wait_until(lambda: any(x["error"] for x in rows(server)), "the server says what is wrong")
        refused = server.request("GET", "/Counter/a?from=0")
        assert 503 == refused.status_code
        assert "archived events cannot be read for now: s3://" in refused.text
        assert [*range(COUNT, 2 * COUNT)] == [n for _, n in last(server, COUNT)]
        with object_store(port):
            wait_until(lambda: not any(x["error"] for x in rows(server)), "it is well again")
            archived(server)
            found = past(server)
            assert [*range(2 * COUNT)] == [n for _, n in found]
            epoch = server.request("GET", "/health").json()["head"].partition(":")[0]
            with Events(server, "/Counter/", since=f"{epoch}:{found[0][0]}") as events:
                heard = [events.next().value["n"] for _ in range(2 * COUNT - 1)]
            assert [*range(1, 2 * COUNT)] == heard
        assert SECRET not in server.log


def test_o12_m2_a_restore_copies_within_the_store(tmp_path, settings, monkeypatch):
    """What the first server archives afterwards, under the same numbers, is not in the copy."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with object_store() as variables:
        use(variables, monkeypatch)
        words = [f"--set={name}={value}" for name, value in settings.items()]
        with Server(first, SCHEMA, settings=settings) as server:
            write(server, range(COUNT))
            archived(server)
            told = past(server)
            options = ("--data", first / "data", "--schema", server.schema_file)
            done = rowcast("backup", tmp_path / "kept", *options, *words)
            assert 0 == done.returncode, done.stderr
            write(server, range(100, 100 + COUNT))
            archived(server)
            done = rowcast("restore", tmp_path / "kept", "--data", second / "data", *words)
            assert 0 == done.returncode, done.stderr
            assert "archived files" in done.stderr
        with Server(second, SCHEMA, settings=settings) as server:
            assert told == past(server)
            write(server, range(200, 200 + COUNT))
            archived(server)
            assert [*range(COUNT), *range(200, 200 + COUNT)] == [n for _, n in past(server)]


def test_m2_an_archive_on_this_disk_is_not_left_behind(tmp_path, settings, monkeypatch):
    """A place in a store for a log that has files here is refused, with what to copy where."""
    place = settings.pop("log.archive_location")
    with Server(tmp_path, SCHEMA, settings=settings) as server:
        write(server, range(COUNT))
        archived(server)
    words = [f"--set={name}={value}" for name, value in settings.items()]
    words += [f"--set=log.archive_location={place}", "--data", tmp_path / "data"]
    done = rowcast("serve", *words, folder=tmp_path)
    assert done.returncode != 0
    assert f"log.archive_location is {place}, and " in done.stderr
    assert "has archived events; copy them to" in done.stderr
