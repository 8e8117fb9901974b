"""Three nodes on NATS JetStream: one log, whichever of them dies (K12, K14).

Real processes and real servers of the engine, killed together as a machine that loses its power.
"""

import json
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from clusters import SCHEMA, Cluster, Node
from free_ports import free_port
from postgres_server import PASSWORD, running_postgres
from rowcast.mqtt.packets import MQTT_5
from serving import PATIENCE_SECONDS, Server, rowcast, wait_until
from talking import Events, Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
LONG = {"session_expiry_interval": 3600}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def put(node, name, **fields):
    return node.request("PUT", f"/Dog/{name}", json=fields)


def until_put(node, name, **fields):
    """Write until it is answered; return the answer."""

    def written():
        try:
            answer = put(node, name, **fields)
        except httpx.HTTPError:
            return None
        return answer if answer.is_success else None

    return wait_until(written, "a write is taken")


def until_same(cluster, path="/Dog/"):
    """Wait until all nodes give the same answer; return it."""

    def same():
        try:
            answers = [node.request("GET", path).text for node in cluster.running]
        except httpx.TransportError:  # one is just changing its role
            return None
        return answers[0] if len(set(answers)) == 1 else None

    return wait_until(same, "all nodes have the same")


def test_what_one_node_takes_all_have_in_the_same_order(cluster):
    for index, node in enumerate(cluster.running * 4):
        answer = put(node, f"same-{index}", n=index)
        assert answer.status_code == 201, answer.text
        own = node.request("GET", f"/Dog/same-{index}")
        assert (own.json()["n"], own.headers["etag"]) == (index, answer.headers["etag"])
    until_same(cluster)
    url = f"http://127.0.0.1:{cluster.settle().http_port}"
    rows = [json.loads(line) for line in rowcast("cluster", "status", "--url", url).stdout.split()]
    assert sorted(row["role"] for row in rows) == ["follower", "follower", "sequencer"]
    assert all(row["connected"] for row in rows)
    etags = {node.request("GET", "/Dog/same-3").headers["etag"] for node in cluster.running}
    assert len(etags) == 1


def test_a_condition_holds_against_other_nodes(cluster):
    """Of writers at three nodes that each count up, none overwrites another."""
    put(cluster.running[0], "count", n=0)
    done = 0
    for node in cluster.running * 5:
        for _ in range(50):
            record = node.request("GET", "/Dog/count")
            answer = node.request(
                "PUT",
                "/Dog/count",
                json={"n": record.json()["n"] + 1},
                headers={"If-Match": record.headers["etag"]},
            )
            if answer.is_success:
                done += 1
                break
            assert answer.status_code == 412, answer.text
    assert done == 15
    wait_until(
        lambda: {node.request("GET", "/Dog/count").json()["n"] for node in cluster.running} == {15},
        "all nodes have counted",
    )


def test_mqtt_where_writes_are_numbered_and_streams_everywhere_are_one_bus(cluster):
    sequencer = cluster.settle()
    follower = cluster.followers[0]
    with Mqtt(sequencer.mqtt_port, MQTT_5) as client, Events(follower, "/Dog/?start=new") as stream:
        client.subscribe("Dog/#", qos=1, retain_handling=2)
        stream.until_current()
        client.publish("Dog/mqtt", b'{"name":"Rex"}', qos=1, retain=True)
        assert stream.next().fields["topic"] == "Dog/mqtt"
        assert client.message().topic == "Dog/mqtt"
        assert put(follower, "http", n=1).status_code == 201
        assert stream.next().fields["topic"] == "Dog/http"
        assert client.message().topic == "Dog/http"
    refused = rowcast("pub", "Dog/x", "{}", "--url", f"http://127.0.0.1:{follower.http_port}")
    assert refused.returncode == 0, refused.stderr


