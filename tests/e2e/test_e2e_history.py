"""History by every door of the real program, over a kill (B13, B14, C24, E24, E25)."""

import json

import pytest

from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket, query, told

SCHEMA = """
type Counter @table @export { id: ID @primaryKey n: Long! secret: String @hidden }
type Kept @table(maxCount: 5, history: "7d", maxBytes: "1MB") @export { id: ID @primaryKey }
"""
COUNT = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on which a record and an undeclared topic have a past, killed and started again."""
    settings = {"history.sweep_seconds": 0.1, "mqtt.sys_interval": 1}
    with Server(tmp_path_factory.mktemp("history"), SCHEMA, settings=settings) as running:
        with Mqtt(running.mqtt_port) as client:
            for number in range(COUNT):
                value = json.dumps({"n": number, "secret": "x"}).encode()
                client.publish("Counter/a", value)
                client.publish("home/temp", str(number).encode(), retain=False)
        running.kill()
        running.start()
        yield running


def rest(server, path):
    """Return what REST tells of each event: cursor and value."""
    answer = server.request("GET", path)
    answer.raise_for_status()
    return [(f"{row['_origin']}:{row['_seq']}", row["value"]) for row in answer.json()]


def streamed(server, path, count):
    with Events(server, path) as stream:
        events = [stream.next() for _ in range(count)]
    return [(event.id, event.value) for event in events]


def spoken(server, topic, count, **words):
    with open_websocket(server, "/") as socket:
        socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": topic, **words}))
        socket.recv()
        events = [told(socket) for _ in range(count)]
    return [(event.fields["cursor"], event.value) for event in events]


def subscribed(server, topic, count, **words):
    with Mqtt(server.mqtt_port) as client:
        properties = {"user_property": tuple(words.items())}
        client.subscribe(topic, properties=properties)
        packets = [client.message() for _ in range(count)]
    seqs = [dict(packet.properties["user_property"])["seq"] for packet in packets]
    return list(zip(seqs, [json.loads(packet.payload) for packet in packets], strict=True))


@pytest.mark.parametrize("topic", ["Counter/a", "home/temp"])
def test_e25_every_door_tells_the_same_past(server, topic):
    """E25, C24: by count, by time and by cursor."""
    whole = rest(server, f"/{topic}?from=0")
    numbers = [value["n"] if isinstance(value, dict) else value for _, value in whole]
    assert list(range(COUNT)) == numbers
    rows = server.request("GET", f"/{topic}?from=0").json()
    then = str(rows[7]["_ts"])
    since = [pair for pair, row in zip(whole, rows, strict=True) if row["_ts"] >= rows[7]["_ts"]]
    for words, expected in (
        ({"last": "5"}, whole[-5:]),
        ({"from": then}, since),
        ({"from": whole[8][0]}, whole[9:]),
    ):
        count = len(expected)
        assert expected == rest(server, f"/{topic}{query(**words)}")
        assert expected == streamed(server, f"/{topic}{query(**words)}", count)
        assert expected == spoken(server, topic, count, **words)
        assert expected == subscribed(server, topic, count, **words)


def test_b14_the_past_survives_a_kill(server):
    cursors = [cursor for cursor, _ in rest(server, "/Counter/a?from=0")]
    asked = [server.request("GET", f"/Counter/a?asof={cursor}").json() for cursor in cursors]
    assert [{"id": "a", "n": number} for number in range(COUNT)] == asked
    listed = server.request("GET", f"/Counter/?asof={cursors[3]}").json()
    assert [{"id": "a", "n": 3}] == listed


def test_b13_a_series_of_plain_numbers(server):
    (row,) = server.request("GET", "/home/temp?from=0&every=7d&fn=sum,count").json()
    assert {"value": {"sum": sum(range(COUNT)), "count": COUNT}} == row["values"]


def test_e24_a_table_drops_its_oldest_and_says_so(server):
    """E24: of its own limits, once the sweeper has been there."""
    for _ in range(9):
        server.request("PUT", "/Kept/1", json={}).raise_for_status()

    def is_trimmed():  # while that is done, a read of what goes may be told that it is gone
        answer = server.request("GET", "/Kept/?from=0")
        return answer.is_success and len(answer.json()) == 5

    wait_until(is_trimmed, "the oldest four are dropped")
    answer = server.request("GET", "/Kept/?from=0")
    trimmed = answer.headers["rowcast-trimmed"]
    assert int(trimmed.partition(":")[2]) < answer.json()[0]["_seq"]
    oldest = rest(server, "/Counter/a?from=0")[0][0]
    gone = server.request("GET", f"/Kept/?from={oldest}")
    assert (410, trimmed) == (gone.status_code, gone.json()["oldest"])


def test_f27_metrics_have_a_history(server):
    """F27: as series, of one metric or of all below a part of the tree."""
    path = "/$SYS/broker/uptime?from=0"
    wait_until(lambda: len(rest(server, path)) > 1, "the server has told its uptime twice")
    series = server.request("GET", "/$SYS/broker/clients/?from=-1h&every=1h&fn=max").json()
    topics = {row["topic"] for row in series}
    assert "$SYS/broker/clients/connected" in topics
    assert all(row["values"]["value"].keys() == {"max"} for row in series)
