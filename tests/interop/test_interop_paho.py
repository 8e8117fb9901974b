"""paho-mqtt against the whole program: versions, TCP and WebSocket (D3, D9, D47-D51)."""

import json
import queue
import socket

import cbor2
import msgpack
import paho.mqtt.client as mqtt
import pytest
from clients import stop_loop
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from serving import PATIENCE_SECONDS, Server

VERSIONS = {
    "3.1": MQTTProtocolVersion.MQTTv31,
    "3.1.1": MQTTProtocolVersion.MQTTv311,
    "5": MQTTProtocolVersion.MQTTv5,
}

UPGRADE = (
    b"GET /Dog/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def properties(kind: int, **values: object) -> Properties:
    """Return MQTT 5 properties of a packet type."""
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Paho:
    """A paho client, connected, whose callbacks are queues."""

    def __init__(self, server, version="5", transport="tcp", path="/mqtt", accept=""):
        self.v5 = version == "5"
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            "" if self.v5 else f"paho-{version}-{transport}",
            protocol=VERSIONS[version],
            transport=transport,
        )
        self.heard = {
            name: queue.Queue() for name in ("connect", "subscribe", "publish", "message")
        }
        self.client.on_connect = lambda *a: self.heard["connect"].put(a[3])
        self.client.on_subscribe = lambda *a: self.heard["subscribe"].put(a[3])
        self.client.on_publish = lambda *a: self.heard["publish"].put(a[3:5])
        self.client.on_message = lambda *a: self.heard["message"].put(a[2])
        options = {}
        if accept:
            options["properties"] = properties(
                PacketTypes.CONNECT, UserProperty=[("accept", accept)]
            )
        if transport == "websockets":
            self.client.ws_set_options(path)
        port = server.http_port if transport == "websockets" else server.mqtt_port
        self.client.connect("127.0.0.1", port, **options)
        self.client.loop_start()
        assert 0 == self.hear("connect").value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        stop_loop(self.client)

    def hear(self, what):
        """Return what the next callback of a kind was given."""
        return self.heard[what].get(timeout=PATIENCE_SECONDS)

    def subscribe(self, topics, qos=1, **options):
        """Subscribe and return the reason codes."""
        self.client.subscribe(topics, **(options or {"qos": qos}))
        return [reason.value for reason in self.hear("subscribe")]

    def publish(self, topic, payload, qos=1, retain=True, **options):
        """Publish and return the reason and properties of the acknowledgement."""
        self.client.publish(topic, payload, qos, retain, **options)
        return self.hear("publish")

    def message(self):
        """Return the next message."""
        return self.hear("message")


@pytest.fixture(params=[(v, t) for v in VERSIONS for t in ("tcp", "websockets")], ids=" ".join)
def paho(request, server):
    with Paho(server, *request.param) as connected:
        yield connected


def test_a_retained_publish_is_the_record(paho, server):
    """D48: GET right after PUBACK shows it."""
    paho.publish("Dog/1", '{"name": "Rex"}')
    assert {"id": "1", "name": "Rex"} == server.request("GET", "/Dog/1").json()


def test_a_record_comes_as_the_retained_message(paho, server):
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    assert [1] == paho.subscribe("Dog/+")
    first = paho.message()
    assert ("Dog/1", True, "Rex") == (first.topic, first.retain, json.loads(first.payload)["name"])


def test_a_message_reaches_subscribers_and_changes_no_record(paho, server):
    """D49."""
    server.request("PUT", "/Dog/1", json={"name": "Rex"})
    paho.subscribe("Dog/1")
    paho.message()
    paho.publish("Dog/1", '{"name": "Woof"}', retain=False)
    assert "Woof" == json.loads(paho.message().payload)["name"]
    assert "Rex" == server.request("GET", "/Dog/1").json()["name"]


def test_an_empty_retained_publish_deletes(paho, server):
    """D50."""
    paho.publish("Dog/1", '{"name": "Rex"}')
    paho.subscribe("Dog/1")
    paho.message()
    paho.publish("Dog/1", b"")
    assert (b"", 404) == (paho.message().payload, server.request("GET", "/Dog/1").status_code)


def test_a_subscriber_before_the_first_record_gets_that_one(paho):
    """D67."""
    assert [1] == paho.subscribe("Dog/late")
    paho.publish("Dog/late", '{"name": "Rex"}')
    assert "Rex" == json.loads(paho.message().payload)["name"]


def test_an_undeclared_topic_gives_the_same_bytes_back(paho):
    paho.publish("open/topic", b"\x00\xff any bytes")
    paho.subscribe("open/#")
    assert b"\x00\xff any bytes" == paho.message().payload