def test_the_node_that_numbers_dies_and_nothing_is_lost(cluster):
    """K12, K14: kill -9 with its engine; another one goes on, sessions too, and it comes back."""
    sequencer = cluster.settle()
    with Mqtt(sequencer.mqtt_port, MQTT_5, "sleeper", LONG, clean_start=False) as client:
        client.subscribe("Note/#", qos=2)
    acknowledged = {}
    for index in range(20):
        node = cluster.running[index % 3]
        acknowledged[f"lost-{index}"] = put(node, f"lost-{index}", n=index).headers["etag"]
    note = cluster.followers[0].request("PUT", "/Note/1", json={"text": "while it slept"})
    assert note.status_code == 201
    cursor = acknowledged["lost-5"].strip('"')
    sequencer.kill()
    other = cluster.running[0]
    acknowledged["after"] = until_put(other, "after", n=99).headers["etag"]
    new = cluster.settle()
    assert new is not sequencer
    for node in cluster.running:
        for name, etag in acknowledged.items():
            assert node.request("GET", f"/Dog/{name}").headers["etag"] == etag
        with Events(node, "/Dog/", cursor) as stream:  # a cursor of the dead node goes on here
            topics = [stream.next().fields["topic"] for _ in range(15)]
        assert topics == [f"Dog/lost-{index}" for index in range(6, 20)] + ["Dog/after"]
    with Mqtt(new.mqtt_port, MQTT_5, "sleeper", LONG, clean_start=False) as client:
        assert client.connack.session_present
        assert client.message().topic == "Note/1"
    sequencer.launch()
    cluster.settle()
    until_same(cluster)
    assert new.numbers


def test_a_node_that_is_paused_is_replaced_and_finds_out(cluster):
    """What it takes after it was replaced is refused: there is no second history."""
    sequencer = cluster.settle()
    put(sequencer, "before", n=1)
    sequencer.running.send_signal(signal.SIGSTOP)
    try:
        other = cluster.running[0] if cluster.running[0] is not sequencer else cluster.running[1]
        until_put(other, "meanwhile", n=2)
    finally:
        sequencer.running.send_signal(signal.SIGCONT)
    assert cluster.settle() is not sequencer
    assert "is no longer the sequencer" in sequencer.log or "follows" in sequencer.log
    until_same(cluster)
    assert put(sequencer, "again", n=3).status_code == 201


def test_a_minority_reads_and_refuses_writes(cluster):
    sequencer = cluster.settle()
    put(sequencer, "minority", n=1)
    until_same(cluster)
    left = cluster.followers[0]
    others = [node for node in cluster.running if node is not left]
    for node in others:
        node.kill()
    refused = wait_until(
        lambda: (answer := put(left, "minority", n=2)).status_code == 503 and answer, "refused"
    )
    assert "cannot reach the sequencer" in refused.text
    assert left.request("GET", "/Dog/minority").json()["n"] == 1
    assert left.request("GET", "/health/ready").status_code == 503
    for node in others:
        node.launch()
    cluster.settle()
    assert until_put(left, "minority", n=3).is_success
    until_same(cluster)


def test_all_nodes_stop_and_go_on(cluster):
    put(cluster.settle(), "kept", n=1)
    for node in cluster.running:
        assert node.stop() == 0, node.log
    for node in cluster.nodes.values():
        node.launch()
    cluster.settle()
    assert '"kept"' in until_same(cluster)


def test_the_log_in_postgresql_survives_the_node_that_numbers(tmp_path):
    """K13: the same with a table as the log, and the database restarted."""
    with (
        running_postgres() as database,
        Cluster(tmp_path, **{"cluster.engine": database.url}) as cluster,
    ):
        sequencer = cluster.settle()
        etags = {f"p{n}": put(node, f"p{n}", n=n).headers["etag"]
                 for n, node in enumerate(cluster.running * 3)}  # fmt: skip
        sequencer.kill()
        etags["after"] = until_put(cluster.running[0], "after", n=1).headers["etag"]
        database.start("restart", "-m", "immediate")
        etags["later"] = until_put(cluster.running[1], "later", n=1).headers["etag"]
        sequencer.launch()
        cluster.settle()
        until_same(cluster)
        for node in cluster.running:
            for name, etag in etags.items():
                assert node.request("GET", f"/Dog/{name}").headers["etag"] == etag
            assert PASSWORD not in node.log


def test_a_full_disk_of_the_database_is_named_by_a_node(tmp_path):
    """K12."""
    with (
        running_postgres() as database,
        Cluster(tmp_path, **{"cluster.engine": database.url}) as cluster,
    ):
        cluster.settle()

        def named():
            told = [node.request("GET", "/health/ready").text for node in cluster.running]
            return [text for text in told if "the disk of the log's database is full" in text]

        with database.full_disk("test"):
            wait_until(named, "the health of a node says so")
        until_put(cluster.running[0], "after", n=1)
        wait_until(lambda: not named(), "none says so any more")


