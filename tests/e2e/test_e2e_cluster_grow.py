"""One server becomes three nodes by a restart, and loses nothing (K4, K12, K13, K14).

Its data directory becomes that of node a; b and c begin with empty ones.
"""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_e2e_cluster import put, until_same

from clusters import SCHEMA, Cluster
from postgres_server import running_postgres
from rowcast.mqtt.packets import MQTT_5, Publish, Pubrec
from serving import PATIENCE_SECONDS, Server, rowcast, wait_until
from talking import Events, Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
LONG = {"session_expiry_interval": 3600}
JSON = {"content-type": "application/json"}
STREAM = "/$streams/chat/1"
ROOT = ("root", "secret-root")
NOTES = 20
DOGS = 30
READ = 10
"""After so many dogs a reader stops, whose cursor goes on."""


@dataclass
class Before:
    """What clients of the server have been told, and hold."""

    etags: dict[str, str] = field(default_factory=dict)
    offset: str = ""
    """Of a durable stream, in the middle."""
    half: int = 0
    """The packet identifier of a message of QoS 2 that was received and not released."""

    def write(self, server: Server) -> None:
        """Write, with sessions that are away and a client that dies between two packets."""
        for name in ("sleeper", "other"):
            with Mqtt(server.mqtt_port, MQTT_5, name, LONG, clean_start=False) as client:
                client.subscribe("Note/#", qos=2)
                client.subscribe("plain/#", qos=1)
        with Mqtt(server.mqtt_port, MQTT_5, "sharing", LONG, clean_start=False) as client:
            client.subscribe("$share/group/job/#", qos=1)
        with Mqtt(server.mqtt_port) as client:
            for n in range(NOTES):
                client.publish(f"Note/{n}", f'{{"text":"{n}"}}'.encode(), qos=1)
                client.publish("job/1", str(n).encode(), qos=1, retain=False)
            client.publish("plain/kept", b"retained", qos=1)
        with Mqtt(server.mqtt_port, MQTT_5, "half", LONG, clean_start=False) as client:
            self.half = client.next_id()
            client.send(Publish("plain/half", b"once", 2, False, False, self.half))
            assert isinstance(client.receive(), Pubrec)
        for n in range(DOGS):
            self.etags[f"d{n:02}"] = put(server, f"d{n:02}", n=n).headers["etag"]
        assert server.request("PUT", STREAM, headers=JSON).status_code == 201
        for n in range(4):
            answer = server.request("POST", STREAM, json={"n": n}, headers=JSON)
            self.offset = self.offset or answer.headers["stream-next-offset"]

    def check(self, node: Server) -> None:
        """Check that a node has it all, and that a cursor goes on there."""
        found = {row["id"]: row["n"] for row in node.request("GET", "/Dog/?sort(+id)").json()}
        assert found == {f"d{n:02}": n for n in range(DOGS)}
        for name, etag in self.etags.items():
            assert node.request("GET", f"/Dog/{name}").headers["etag"] == etag
        cursor = self.etags[f"d{READ - 1:02}"].strip('"')
        with Events(node, "/Dog/", cursor) as stream:
            told = [stream.next() for _ in range(DOGS - READ)]
        assert [f"Dog/d{n:02}" for n in range(READ, DOGS)] == [one.fields["topic"] for one in told]
        assert [self.etags[f"d{n:02}"] for n in range(READ, DOGS)] == [f'"{x.id}"' for x in told]
        assert node.request("GET", "/plain/kept").content == b"retained"
        read = node.request("GET", f"{STREAM}?offset={self.offset}")
        assert [{"n": n} for n in range(1, 4)] == read.json()

    def release(self, node: Server) -> None:
        """Send the message of QoS 2 again, as its client does when it comes back, and release."""
        with Mqtt(node.mqtt_port, MQTT_5, "half", LONG, clean_start=False) as client:
            assert client.connack.session_present
            client.send(Publish("plain/half", b"once", 2, False, True, self.half))
            assert isinstance(client.receive(), Pubrec)


def resume(node: Server, name: str, count: int) -> list[Publish]:
    """Return as many messages as wait for a client that comes back, at a node."""
    with Mqtt(node.mqtt_port, MQTT_5, name, LONG, clean_start=False) as client:
        assert client.connack.session_present, f"{name} has lost its session"
        found = [client.message() for _ in range(count)]
        if name != "sharing":  # what comes next shows that nothing else was waiting
            client.publish("plain/end", name.encode(), retain=False)
            found.append(client.message())
        return found


