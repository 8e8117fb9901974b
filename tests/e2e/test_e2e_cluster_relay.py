"""Every node serves everything: what a follower does not serve itself, it passes on (K4)."""

import json
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from websockets.sync.client import connect

from clusters import Cluster
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Connect, Disconnect, Will
from rowcast.mqtt.reasons import Reason
from serving import PATIENCE_SECONDS, rowcast, wait_until
from talking import Closed, Events, Mqtt, told, wipe

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)
LONG = {"session_expiry_interval": 3600}
LARGE = 600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def followers(cluster):
    cluster.settle()
    return cluster.followers


def test_clients_of_all_nodes_share_topics_and_retained_messages(cluster, followers):
    one, two, three = (Mqtt(node.mqtt_port) for node in cluster.nodes.values())
    for client in (one, three):
        client.subscribe("plain/#")
        client.subscribe("Dog/+")
    two.publish("plain/a", b"1")
    assert one.message().payload == three.message().payload == b"1"
    with Mqtt(followers[0].mqtt_port) as late:
        late.subscribe("plain/#")
        assert late.message().payload == b"1"
    assert followers[1].request("PUT", "/Dog/r", json={"name": "r"}).is_success
    assert json.loads(one.message().payload)["name"] == "r"
    assert json.loads(three.message().payload)["name"] == "r"
    for client in (one, two, three):
        client.socket.close()


def test_streams_of_all_nodes_are_listed_at_any_and_ended_there(cluster, followers):
    """M11: a reader of a follower is a row below that node's name."""
    one, other = followers
    with Events(one, "/Dog/?start=new") as stream, Events(cluster.settle(), "/Dog/?start=new"):
        stream.until_current()
        rows = other.request("GET", "/$SYS/streams/").json()
        nodes = [row["node"] for row in rows]
        assert sorted(nodes) == sorted([one.name, cluster.settle().name])
        row = rows[nodes.index(one.name)]
        assert row["id"].startswith(f"{one.name}/")
        assert (row["path"], row["filters"], row["door"]) == ("/Dog/", ["Dog/#"], "sse")
        path = f"/$SYS/streams/{row['id']}"
        assert other.request("GET", path).json()["opened"] == row["opened"]
        assert other.request("DELETE", path).status_code == 204
        assert "an administrator ended this stream" in [told.text for told in stream][-1]
        for gone in (path, f"/$SYS/streams/{one.name}/x", "/$SYS/streams/x/1"):
            assert other.request("DELETE", gone).status_code == 404
    found = other.request("GET", f"/$SYS/streams/?node=={one.name}")
    assert found.json() == []


def test_a_session_moves_with_its_client_to_any_node(cluster, followers):
    first = Mqtt(followers[0].mqtt_port, client_id="mover", properties=LONG)
    first.subscribe("moved/+")
    second = Mqtt(followers[1].mqtt_port, client_id="mover", properties=LONG, clean_start=False)
    assert second.connack.session_present
    taken = first.receive()
    assert isinstance(taken, Disconnect)
    assert taken.reason is Reason.SESSION_TAKEN_OVER
    with pytest.raises(Closed):
        first.receive()
    first.socket.close()
    second.cut()
    with Mqtt(followers[0].mqtt_port) as writer:
        writer.publish("moved/1", b"while away")
    node = cluster.settle()
    with Mqtt(node.mqtt_port, client_id="mover", properties=LONG, clean_start=False) as third:
        assert third.message().payload == b"while away"


def test_a_will_of_a_client_that_is_cut_off_is_published_once(cluster, followers):
    watching = [Mqtt(node.mqtt_port) for node in cluster.nodes.values()]
    for client in watching:
        client.subscribe("wills/#")
    Mqtt(followers[0].mqtt_port, client_id="w", will=Will("wills/w", b"gone", 1)).cut()
    for client in watching:
        assert client.message().payload == b"gone"
        client.publish("wills/end", b"", retain=False)
    for client in watching:
        assert {client.message().topic for _ in watching} == {"wills/end"}
        client.socket.close()


def test_what_tables_do_not_have_is_passed_on_over_http(cluster, followers):
    here, there = followers
    written = here.request("PUT", "/room/1/temp", json=21.5)
    assert written.status_code == 201, written.text
    assert there.request("GET", "/room/1/temp").json() == 21.5
    assert here.request("HEAD", "/room/1/temp").headers["content-length"] == "4"
    assert here.request("GET", "/room/2/temp").status_code == 404
    marked = {"Idempotency-Key": "k1"}
    posts = [node.request("POST", "/Note/", json={"text": "t"}, headers=marked)
             for node in (here, there, here)]  # fmt: skip
    assert len({answer.headers["location"] for answer in posts}) == 1, posts
    with Mqtt(there.mqtt_port, client_id="seen"):
        rows = here.request("GET", "/$SYS/sessions/").json()
        assert "seen" in str(rows)