def test_a_node_that_lost_its_disk_gets_a_copy_of_another(tmp_path):
    """A log that does not go back to its beginning: a server with records has begun it."""
    with Server(tmp_path, SCHEMA) as alone:
        old = put(alone, "old", n=1).headers["etag"]
        for n in range(50):
            alone.request("PUT", f"/Dog/many-{n}", json={"name": "x" * 50_000})
        alone.stop()
    with running_postgres() as database:
        cluster = Cluster(tmp_path, **{"cluster.engine": database.url})
        shutil.copytree(tmp_path / "data", cluster.nodes["a"].folder / "data")
        with cluster:
            for node in cluster.running:
                assert node.request("GET", "/Dog/old").headers["etag"] == old
            node = cluster.followers[0]
            node.kill()
            put(cluster.settle(), "since", n=2)
            (node.folder / "data").rename(tmp_path / "gone")
            node.launch()
            cluster.settle()
            assert '"since"' in until_same(cluster)
            assert "has no tables; it gets a copy of the tables of another node" in node.log
            assert put(node, "own", n=3).status_code == 201


def test_a_backup_of_another_node_goes_on_in_the_same_log(tmp_path):
    with (
        running_postgres() as database,
        Cluster(tmp_path, **{"cluster.engine": database.url}) as cluster,
    ):
        put(cluster.settle(), "old", n=1)
        node, other = cluster.followers[0], cluster.settle()
        until_same(cluster)
        node.stop()
        backup, data = tmp_path / "backup", node.folder / "data"
        made = rowcast("backup", backup, "--data", other.folder / "data")
        assert made.returncode == 0, made.stderr
        put(other, "since", n=2)
        data.rename(tmp_path / "gone")
        assert rowcast("restore", backup, "--data", data).returncode == 0
        node.launch()
        wait_until(lambda: "move that directory away" in node.log, "it says what to do")
        assert node.stop() == 1
        shutil.rmtree(data)
        assert rowcast("restore", backup, "--data", data, "--same-log").returncode == 0
        node.launch()
        cluster.settle()
        assert '"since"' in until_same(cluster)


def test_one_node_with_a_log_of_its_own_goes_on_in_a_cluster(tmp_path):
    """What a server has written before is in the cluster, under the same cursors."""
    port = free_port()
    node = Node(tmp_path / "a", "a", [f"a=127.0.0.1:{port}"], **{"cluster.secret": "s" * 16})
    settings = dict(node.settings)
    node.settings = {k: v for k, v in settings.items() if not k.startswith("cluster.")}
    with node:
        etag = put(node, "old", n=1).headers["etag"]
        node.stop()
        node.settings |= settings | {
            name: node.settings[name] for name in ("http.port", "mqtt.network.port")
        }
        node.launch()
        wait_until(lambda: node.numbers, "it numbers")
        assert node.request("GET", "/Dog/old").headers["etag"] == etag
        new = put(node, "new", n=2).headers["etag"]
        assert new.split(":")[0] == etag.split(":")[0]
        node.stop()
        (tmp_path / "b").mkdir()
        alone, data = Server(tmp_path / "b", SCHEMA), node.folder / "data"
        shutil.copytree(data, alone.folder / "data")
        alone.launch()  # as a server of its own it would write a second history
        wait_until(lambda: alone.running.poll() is not None, "it is refused")
        assert "those of a node of the cluster test" in alone.log
        shutil.rmtree(alone.folder / "data")
        backup = tmp_path / "backup"
        for words in (["backup", backup, "--data", data], ["restore", backup]):
            done = rowcast(*words, *(["--data", alone.folder / "data"] * (words[0] == "restore")))
            assert done.returncode == 0, done.stderr
        with alone:
            assert alone.request("GET", "/Dog/new").json()["n"] == 2


def test_a_node_that_is_behind_a_cursor_does_not_begin_anew(cluster):
    """A reader would be taken back: what this node has is older than what it has read."""
    sequencer, follower = cluster.settle(), cluster.followers[0]
    epoch, _, number = put(sequencer, "ahead", n=1).headers["etag"].strip('"').partition(":")
    ahead = f"{epoch}:{int(number) + 10**7}"
    for path in (f"/Dog/?since={ahead}", f"/Dog/?asof={ahead}"):
        stream = {"Accept": "text/event-stream"} if "since" in path else {}
        answer = follower.request("GET", path, headers=stream)
        assert answer.status_code == 503, answer.text
        assert "not yet up to the cursor's" in answer.json()["detail"]
    with Events(sequencer, "/Dog/", ahead) as stream:
        assert next(iter(stream)).kind == "reset", "this one knows that there is no such cursor"


