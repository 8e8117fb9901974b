"""One access list and one rate limit on four doors of the whole program (G19, G20)."""

import json

import pytest

from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import MQTT_5, Publish, Subscribe, Subscription
from rowcast.mqtt.reasons import Reason
from serving import Server
from talking import Events, Mqtt, open_websocket

RULES = [
    {"effect": "deny", "actions": ["all"], "topics": ["open/secret/#"]},
    {"effect": "allow", "actions": ["publish", "subscribe"], "topics": ["open/#", "Dog/#"]},
    {"effect": "allow", "actions": ["read"], "topics": ["shown/#"]},
    {"effect": "allow", "actions": ["write"], "topics": ["box/#", "shown/#"]},
    {"effect": "allow", "actions": ["all"], "topics": ["own/${clientid}/#"]},
]
ALLOWED, DENIED = "allowed", "denied"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"hooks.acl": json.dumps(RULES)}
    with Server(tmp_path_factory.mktemp("acl"), settings=settings) as running:
        yield running


class Rest:
    """REST writes and reads."""

    def __init__(self, server):
        self.server = server

    def write(self, topic):
        return self._told(self.server.request("PUT", f"/{topic}", content=b'{"name": "x"}'))

    def read(self, topic):
        return self._told(self.server.request("GET", f"/{topic}"))

    @staticmethod
    def _told(answer):
        return DENIED if answer.status_code == 403 else ALLOWED


class Sse:
    """An event stream watches."""

    def __init__(self, server):
        self.server = server

    def watch(self, text):
        with Events(self.server, f"/?topic={text.replace('#', '%23').replace('+', '%2B')}") as it:
            return DENIED if it.status == 403 else ALLOWED

    def heard(self, text):
        with Events(self.server, f"/?topic={text.replace('#', '%23')}") as stream:
            return [event.fields["topic"] for event in stream.until_current()]


class Ws:
    """A WebSocket does all three."""

    def __init__(self, server):
        self.server = server

    def write(self, topic):
        return self._ask(op="put", topic=topic, value={"name": "x"})

    def read(self, topic):
        return self._ask(op="get", topic=topic)

    def watch(self, text):
        return self._ask(op="subscribe", topic=text)

    def heard(self, text):
        with open_websocket(self.server, "/") as socket:
            socket.send(json.dumps({"id": 1, "op": "subscribe", "topic": text}))
            topics = []
            while (fields := json.loads(socket.recv(60))).get("kind") != "current":
                topics.append(fields.get("topic"))
            return [topic for topic in topics if topic]

    def _ask(self, **command):
        with open_websocket(self.server, "/") as socket:
            socket.send(json.dumps({"id": 1} | command))
            while True:
                answer = json.loads(socket.recv(60))
                if "error" in answer:
                    return DENIED if answer["error"]["code"] == "denied" else ALLOWED
                if "ack" in answer:
                    return ALLOWED


class OverMqtt:
    """MQTT writes and watches."""

    def __init__(self, server, client_id="c1"):
        self.server = server
        self.client_id = client_id

    def write(self, topic):
        with Mqtt(self.server.mqtt_port, client_id=self.client_id) as client:
            answer = client.publish(topic, b'{"name": "x"}')
            return DENIED if answer.reason == Reason.NOT_AUTHORIZED else ALLOWED

    def watch(self, text):
        with Mqtt(self.server.mqtt_port, client_id=self.client_id) as client:
            (reason,) = client.subscribe(text).reasons
            return DENIED if reason == Reason.NOT_AUTHORIZED else ALLOWED

    def heard(self, text):
        with Mqtt(self.server.mqtt_port, client_id=self.client_id) as client:
            client.subscribe(text, properties={"user_property": (("seq", ""),)})
            topics = []
            while not (message := client.message()).topic.startswith("$snapshot/end"):
                topics.append(message.topic)
            return topics


DOORS = pytest.mark.parametrize("door", [Rest, Sse, Ws, OverMqtt])


@pytest.mark.slow
@DOORS
@pytest.mark.parametrize(
    ("verb", "text", "expected"),
    [
        ("write", "open/1", ALLOWED),
        ("write", "Dog/1", ALLOWED),
        ("write", "open/secret/1", DENIED),
        ("write", "box/1", ALLOWED),
        ("write", "elsewhere/1", DENIED),
        ("read", "open/1", ALLOWED),
        ("read", "shown/1", ALLOWED),
        ("read", "open/secret/1", DENIED),
        ("read", "box/1", DENIED),
        ("watch", "open/#", ALLOWED),
        ("watch", "open/1", ALLOWED),
        ("watch", "Dog/+", ALLOWED),
        ("watch", "open/secret/#", DENIED),
        ("watch", "shown/1", DENIED),
        ("watch", "box/1", DENIED),
        ("watch", "#", DENIED),
    ],
)
def test_g19_the_same_list_says_the_same_on_every_door(server, door, verb, text, expected):
    ask = getattr(door(server), verb, None)
    if ask is not None:  # nobody writes over SSE
        assert expected == ask(text)


@pytest.mark.parametrize("door", [Sse, Ws, OverMqtt])
def test_g19_what_is_denied_within_a_filter_is_not_delivered(server, door):
    assert ALLOWED == Rest(server).write("open/heard")
    heard = door(server).heard("open/#")
    assert "open/heard" in heard
    assert not [topic for topic in heard if "secret" in topic]


def test_g19_a_collection_shows_what_may_be_read(server):
    assert ALLOWED == Rest(server).write("Dog/9")
    assert "9" in {row["id"] for row in server.request("GET", "/Dog/").json()}
    assert server.request("GET", "/Counter/").json() == []


@pytest.mark.parametrize(
    ("client_id", "topic", "expected"),
    [
        ("c1", "own/c1/x", ALLOWED),
        ("c1", "own/c2/x", DENIED),
        ("+", "own/+/x", DENIED),
        ("a/b", "own/a/b/x", DENIED),
        ("#", "own/#", DENIED),
    ],
)
def test_g20_a_client_id_cannot_widen_a_rule(server, client_id, topic, expected):
    door = OverMqtt(server, client_id)
    assert expected == door.watch(topic)
    if not set("+#") & set(topic):
        assert expected == door.write(topic)


def test_g20_the_rate_limit_is_429_and_0x97(tmp_path):
    """Each burst is one write to a socket, so that no machine is too slow to be over the rate."""
    settings = {"hooks.rate.publishes": 1, "hooks.rate.subscribes": 1}
    dogs = [{"id": str(number), "name": "x"} for number in range(9)]
    with Server(tmp_path, settings=settings) as server:
        rows = server.request("PUT", "/Dog/", json=dogs).json()
        refused = [row for row in rows if row["status"] == 429]
        assert 0 < len(refused) < 9
        assert "slow down" in refused[0]["error"]["detail"]
        with Mqtt(server.mqtt_port) as client:
            packets = [Publish("u/1", b"1", 1, False, False, number) for number in range(1, 10)]
            wanted = tuple(Subscription(f"u/{number}") for number in range(9))
            packets.append(Subscribe(10, wanted))
            client.socket.sendall(b"".join(encode(packet, MQTT_5) for packet in packets))
            answers = [client.receive() for _ in packets]
    reasons = [answer.reason for answer in answers[:-1]]
    for given in (reasons, answers[-1].reasons):
        assert Reason.QUOTA_EXCEEDED in given
        assert given[0] < Reason.UNSPECIFIED_ERROR