def test_large_bodies_are_passed_on_in_both_directions(followers):
    text = "x" * LARGE

    def parts():
        yield b'"'
        for _ in range(LARGE // 1000):
            yield b"x" * 1000
        yield b'"'

    here, there = followers
    kind = {"content-type": "application/json"}
    assert here.request("PUT", "/large/1", content=parts(), headers=kind).is_success
    assert there.request("GET", "/large/1").json() == text
    too_large = here.request("PUT", "/large/2", content=b"x" * 40_000_000, headers=kind)
    assert too_large.status_code == 413


def test_a_stream_of_topics_without_a_table_is_passed_on(followers):
    here, there = followers
    with Events(here, "/streamed/#") as events, Mqtt(there.mqtt_port) as writer:
        events.until_current()
        writer.publish("streamed/1", b"1")
        assert events.next().value == 1


@pytest.mark.parametrize("path", ["/", "/wide/"])
def test_a_socket_without_a_table_in_its_path_has_all_topics(followers, path):
    here, there = followers
    wipe(here)
    with connect(f"ws://127.0.0.1:{here.http_port}{path}") as socket:
        socket.send(json.dumps({"op": "subscribe", "topic": "anything/+", "id": 1}))
        answers = [told(socket).fields for _ in range(3 if path == "/wide/" else 2)]
        assert any(fields.get("ack") == 1 for fields in answers), answers
        with Mqtt(there.mqtt_port) as writer:
            writer.publish("anything/1", b'{"a":1}')
        assert told(socket).value == {"a": 1}
        socket.send(json.dumps({"op": "put", "topic": "anything/2", "value": 2, "id": 2}))
        assert 2 in {told(socket).fields.get("value") for _ in range(2)}


def test_mqtt_over_websocket_at_a_follower(followers):
    url = f"ws://127.0.0.1:{followers[0].http_port}/mqtt"
    with connect(url, subprotocols=["mqtt"]) as socket:
        socket.send(encode(Connect(5, "over-websocket"), 5))
        assert socket.recv()[0] == 0x20
        rows = followers[1].request("GET", "/$SYS/sessions/").json()
        assert "over-websocket" in str(rows)


def test_after_the_death_of_the_numbering_node_clients_go_on_where_they_are(cluster, followers):
    """The first CONNECT waits for the new one."""
    follower = followers[0]
    client = Mqtt(follower.mqtt_port, client_id="stays", properties=LONG)
    client.subscribe("stays/#")
    numbering = cluster.settle()
    with Mqtt(followers[1].mqtt_port) as writer:
        writer.publish("stays/1", b"1")
    numbering.kill()
    with pytest.raises(Closed):
        while True:
            client.receive()
    client.socket.close()
    again = wait_until(lambda: connected(follower, "stays"), "it is connected again")
    assert again.message().payload == b"1"
    again.socket.close()
    numbering.launch()
    cluster.settle()


def connected(node, client_id):
    try:
        client = Mqtt(node.mqtt_port, client_id=client_id, properties=LONG, clean_start=False)
    except (Closed, OSError):
        return None
    if client.connack.reason:
        client.socket.close()
        return None
    assert client.connack.session_present
    return client


def test_clients_of_a_follower_leave_a_node_that_is_stopped(tmp_path):
    """A stopped process ends no connection: the follower does, once another one numbers."""
    with Cluster(tmp_path) as cluster:
        sequencer, follower = cluster.settle(), cluster.followers[0]
        with Mqtt(follower.mqtt_port, client_id="mover", properties=LONG) as client:
            client.subscribe("Dog/+", qos=1)
            sequencer.running.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(Closed):
                    client.message()
            finally:
                sequencer.running.send_signal(signal.SIGCONT)
        cluster.settle()


def test_s19_an_import_through_a_follower_is_at_every_node(cluster, followers, tmp_path):
    """S19, K4: it passes whole batches on; what the command says is written is in the log, once."""
    path, count = tmp_path / "rows.parquet", 2_500
    names = [f"i{number:04}" for number in range(count)]
    pq.write_table(pa.table({"id": names, "n": list(range(count))}), path)
    node = followers[0]
    place = ("import", "Counter", path, "--schema", node.schema_file, "--url", node.url)
    done = rowcast(*place)
    assert (0, str(count)) == (done.returncode, done.stdout.strip()), done.stderr
    for one in cluster.nodes.values():
        wait_until(lambda one=one: imported(one) == names, f"node {one.name} has all rows")


def imported(node):
    """Return the ids of the imported counters' events, in the order of a node's log."""
    found, query = [], "/Counter/?from=0&limit=1000"
    while query:
        page = node.request("GET", query)
        ids = [event["topic"].removeprefix("Counter/") for event in page.json()]
        found += [name for name in ids if name.startswith("i")]
        query = page.links["next"]["url"] if "next" in page.links else ""
    return found