def test_verify_finds_a_record_that_differs(tmp_path):
    """Two copies of one log that went on apart: what must never be in a cluster."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    first, other = Server(tmp_path / "one", SCHEMA), Server(tmp_path / "other", SCHEMA)
    with first, other:
        for n in range(30):
            put(first, f"d{n:02}", n=n)
        other.stop()
        shutil.rmtree(other.folder / "data")
        backup = tmp_path / "backup"
        rowcast("backup", backup, "--data", first.folder / "data")
        restored = rowcast("restore", backup, "--data", other.folder / "data", "--same-log")
        assert restored.returncode == 0, restored.stderr
        other.start()
        same = rowcast("cluster", "verify", first.url, other.url)
        assert same.returncode == 0, same.stdout + same.stderr
        assert "Dog  30 records  " in same.stdout
        put(first, "d17", n=1000)
        put(other, "d17", n=2000)
        found = rowcast("cluster", "verify", first.url, other.url, "--table=Note", "--table=Dog")
        assert found.returncode == 1, found.stdout
        assert "Note  0 records" in found.stdout
        assert "Dog  DIFFERS after 17 equal records" in found.stdout
        assert '"n":1000' in found.stdout
        assert '"n":17' in found.stdout, "the other one was restored: its positions are later"
        refused = rowcast("cluster", "verify", first.url)
        assert (refused.returncode, "two nodes or more" in refused.stderr) == (1, True)


def test_verify_compares_nodes_while_they_are_written_to(cluster):
    nodes = cluster.running
    with ThreadPoolExecutor(1) as writing:
        done = threading.Event()

        def write():
            n = 0
            while not done.wait(0.01):
                put(nodes[n % len(nodes)], f"busy-{n % 40}", n=n)
                n += 1

        written = writing.submit(write)
        try:
            for _ in range(3):
                same = rowcast("cluster", "verify", *(node.url for node in nodes))
                assert same.returncode == 0, same.stdout + same.stderr
                assert "Dog  " in same.stdout
        finally:
            done.set()
        written.result()


SECRET = ["--set", "cluster.secret=0123456789abcdef"]
LOOPBACK = ["--cluster", "c", "--node", "a", "--peer", "a=127.0.0.1:6222"]


def test_a_check_of_the_settings_checks_those_of_the_node(tmp_path):
    (tmp_path / "schema.graphql").write_text("type Dog @table { id: ID @primaryKey }")
    ended = rowcast("serve", "--check-config", *LOOPBACK, folder=tmp_path)
    assert (ended.returncode, "openssl rand" in ended.stderr) == (1, True), ended.stderr
    assert rowcast("serve", "--check-config", *LOOPBACK, *SECRET, folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--node", "a"], "give the cluster one: --cluster"),
        (["--cluster", "c", "--node", "a", "--peer", "a=127.0.0.1"], "write NAME=HOST:PORT"),
        (["--cluster", "c", "--node", "b", "--peer", "a=127.0.0.1:6222"], "none of the peers"),
        ([*LOOPBACK, "--peer=b=127.0.0.1:6224", *SECRET], "1, 3 or 5 peers"),
        ([*LOOPBACK, *SECRET, "--set", "cluster.tls.privateKey=x"], "give certificate, privateKey"),
        (LOOPBACK, "openssl rand"),
        ([*LOOPBACK[:4], "--peer", "a=10.0.0.1:6222", *SECRET], "nodes would speak in the clear"),
        ([*LOOPBACK, "--workers", "2", *SECRET], "leave --workers out"),
        ([*LOOPBACK, *SECRET, "--set", "cluster.engine=kafka"], "or the address of a database"),
        ([*LOOPBACK, *SECRET, "--set", "cluster.nats=nats://u:p0123456789@h"], "nats_monitors"),
        ([*LOOPBACK, *SECRET, "--set", "cluster.nats=kafka://u:p0123456789@h"], "nats://host:4222"),
        ([*LOOPBACK, *SECRET, "--set", "cluster.nats_monitors=h"], "host:8222"),
    ],
    ids=[
        "no name",
        "no port",
        "another node",
        "two",
        "half of tls",
        "no secret",
        "clear",
        "workers",
        "engine",
        "no monitors",
        "no nats",
        "no monitor",
    ],
)
def test_what_makes_no_node_is_told(tmp_path, options, words):
    (tmp_path / "schema.graphql").write_text("type Dog @table { id: ID @primaryKey }")
    ended = rowcast("serve", "--data", tmp_path / "data", *options, folder=tmp_path)
    assert ended.returncode == 1
    assert words in ended.stderr, ended.stderr
    assert "0123456789" not in ended.stderr
    assert "Traceback" not in ended.stderr
