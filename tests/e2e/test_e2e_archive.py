"""What was trimmed, by every door of the real program, over kills (M2)."""

import json
import re
import subprocess
import sys
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest

from serving import PATIENCE_SECONDS, Server, environment, rowcast, wait_until
from talking import Events, Mqtt, open_websocket, told, user_properties

SCHEMA = """
type Counter @table @export { id: ID @primaryKey n: Long! }
type Unused @table @export { id: ID @primaryKey }
"""
SETTINGS = {
    "log.archive": "true",
    "history.keep_events": 4,
    "history.keep_seconds": 0,
    "history.sweep_seconds": 0.1,
}
COUNT = 40
STREAM = "/$streams/chat/1"
JSON = {"content-type": "application/json"}


def files(server):
    """Return the archived files, with the part and the range of each."""
    found = (server.folder / "data" / "archive").rglob("*.parquet")
    ranges = ((path.parent.name, *map(int, path.stem.split("-"))) for path in found)
    return sorted((number, after, last) for number, after, last in ranges)


def is_archived(server, after, parts=1):
    """Whether so many parts were archived beyond a number."""
    rows = server.request("GET", "/$SYS/archive/").json()
    assert not [row["error"] for row in rows if row["error"]]
    return sum((row["last"] or 0) > after for row in rows) >= parts


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server most of whose events are archived, killed and started again."""
    folder = tmp_path_factory.mktemp("archive")
    with Server(folder, SCHEMA, settings=SETTINGS) as running:
        running.request("PUT", STREAM, headers=JSON).raise_for_status()
        with Mqtt(running.mqtt_port) as client:
            for number in range(COUNT):
                client.publish("Counter/a", json.dumps({"n": number}).encode())
                client.publish("home/temp", str(number).encode(), retain=False)
                said = json.dumps({"n": number})
                running.request("POST", STREAM, content=said, headers=JSON).raise_for_status()
        wait_until(lambda: is_archived(running, 3 * COUNT - 20, 3), "nearly all is archived")
        running.kill()
        running.start()
        yield running


@pytest.fixture(scope="module")
def past(server):
    """What REST tells of each event of the record: cursor and number."""
    answer = server.request("GET", "/Counter/a?from=0")
    answer.raise_for_status()
    assert "rowcast-trimmed" not in answer.headers
    found = [(f"{row['_origin']}:{row['_seq']}", row["value"]["n"]) for row in answer.json()]
    assert [*range(COUNT)] == [number for _, number in found]
    return found


def test_m2_events_are_in_files_that_continue_one_another(server, past):
    ranges = files(server)
    assert all(a[0] != b[0] or a[2] == b[1] for a, b in pairwise(ranges)), ranges
    assert {mode.stat().st_mode & 0o77 for mode in (server.folder / "data").rglob("*")} == {0}


def test_m2_a_cursor_goes_on_by_every_door(server, past):
    """M2, M1: no reset, no gap and no repeat from the files to the log to what is live."""
    with Events(server, "/Counter/", since=past[2][0]) as sse:
        assert past[3:] == [(x.id, x.value["n"]) for x in (sse.next() for _ in past[3:])]
        with open_websocket(server, f"/Counter/?since={past[5][0]}") as socket:
            heard = [told(socket).fields for _ in past[6:]]
            assert past[6:] == [(x["cursor"], x["value"]["n"]) for x in heard]
            with Mqtt(server.mqtt_port) as client:
                words = {"user_property": (("since", past[9][0]),)}
                client.subscribe("Counter/+", properties=words)
                packets = [client.message() for _ in past[10:]]
                assert past[10:] == [
                    (user_properties(x)["seq"], json.loads(x.payload)["n"]) for x in packets
                ]
                server.request("PUT", "/Counter/b", json={"n": -1}).raise_for_status()
                assert -1 == sse.next().value["n"]
                assert -1 == told(socket).value["n"]
                assert -1 == json.loads(client.message().payload)["n"]


def test_m2_undeclared_topics_are_read_from_the_first_on(server):
    values = [row["value"] for row in server.request("GET", "/home/temp?from=0").json()]
    assert [*range(COUNT)] == values
    last = server.request("GET", f"/home/temp?last={COUNT - 1}").json()
    assert [*range(1, COUNT)] == [row["value"] for row in last]
    rows = server.request("GET", f"/mqtt_home/?limit({COUNT * 2})").json()
    assert COUNT == len(rows)
    assert {"count": COUNT} == server.request("GET", "/mqtt_home/?count").json()


def test_m2_a_record_is_as_it_was(server, past):
    for cursor, number in past[:: COUNT // 8]:
        assert {"id": "a", "n": number} == server.request("GET", f"/Counter/a?asof={cursor}").json()
        listed = server.request("GET", f"/Counter/?asof={cursor}").json()
        assert [{"id": "a", "n": number}] == listed


def test_m2_a_replay_begins_in_the_files(server, past):
    with Mqtt(server.mqtt_port) as client:
        prefix = f"$replay/{past[3][0]},{past[-1][0]},0/"
        client.subscribe(f"{prefix}Counter/+")
        packets = [client.message() for _ in range(len(past) - 4 + 3)]
    heard = [json.loads(x.payload)["n"] for x in packets[2:-1]]
    assert [*range(4, COUNT)] == heard
    assert f"{prefix}$end" == packets[-1].topic


def test_m2_a_durable_stream_is_whole(server):
    assert [{"n": n} for n in range(COUNT)] == server.request("GET", STREAM).json()


def test_m2_the_setting_is_refused_where_it_cannot_work(tmp_path):
    """A node of a cluster has no archive of its own, and says so."""
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    words = ["--set=log.archive=true", "--set=cluster.name=x", "--set=cluster.node=a"]
    words += ["--set=cluster.peers=a=127.0.0.1:6222", "--set=cluster.secret=" + "s" * 16]
    done = rowcast("serve", *words, "--data", tmp_path / "data", folder=tmp_path)
    assert done.returncode != 0
    assert (
        "the archive of a cluster is not on the disk of one node; set log.archive_location"
        in done.stderr
    )


def test_m2_workers_read_the_files_that_the_server_writes(tmp_path):
    """M2, K1: also those that are written while a reader is at a worker."""
    settings = SETTINGS | {"workers.count": 1, "workers.http_port": 0}
    with Server(tmp_path, SCHEMA, tmp_path / "none", settings) as server:
        port = int(re.search(r"  1 workers? +http://[\d.]+:(\d+)/", server.log)[1])
        worker = SimpleNamespace(http_port=port)
        with server.client() as http:
            first = http.put("/Counter/a", json={"n": 0}).headers["rowcast-position"]
            with Events(worker, "/Counter/", since=first) as stream:
                for turn in range(1, 4):
                    for number in range(turn * 10, turn * 10 + 10):
                        http.put("/Counter/a", json={"n": number}).raise_for_status()
                    wait_until(partial(is_archived, server, 10 * turn), "older ones are in files")
                    url = f"http://127.0.0.1:{port}/Counter/a?from={first}"
                    found = [row["value"]["n"] for row in http.get(url).json()]
                    assert [*range(10, turn * 10 + 10)] == found
                heard = [stream.next().value["n"] for _ in range(30)]
            assert [*range(10, 40)] == heard
            with Events(worker, "/Counter/", since=first) as late:
                assert heard == [late.next().value["n"] for _ in range(30)]


def test_m2_without_the_library_the_setting_is_refused_with_a_remedy(tmp_path):
    hidden = "import sys; from importlib import util; find = util.find_spec\n"
    hidden += "util.find_spec = lambda name, *x: None if name == 'pyarrow' else find(name, *x)\n"
    hidden += "from rowcast.program.cli import main; main()\n"
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    words = ["serve", "--set=log.archive=true", "--set=http.port=0", "--set=mqtt.network.port=0"]
    words += ["--data", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-c", hidden, *words],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode != 0
    assert "log.archive: true writes Parquet, which needs pyarrow" in done.stderr
    assert "pip install 'rowcast[parquet]'" in done.stderr