def test_a_connection_over_websocket_outlives_pings(tmp_path):
    """D3: paho-mqtt answers a ping with a frame that is not masked, which servers must refuse."""
    settings = {"websocket.heartbeat_seconds": 1}
    with Server(tmp_path, settings=settings) as server, Paho(server, "5", "websockets") as idle:
        ends = queue.Queue()
        idle.client.on_disconnect = lambda *a: ends.put(a[3])
        with socket.create_connection(("127.0.0.1", server.http_port)) as silent:
            silent.sendall(UPGRADE)
            received = b""
            while b"ping timeout" not in received:  # why it is closed: it has not answered
                received += silent.recv(4096)
        idle.subscribe("pinged")
        idle.publish("pinged", "1", retain=False)
        assert (b"1", 0) == (idle.message().payload, ends.qsize())


def send_and_hear(paho, messages):
    paho.subscribe("burst")
    for number in range(messages):
        paho.client.publish("burst", str(number), 1)
    assert list(range(messages)) == [int(paho.message().payload) for _ in range(messages)]


@pytest.mark.slow
def test_ten_thousand_messages_come_in_order(server):
    with Paho(server) as paho:
        send_and_hear(paho, 10_000)


@pytest.mark.slow
def test_a_thousand_messages_come_in_order(paho):
    send_and_hear(paho, 1_000)


def test_mqtt_over_websocket_at_the_path_of_a_resource(server):
    """D3."""
    with Paho(server, "3.1.1", "websockets", "/Dog/1") as paho:
        paho.subscribe("Dog/#")
        paho.publish("Dog/1", '{"name": "Rex"}')
        assert "Rex" == json.loads(paho.message().payload)["name"]


def test_puback_tells_the_cursor_that_http_tells(server):
    """D51, M1."""
    with Paho(server) as paho:
        _reason, told = paho.publish("Dog/1", '{"name": "Rex"}')
        etag = server.request("GET", "/Dog/1").headers["ETag"]
        assert [("seq", etag.strip('"'))] == told.UserProperty


def test_puback_says_which_value_is_wrong(server):
    """D43."""
    with Paho(server) as paho:
        reason, told = paho.publish("Dog/1", '{"name": "Rex", "age": "old"}')
        assert (0x99, True) == (reason.value, "age" in told.ReasonString)


@pytest.mark.parametrize(
    ("media_type", "decode"),
    [("application/cbor", cbor2.loads), ("application/x-msgpack", msgpack.unpackb)],
    ids=["cbor", "msgpack"],
)
def test_each_client_gets_the_format_it_asks_for(server, media_type, decode):
    """D47: one publishes JSON, another gets CBOR or MessagePack."""
    with Paho(server, accept=media_type) as binary, Paho(server) as writer:
        binary.subscribe("Dog/#")
        writer.publish("Dog/1", '{"name": "Rex", "age": 3}')
        message = binary.message()
        assert {"id": "1", "name": "Rex", "age": 3} == decode(message.payload)
        assert media_type == message.properties.ContentType


@pytest.mark.parametrize(
    ("media_type", "encode"),
    [("application/cbor", cbor2.dumps), ("application/x-msgpack", msgpack.packb)],
    ids=["cbor", "msgpack"],
)
def test_a_client_writes_in_the_format_it_names(server, media_type, encode):
    """D47: the other way round, read as JSON over HTTP."""
    with Paho(server) as paho:
        options = properties(PacketTypes.PUBLISH, ContentType=media_type)
        paho.publish("Dog/1", encode({"name": "Rex", "age": 3}), properties=options)
    assert {"id": "1", "name": "Rex", "age": 3} == server.request("GET", "/Dog/1").json()


def test_what_an_mqtt_5_publisher_adds_arrives_unchanged(server):
    """D42."""
    given = {
        "ResponseTopic": "answers/1",
        "CorrelationData": b"\x01\x02",
        "UserProperty": [("a", "1"), ("a", "2")],
        "PayloadFormatIndicator": 1,
        "ContentType": "text/plain",
    }
    with Paho(server) as paho:
        paho.subscribe("open/1")
        paho.publish("open/1", "x", properties=properties(PacketTypes.PUBLISH, **given))
        message = paho.message()
        assert given == {name: getattr(message.properties, name) for name in given}


@pytest.mark.parametrize(
    ("handling", "expected"), [(0, ["old", "new"]), (2, ["new"])], ids=["send", "do not send"]
)
def test_retain_handling(server, handling, expected):
    """D39."""
    with Paho(server) as paho:
        paho.publish("open/1", "old")
        paho.subscribe("open/1", options=mqtt.SubscribeOptions(1, retainHandling=handling))
        paho.publish("open/1", "new")
        assert expected == [paho.message().payload.decode() for _ in expected]


def test_no_local_leaves_out_what_the_client_said_itself(server):
    with Paho(server) as paho, Paho(server) as other:
        paho.subscribe("open/1", options=mqtt.SubscribeOptions(1, noLocal=True))
        paho.publish("open/1", "mine", retain=False)
        other.publish("open/1", "theirs", retain=False)
        assert b"theirs" == paho.message().payload
