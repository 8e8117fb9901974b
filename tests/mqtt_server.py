"""An MQTT broker without sockets: a test holds the far end of each connection.

Bytes cross an in-memory transport; ``MqttServer.turn`` lets everything that is due happen.
"""

import asyncio

from build import EPOCH, NOW, Server
from rowcast.core.callers import ALL, SERVER, Caller
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Logs, Table, Type
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)  # fmt: skip
from rowcast.mqtt.violations import Violation

VERSIONS = (3, 4, 5)
TABLES = (
    Table("Dog", "Dog", (Attribute("name", Type.STRING), Attribute("age", Type.INT))),
    Table("Strict", "Strict", (Attribute("name", Type.STRING, required=True),), sealed=True),
    Table("Open", "Open"),
    Table("Quiet", "Quiet", (Attribute("n", Type.INT),), logs=Logs.RETAINED),
    Table("Last", "Last", (Attribute("n", Type.INT),), delivers_latest=True),
    Table("Secret", "Secret", (Attribute("n", Type.INT),), hidden_from=frozenset({"mqtt"})),
)
OTHER = Caller("other", ALL, "http")


class Transport:
    """The near end of a connection."""

    def __init__(self):
        self.sent = []
        self.closed = self.aborted = False
        self.reading = True
        self.waiting = 0

    def write(self, data):
        assert not self.aborted
        self.sent.append(bytes(data))

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = self.aborted = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def get_extra_info(self, name, default=None):
        return default

    def get_write_buffer_size(self):
        return self.waiting


class Peer:
    """The far end of a connection: sends packets, hears packets."""

    def __init__(self, server, version=5, peer="127.0.0.1"):
        self.server = server
        self.version = version
        self.transport = Transport()
        self.client = server.broker.enter(self.transport, peer)
        self.decoder = Connection("client", packet_bytes_max=300_000_000, version=version)
        self.read = 0
        self.ended = False

    def send_bytes(self, data):
        self.client.data_received(data)

    def send(self, *packets):
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def heard(self):
        """Return the packets that came since the last call; a closed connection is seen through."""
        data = b"".join(self.transport.sent[self.read :])
        self.read = len(self.transport.sent)
        packets = self.decoder.receive(data) if data else []
        assert not any(isinstance(packet, Violation) for packet in packets), packets
        if self.transport.closed and not self.ended:
            self.lose()
        return packets

    def lose(self):
        """Lose the connection, without any packet."""
        if not self.ended:
            self.ended = True
            if self.client is not None:  # None: it was closed at the door
                self.client.connection_lost(None)

    async def hear(self):
        await self.server.turn()
        return self.heard()

    async def ask(self, *packets):
        """Send packets; return what comes back."""
        self.send(*packets)
        return await self.hear()

    async def connect(self, client_id="c", **options):
        """Send CONNECT; return the CONNACK. What follows is left in ``later``."""
        answer = await self.ask(Connect(self.version, client_id, **options))
        assert isinstance(answer[0], Connack), answer
        self.later = answer[1:]
        return answer[0]

    async def subscribe(self, *filters, qos=0, properties=None, **options):
        """Send SUBSCRIBE; return SUBACK's reasons. What follows is left to hear."""
        wanted = tuple(
            item if isinstance(item, Subscription) else Subscription(item, qos, **options)
            for item in filters
        )
        answer = await self.ask(Subscribe(7, wanted, properties))
        assert isinstance(answer[0], Suback), answer
        self.later = answer[1:]
        return answer[0].reasons

    def publish(self, topic, payload=b"", qos=0, retain=False, packet_id=0, **properties):
        """Send PUBLISH."""
        packet_id = packet_id or (1 if qos else 0)
        self.send(Publish(topic, payload, qos, retain, False, packet_id, properties or None))

    @property
    def closed(self):
        return self.transport.closed


class MqttServer(Server):
    """A server that speaks MQTT with peers in memory; other options are the broker's settings."""

    def __init__(
        self, store=None, undeclared="table", slow=None, now=NOW, tables=TABLES, **settings
    ):
        super().__init__(
            tables, store=store, topics=TopicSettings(), undeclared=undeclared, now=now
        )
        self.undeclared, self.options = undeclared, settings
        self.open_mqtt(slow=slow, **settings)
        self.peers = []

    async def killed(self, seconds=0):
        """Return the server after a kill and a restart: what was on disk is all that is left."""
        await self.turn()
        self.writer.hold()
        self.readers.hold()
        return MqttServer(self.store, self.undeclared, now=self.time + seconds, **self.options)

    def peer(self, version=5, **options):
        """Return a new connection on which nothing was sent yet."""
        peer = Peer(self, version, **options)
        self.peers.append(peer)
        return peer

    async def connected(self, client_id="c", version=5, **options):
        """Return a connection that was accepted."""
        peer = self.peer(version)
        await peer.connect(client_id, **options)
        return peer

    async def subscribed(self, *filters, client_id="s", version=5, qos=0, connect=None, **options):
        """Return a connection that was accepted and subscribed; what was current is heard."""
        peer = await self.connected(client_id, version, **(connect or {}))
        await peer.subscribe(*filters, qos=qos, **options)
        return peer

    async def put(self, topic, payload, content_type=None, **facts):
        """Write a record through another door."""
        event = Event(topic, PUT, payload, content_type, 1, True)
        for name, value in facts.items():
            setattr(event, name, value)
        receipt = await self.kernel.write(event, OTHER)
        return receipt.event

    async def say(self, topic, payload, content_type=None):
        """Send a message through another door."""
        event = Event(topic, MESSAGE, payload, content_type, 1, False)
        return (await self.kernel.write(event, OTHER)).event

    def server_says(self, topic):
        """Send a message under a topic that only the server may write to."""
        self.kernel.submit(Event(topic, MESSAGE, b"x", None, 1, False), SERVER)

    async def short_turn(self):
        """A turn for a crowd: enough for one write or one SUBSCRIBE."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def put_nowait(self, count):
        """Submit many writes through another door, without waiting for them."""
        for number in range(count):
            self.kernel.submit(Event(f"Dog/{number}", PUT, b"{}", None, 1, True), OTHER)
        await self.turn()


def users(*pairs):
    """Return user properties as a packet's properties."""
    return {"user_property": pairs}


def user(packet, name):
    """Return a user property of a packet, None if it has none of this name."""
    return dict((packet.properties or {}).get("user_property", ())).get(name)


def payloads(packets):
    """Return the payloads of the messages among packets."""
    return [packet.payload for packet in packets if isinstance(packet, Publish)]


def topics(packets):
    """Return the topics of the messages among packets."""
    return [packet.topic for packet in packets if isinstance(packet, Publish)]


__all__ = [
    "EPOCH", "OTHER", "TABLES", "VERSIONS", "Connack", "Connect", "Disconnect", "MqttServer",
    "Peer", "Pingreq", "Pingresp", "Puback", "Pubcomp", "Publish", "Pubrec", "Pubrel", "Suback",
    "Subscribe", "Subscription", "Transport", "Unsuback", "Unsubscribe", "payloads", "topics",
    "user", "users",
]  # fmt: skip
