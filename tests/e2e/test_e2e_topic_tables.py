"""Topic tables in the real program: eight scenarios from end to end (F30), and what follows.

Each test has a first level of its own, so that one server does for all.
"""

import json
import sqlite3
from contextlib import closing, contextmanager

import pytest

from rowcast.mqtt.packets import MQTT_5, Puback
from rowcast.mqtt.reasons import Reason
from serving import Server, wait_until
from talking import Events, Mqtt, open_websocket, told

LASTING = {"session_expiry_interval": 3600}
SETTINGS = {
    "topics.cleanup_delay": 0,
    "history.sweep_seconds": 0.1,
    "topics.tables": "{mqtt_kept: {keep_seconds: 1}}",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of this file."""
    with Server(tmp_path_factory.mktemp("topics"), settings=SETTINGS) as running:
        yield running


@contextmanager
def two(server, **options):
    """Give two MQTT clients."""
    with Mqtt(server.mqtt_port, **options) as one, Mqtt(server.mqtt_port) as other:
        yield one, other


def table(server, name):
    """Return the row of a topic table, None if there is none."""
    answer = server.request("GET", f"/$SYS/topic_tables/{name}")
    return answer.json() if answer.status_code == 200 else None


def subscribers(server, name):
    """Return how many subscribers a table has; None without a table."""
    row = table(server, name)
    return row and row["subscription_count"]


def wait_for(server, name, **facts):
    """Wait until a table is as it should be."""

    def reached():
        row = table(server, name)
        return row is not None and facts.items() <= row.items()

    wait_until(reached, f"{name}: {facts}")


def wait_until_gone(server, name):
    wait_until(lambda: table(server, name) is None, f"{name} is gone")


def stored(server, name):
    """Return what any program for SQL finds in a table."""
    with closing(sqlite3.connect(server.folder / "data" / "rowcast.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f'SELECT * FROM "{name}" ORDER BY id')]


def test_subscribe_first(server):
    """F30.1, F3, F19, F20: the table is there, then the message is in it, with seven columns."""
    with two(server) as (reader, writer):
        assert table(server, "mqtt_home") is None
        reader.subscribe("home/temperature")
        row = table(server, "mqtt_home")
        assert ("mqtt_home", 1, False, 0) == (
            row["name"], row["subscription_count"], row["has_retained"], row["events"]
        )  # fmt: skip
        payload = json.dumps({"temp": 22.5}).encode()
        writer.publish("home/temperature", payload, retain=False)
        assert payload == reader.message().payload
    (found,) = wait_until(lambda: stored(server, "mqtt_home"), "the row is in the table")
    assert ["id", "topic", "payload", "qos", "retain", "timestamp", "client_id"] == list(found)
    assert ("home/temperature", payload.decode(), 1, 0) == tuple(
        found[name] for name in ("topic", "payload", "qos", "retain")
    )
    (row,) = server.request("GET", "/mqtt_home/?topic=home/temperature").json()
    assert ({"temp": 22.5}, 1, False) == (row["payload"], row["qos"], row["retain"])
    assert found["id"] == row["id"]


def test_publish_first(server):
    """F30.2, F12: also with QoS 0."""
    with two(server) as (one, other):
        one.publish("early/a", b"1", retain=False)
        assert 0 == subscribers(server, "mqtt_early")
        other.publish("early/b", b"2", qos=0, retain=False)
        wait_for(server, "mqtt_early", events=2, bytes=2)


def test_several_subscribers(server):
    """F30.3, X5: a client counts once for each filter; who is lost counts no more."""
    with two(server) as (one, other):
        one.subscribe("many/a")
        one.subscribe("many/a", qos=0)
        other.subscribe("many/a")
        other.subscribe("many/b")
        assert 3 == subscribers(server, "mqtt_many")
        one.unsubscribe("many/never")
        one.unsubscribe("many/a")
        one.unsubscribe("many/a")
        assert 2 == subscribers(server, "mqtt_many")
        one.publish("many/a", b"1", retain=False)
        other.cut()
        wait_for(server, "mqtt_many", subscription_count=0)


def test_a_retained_message_keeps_the_table(server):
    """F30.4, X4, X6: as long as it is there, and the history of its end after it."""
    with two(server) as (one, other):
        one.subscribe("kept/a")
        other.publish("kept/a", b"1")
        one.unsubscribe("kept/a")
        wait_for(server, "mqtt_kept", events=0, subscription_count=0)  # its history is over
        assert table(server, "mqtt_kept")["has_retained"]
        other.publish("kept/a", b"")
        wait_until_gone(server, "mqtt_kept")


def test_unsubscribing_ends_the_table(server):
    """F30.5, F21: at once here, because there is no grace period."""
    with two(server) as (one, other):
        one.subscribe("over/a")
        other.subscribe("over/b")
        one.unsubscribe("over/a")
        assert 1 == subscribers(server, "mqtt_over")
        other.unsubscribe("over/b")
        wait_until_gone(server, "mqtt_over")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        stored(server, "mqtt_over")


def test_wildcards_make_no_table_and_receive(server):
    """F30.7, F29, X7."""
    with two(server) as (one, other):
        for text in ("wild/#", "wild/+", "+/a"):
            one.subscribe(text)
        assert table(server, "mqtt_wild") is None
        other.publish("wild/a", b"1", retain=False)
        assert b"1" == one.message().payload
        assert 0 == subscribers(server, "mqtt_wild")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("Höhle 7!/x", "mqtt_h_hle_7_"),
        ("/x", "mqtt_"),
        ("plain", "mqtt_messages"),
        ("messages/x", "mqtt_messages_"),
        ("sys_metrics/x", "mqtt_sys_metrics_"),
    ],
)
def test_names_of_all_kinds(server, topic, name):
    """F30.8, F5, X3: letters that are none in a name, and names that are taken."""
    with two(server) as (one, other):
        one.subscribe(topic)
        other.publish(topic, b"1", retain=False)
        assert b"1" == one.message().payload
        rows = server.request("GET", "/$SYS/topic_tables/").json()
        level = topic.split("/")[0] if "/" in topic else None
        (row,) = [row for row in rows if row["level"] == level]
        assert row["name"] == name or (name.endswith("_") and row["name"].startswith(name))
        assert (1, 1) == (row["events"], row["subscription_count"])
        rows = wait_until(lambda name=row["name"]: stored(server, name), "the row is in the table")
        assert ["1"] == [found["payload"] for found in rows]


def test_an_empty_topic_makes_no_table(server):
    """F30.8: MQTT knows none; the server says so and goes on."""
    before = len(server.request("GET", "/$SYS/topic_tables/").json())
    with two(server) as (one, _):
        answer = one.subscribe("")
        assert answer.reasons[0] >= Reason.UNSPECIFIED_ERROR
    assert before == len(server.request("GET", "/$SYS/topic_tables/").json())


def test_rapid_subscribing_and_unsubscribing(server):
    """F30.8: it ends with no subscriber and no table."""
    with two(server) as clients:
        for _ in range(50):
            for client in clients:
                client.subscribe("rapid/a")
                client.unsubscribe("rapid/a")
    wait_until_gone(server, "mqtt_rapid")


def test_the_other_doors_subscribe_too(server):
    """X2, X5: SSE and WebSocket."""
    with Events(server, "/doors/a") as events, open_websocket(server, "/") as socket:
        events.until_current()
        socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": "doors/b"}))
        assert "current" == told(socket).fields.get("kind", "current")
        wait_for(server, "mqtt_doors", subscription_count=2)
    wait_until_gone(server, "mqtt_doors")


def test_shared_subscriptions_count(server):
    """X3, X5: each member, for the topic that is meant."""
    with two(server) as (one, other):
        one.subscribe("$share/g/shared/a")
        other.subscribe("$share/g/shared/a")
        assert 2 == subscribers(server, "mqtt_shared")
        other.publish("shared/a", b"1", retain=False)
        one.unsubscribe("$share/g/shared/a")
        assert 1 == subscribers(server, "mqtt_shared")
    wait_for(server, "mqtt_shared", subscription_count=0)


def test_who_is_away_gets_all_of_it_after_a_restart(tmp_path):
    """F31, F6: QoS 1 and 2, from the tables; the subscriptions are there still, and counted."""
    with Server(tmp_path) as server:
        with Mqtt(server.mqtt_port, MQTT_5, "away", LASTING, clean_start=False) as reader:
            reader.subscribe("home/a", qos=2)
            reader.subscribe("$share/g/barn/a", qos=1)
        with Mqtt(server.mqtt_port) as writer:
            for number in range(5):
                writer.publish("home/a", b"%d" % number, retain=False)
                writer.publish("barn/a", b"%d" % number, retain=False)
        assert 1 == subscribers(server, "mqtt_home")
        server.stop()
        server.start()
        assert (1, 5) == tuple(
            table(server, "mqtt_home")[name] for name in ("subscription_count", "events")
        )
        assert 1 == subscribers(server, "mqtt_barn")
        with Mqtt(server.mqtt_port, MQTT_5, "away", LASTING, clean_start=False) as reader:
            assert reader.connack.session_present
            got = {"home/a": [], "barn/a": []}
            while min(map(len, got.values())) < 5:
                message = reader.message()
                got[message.topic].append(int(message.payload))
        assert {"home/a": [0, 1, 2, 3, 4], "barn/a": [0, 1, 2, 3, 4]} == got


def test_the_cap_is_told_on_every_door(tmp_path):
    """F32."""
    with Server(tmp_path, settings={"topics.max_tables": 1}) as server:
        with two(server) as (one, other):
            one.publish("home/a", b"1", retain=False)
            answer = other.publish("barn/a", b"1", retain=False)
            assert isinstance(answer, Puback)
            assert Reason.QUOTA_EXCEEDED == answer.reason
            assert "topics.max_tables" in answer.properties["reason_string"]
            assert Reason.GRANTED_QOS_1 == other.subscribe("barn/a").reasons[0]
        answer = server.request("PUT", "/barn/a", content=b"1")
        assert 413 == answer.status_code
        assert "topics.max_tables" in answer.text
        with open_websocket(server, "/") as socket:
            socket.send(json.dumps({"id": 1, "op": "put", "topic": "barn/a", "value": 1}))
            assert "topics.max_tables" in socket.recv()
        rows = server.request("GET", "/$SYS/topic_tables/").json()
        assert ["mqtt_home"] == [row["name"] for row in rows]


def test_a_plain_broker_has_no_tables(tmp_path):
    """X1: `route`."""
    with Server(tmp_path, settings={"topics.undeclared": "route"}) as server:
        with two(server) as (one, other):
            one.subscribe("home/a")
            other.publish("home/a", b"1", retain=False)
            assert b"1" == one.message().payload
        assert [] == server.request("GET", "/$SYS/topic_tables/").json()
