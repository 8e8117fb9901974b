"""paho-mqtt against the whole program: sessions, QoS 2, groups and aliases (D16, D18, D27, D36)."""

import queue

import paho.mqtt.client as mqtt
import pytest
from clients import stop_loop
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from serving import PATIENCE_SECONDS

BOTH = pytest.mark.parametrize("version", ["3.1.1", "5"])
PROTOCOLS = {"3.1.1": MQTTProtocolVersion.MQTTv311, "5": MQTTProtocolVersion.MQTTv5}


def properties(**values: object) -> Properties:
    """Return properties of CONNECT."""
    made = Properties(PacketTypes.CONNECT)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Member:
    """A paho client whose session outlives its connection, and whose callbacks are queues."""

    def __init__(self, version, client_id, *, acknowledges=True, **wishes):
        self.v5, self.name, self.ended = version == "5", client_id, False
        self.wishes = {"SessionExpiryInterval": 600} | wishes
        options = {} if self.v5 else {"clean_session": False}
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=PROTOCOLS[version],
            manual_ack=not acknowledges, reconnect_on_failure=False, **options,
        )  # fmt: skip
        self.connects, self.messages, self.ends = queue.Queue(), queue.Queue(), queue.Queue()
        self.done, self.published = queue.Queue(), queue.Queue()
        self.client.on_connect = lambda *a: self.connects.put(a[2].session_present)
        self.client.on_message = lambda *a: self.messages.put(a[2])
        self.client.on_subscribe = lambda *a: self.done.put(a[3])
        self.client.on_publish = lambda *a: self.published.put(a[3])
        self.client.on_disconnect = lambda *a: self.ends.put(a[3])

    def connect(self, server):
        """Connect; return whether there was a session."""
        options = {}
        if self.v5:
            options = {"clean_start": False, "properties": properties(**self.wishes)}
        self.client.connect("127.0.0.1", server.mqtt_port, **options)
        self.client.loop_start()
        return self.connects.get(timeout=PATIENCE_SECONDS)

    def subscribe(self, text, qos=2):
        self.client.subscribe(text, qos)
        return self.done.get(timeout=PATIENCE_SECONDS)

    def publish(self, topic, payload, qos):
        """Publish, and wait for the end of the exchange."""
        self.client.publish(topic, payload, qos)
        self.published.get(timeout=PATIENCE_SECONDS)

    def hear(self, count):
        """Return payloads, in the order in which they came."""
        return [self.messages.get(timeout=PATIENCE_SECONDS).payload for _ in range(count)]

    def leave(self):
        """Disconnect; the session stays."""
        if not self.ended:
            self.client.disconnect()
            self.hear_end()
        stop_loop(self.client)

    def hear_end(self):
        """Return the reason of the connection's end."""
        self.ended = True
        return self.ends.get(timeout=PATIENCE_SECONDS).value


@pytest.fixture
def members(request):
    """Make clients, and disconnect them afterwards."""
    made = []

    def make(version, client_id="", **options):
        member = Member(version, client_id or f"{request.node.name}-{len(made)}", **options)
        made.append(member)
        return member

    yield make
    for member in made:
        member.leave()


@BOTH
def test_messages_wait_for_who_is_away(server, members, version):
    """D27: each QoS in its order; paho hands one of QoS 2 over when it is released."""
    reader, writer = members(version), members(version)
    assert not reader.connect(server)
    reader.subscribe("away/#")
    reader.leave()
    writer.connect(server)
    for number in range(10):
        writer.publish(f"away/{number % 3}", b"%d" % number, 1 + number % 2)
    reader = members(version, reader.name)
    assert reader.connect(server)
    heard = [int(payload) for payload in reader.hear(10)]
    assert [0, 2, 4, 6, 8, 1, 3, 5, 7, 9] == sorted(heard, key=lambda number: number % 2)


@BOTH
def test_what_was_not_acknowledged_comes_again(server, members, version):
    """D18: with DUP, under its identifier."""
    reader, writer = members(version, acknowledges=False), members(version)
    reader.connect(server)
    reader.subscribe("again", 1)
    writer.connect(server)
    writer.publish("again", b"x", 1)
    first = reader.messages.get(timeout=PATIENCE_SECONDS)
    reader.leave()
    reader = members(version, reader.name)
    assert reader.connect(server)
    second = reader.messages.get(timeout=PATIENCE_SECONDS)
    assert (False, True, first.mid) == (first.dup, second.dup, second.mid)


@BOTH
def test_qos_2_is_heard_once(server, members, version):
    """D16: also by who publishes it."""
    member = members(version)
    member.connect(server)
    member.subscribe("once", 2)
    for number in range(100):
        member.client.publish("once", b"%d" % number, 2)
    assert [b"%d" % number for number in range(100)] == member.hear(100)
    for _ in range(100):
        member.published.get(timeout=PATIENCE_SECONDS)
    member.publish("once", b"last", 2)
    assert [b"last"] == member.hear(1)


@BOTH
def test_a_group_shares_what_comes(server, members, version):
    """D36: each message to one of three, all of them to some."""
    workers = [members(version) for _ in range(3)]
    for worker in workers:
        worker.connect(server)
        worker.subscribe(f"$share/g{version}/jobs/{version}/+", 1)
    writer = members(version)
    writer.connect(server)
    for number in range(30):
        writer.publish(f"jobs/{version}/{number}", b"%d" % number, 1)
    heard = [worker.hear(10) for worker in workers]
    assert {b"%d" % number for number in range(30)} == {x for each in heard for x in each}
    assert all(worker.messages.empty() for worker in workers)


def test_the_newer_connection_takes_over(server, members):
    """D29: 0x8E, and the session goes on."""
    first = members("5")
    first.connect(server)
    first.subscribe("taken")
    second = members("5", first.name)
    assert second.connect(server)
    assert 0x8E == first.hear_end()
    second.publish("taken", b"x", 2)
    assert [b"x"] == second.hear(1)


def test_a_topic_alias_of_the_server(server, members):
    """D42: paho shows aliases as they come, as the interoperability suite of its makers expects."""
    member = members("5", TopicAliasMaximum=1)
    member.connect(server)
    member.subscribe("alias/of/the/server")
    for qos in (0, 1, 2):
        member.client.publish("alias/of/the/server", b"x", qos)
    heard = [member.messages.get(timeout=PATIENCE_SECONDS) for _ in range(3)]
    assert ["alias/of/the/server", "", ""] == [message.topic for message in heard]
    assert {1} == {message.properties.TopicAlias for message in heard}