def check(cluster: Cluster, before: Before) -> None:
    """Check each node, and that sessions go on: one at a follower, one at the first."""
    sequencer, (follower, third) = cluster.settle(), cluster.followers
    for node in cluster.running:
        before.check(node)
    before.release(third)
    for number, (node, name) in enumerate(((follower, "sleeper"), (sequencer, "other"))):
        messages = resume(node, name, NOTES + 2 + number)
        notes = [message.topic for message in messages if message.topic.startswith("Note/")]
        assert [f"Note/{n}" for n in range(NOTES)] == notes
        plain = [message.payload for message in messages if message.topic.startswith("plain/")]
        assert [b"retained", b"once", b"sleeper", b"other"][: 3 + number] == plain
    jobs = [message.payload for message in resume(third, "sharing", NOTES)]
    assert [str(n).encode() for n in range(NOTES)] == jobs
    assert put(follower, "since", n=1).is_success
    until_same(cluster)
    same = rowcast("cluster", "verify", *(node.url for node in cluster.running))
    assert same.returncode == 0, same.stdout + same.stderr


@pytest.mark.parametrize(
    ("engine", "end"), [("nats", "stop"), ("nats", "kill"), ("postgres", "kill")]
)
def test_a_server_with_sessions_and_cursors_becomes_three_nodes(tmp_path, engine, end):
    before = Before()
    with Server(tmp_path, SCHEMA) as alone:
        before.write(alone)
        alone.stop() if end == "stop" else alone.kill(children=True)
    with ExitStack() as stack:
        settings = {}
        if engine == "postgres":
            settings = {"cluster.engine": stack.enter_context(running_postgres()).url}
        cluster = Cluster(tmp_path, **settings)
        shutil.move(tmp_path / "data", cluster.nodes["a"].folder / "data")
        stack.enter_context(cluster)
        check(cluster, before)


def test_a_cluster_of_one_becomes_three_nodes(tmp_path):
    """Its server of NATS has kept the log alone: the next log begins where its tables end."""
    before = Before()
    with Cluster(tmp_path / "one", 1) as one:
        node = one.settle()
        before.write(node)
        assert node.stop() == 0
    cluster = Cluster(tmp_path / "three")
    data = cluster.nodes["a"].folder / "data"
    shutil.move(node.folder / "data", data)
    shutil.rmtree(data / "nats")
    with cluster:
        check(cluster, before)
        old = cluster.settle()
        old.kill()
        wait_until(lambda: len([node for node in cluster.running if node.numbers]) == 1, "another")
        for left in cluster.running:
            wait_until(lambda left=left: left.ready(), "it follows")


def served_alone(folder: Path) -> str:
    """Have a server that has had a user and a record; return the ETag of that."""
    with Server(folder, SCHEMA) as alone:
        etag = put(alone, "old", n=1).headers["etag"]
        alone.stop()
    file = folder / "data" / "users.json"
    add = rowcast("user", "add", ROOT[0], "--role", "admin", "--file", file, stdin=f"{ROOT[1]}\n")
    assert add.returncode == 0, add.stderr
    return etag


def test_the_node_with_the_records_starts_last(tmp_path):
    """K17: nodes without records leave it to the one with records to make the log."""
    etag, cluster = served_alone(tmp_path), Cluster(tmp_path)
    first, *others = cluster.nodes.values()
    shutil.move(tmp_path / "data", first.folder / "data")
    with ExitStack() as stack:
        stack.push(cluster.__exit__)
        for node in others:
            node.launch()
        for node in others:
            wait_until(lambda node=node: "this node waits for the others" in node.log, "it waits")
        first.launch()
        cluster.settle()
        for node in cluster.running:
            assert node.request("GET", "/Dog/old", auth=ROOT).headers["etag"] == etag


def test_records_that_came_after_the_log_are_kept_and_can_begin_it_anew(tmp_path):
    """K13, K17: a database is there before any node, so others may have made the log in it."""
    etag = served_alone(tmp_path)
    with ExitStack() as stack:
        database = stack.enter_context(running_postgres())
        cluster = Cluster(tmp_path, **{"cluster.engine": database.url})
        first, *others = cluster.nodes.values()
        shutil.move(tmp_path / "data", first.folder / "data")
        stack.push(cluster.__exit__)
        for node in others:
            node.launch()
        cluster.settle()
        first.launch()
        wait_until(lambda: "If these are the ones to keep" in first.log, "it says what to do")
        for node in cluster.running:
            node.stop()
        for node in others:
            shutil.rmtree(node.folder / "data")
        database.ask("DROP SCHEMA rowcast_test CASCADE")
        first.launch()
        wait_until(lambda: first.numbers, "it numbers")
        for node in others:
            node.launch()
        cluster.settle()
        for node in cluster.running:
            assert node.request("GET", "/Dog/old", auth=ROOT).headers["etag"] == etag


def test_a_server_with_an_archive_is_told_that_its_cluster_does_not_read_it(tmp_path):
    """M2, K12: what is in files only is not there any more for cursors and histories."""
    cluster = Cluster(tmp_path, 1)
    (node,) = cluster.nodes.values()
    with Server(node.folder, SCHEMA) as server:
        epoch = put(server, "a", n=1).headers["etag"].strip('"').partition(":")[0]
        server.stop()
    place = node.folder / "data" / "archive" / epoch
    place.mkdir(parents=True)
    with cluster:
        cluster.settle()
        words = f"{place} has archived events of this log, which this cluster does not read"
        assert words in node.log
