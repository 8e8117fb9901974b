"""A broker without sockets: a test holds the far end of each connection, the clock and the disk.

Bytes cross an in-memory transport; ``World.turn`` lets everything that is due happen. The wall
clock and the loop's clock are one number that a test moves.
"""

import asyncio
from concurrent.futures import Future
from functools import partial

from memory_store import MemoryStore
from rowcast.bus.bus import Bus
from rowcast.core.callers import ALL, SERVER, Caller
from rowcast.core.clock import HybridClock
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Logs, Table, Type
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.connections.accept import enter
from rowcast.doors.mqtt.settings import BrokerSettings
from rowcast.features.slow_subscribers.slow_rows import PATH as SLOW
from rowcast.features.slow_subscribers.slow_rows import slow_rows
from rowcast.features.slow_subscribers.slow_subscribers import SlowSubscriptions
from rowcast.features.undeclared_topics.topic_tables import OWNER as TOPIC_TABLES
from rowcast.features.undeclared_topics.topic_tables import TopicSettings, TopicTables
from rowcast.kernel.cache import RecordCache
from rowcast.kernel.commit import Committer
from rowcast.kernel.kernel import Engine
from rowcast.kernel.reader import Reader
from rowcast.kernel.registry import Registry
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
EPOCH = "0badcafe"
TABLES = (
    Table("Dog", "Dog", (Attribute("name", Type.STRING), Attribute("age", Type.INT))),
    Table("Strict", "Strict", (Attribute("name", Type.STRING, required=True),), sealed=True),
    Table("Open", "Open"),
    Table("Quiet", "Quiet", (Attribute("n", Type.INT),), logs=Logs.RETAINED),
    Table("Last", "Last", (Attribute("n", Type.INT),), delivers_latest=True),
    Table("Secret", "Secret", (Attribute("n", Type.INT),), hidden_from=frozenset({"mqtt"})),
)
OTHER = Caller("other", ALL, "http")


class Executor:
    """Runs work at once, or holds it until the test releases it."""

    def __init__(self):
        self.held = None

    def hold(self):
        """From now on, only collect."""
        self.held = []

    def release(self):
        """Run what was collected, and hold no more."""
        held, self.held = self.held, None
        for future, call, arguments in held:
            self._run(future, call, arguments)

    def submit(self, call, *arguments):
        future = Future()
        if self.held is None:
            self._run(future, call, arguments)
        else:
            self.held.append((future, call, arguments))
        return future

    @staticmethod
    def _run(future, call, arguments):
        try:
            future.set_result(call(*arguments))
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)


class Timer:
    """A call of the fake loop that is still to come."""

    def __init__(self, when, call, arguments):
        self.when, self.call, self.arguments = when, call, arguments
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Loop:
    """The part of a loop that the broker uses, with a clock of its own."""

    def __init__(self, real):
        self.call_soon = real.call_soon
        self.now = 1000.0
        self.timers = []

    def time(self):
        return self.now

    @staticmethod
    def create_task(work):
        return asyncio.get_running_loop().create_task(work)

    def call_later(self, delay, call, *arguments):
        timer = Timer(self.now + delay, call, arguments)
        self.timers.append(timer)
        return timer

    def due(self):
        """Return the timers that are still to come, in order."""
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return sorted(self.timers, key=lambda timer: timer.when)

    def advance(self, seconds):
        """Let time pass, calling what becomes due in order."""
        end = self.now + seconds
        while (due := self.due()) and due[0].when <= end:
            self.timers.remove(due[0])
            self.now = due[0].when
            due[0].call(*due[0].arguments)
        self.now = end


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

    def __init__(self, world, version=5, peer="127.0.0.1", form=None):
        self.world = world
        self.version = version
        self.transport = Transport()
        self.client = enter(world.broker, self.transport, peer, form)
        self.decoder = Connection("client", packet_bytes_max=300_000_000, version=version)
        self.read = 0
        self.ended = False

    def send_bytes(self, data):
        self.client.receive(data)

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
                self.client.lost()

    async def hear(self):
        await self.world.turn()
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


class World:
    """An engine in memory, a broker on it, and time."""

    def __init__(self, store=None, now=1_700_000_000.0, undeclared="table", slow=None, **settings):
        self.now, self.undeclared = now, undeclared
        self.store = store or MemoryStore(EPOCH)
        self.store.open(TABLES)
        self.writer, self.readers = Executor(), Executor()
        bus, cache = Bus(), RecordCache()
        clock = HybridClock(lambda: self.now, self.store.last_version())
        self.committer = Committer(self.store, bus, cache, clock, self.writer)
        reader = Reader(self.store, cache, self.readers, TABLES, lambda: self.committer.announced)
        registry = Registry(TABLES, logged=undeclared == "table")
        self.topic_tables = TopicTables(
            self.store, self.committer, registry, TopicSettings(), lambda: self.now
        )
        self.engine = Engine(
            registry,
            bus,
            self.committer,
            reader,
            lambda: self.now,
            topic_tables=self.topic_tables,
        )
        self.options = settings
        self.loop = Loop(asyncio.get_running_loop())
        self.slow = None
        if slow is not None:
            changed = partial(self.engine.live.changed, SLOW)
            self.slow = SlowSubscriptions(slow, lambda: self.now, self.loop, changed)
            reader.slow = self.slow
            registry.add(SLOW, slow_rows(self.slow))
        self.broker = Broker(self.engine, BrokerSettings(**settings), lambda: self.now)
        self.broker.loop = self.engine.delayed.loop = self.topic_tables.loop = self.loop
        facts = self.store.states(TOPIC_TABLES)
        self.topic_tables.restore(self.store.topic_tables(), facts)
        self.peers = []
        self.engine.groups.restore(self.store.states("group/"))
        self.broker.restore(self.store.states("session/"), self.store.states("will/"))
        self.engine.delayed.restore(self.store.states("delayed"))

    async def killed(self, seconds=0):
        """Return the world after a kill and a restart: what was on disk is all that is left."""
        await self.turn()
        self.writer.hold()
        self.readers.hold()
        return World(self.store, self.now + seconds, self.undeclared, **self.options)

    async def turn(self):
        """Let all happen that is due, without letting time pass."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def pass_time(self, seconds):
        """Let time pass on both clocks."""
        self.now += seconds
        self.loop.advance(seconds)
        await self.turn()

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
        receipt = await self.engine.write(event, OTHER)
        return receipt.event

    async def say(self, topic, payload, content_type=None):
        """Send a message through another door."""
        event = Event(topic, MESSAGE, payload, content_type, 1, False)
        return (await self.engine.write(event, OTHER)).event

    def server_says(self, topic):
        """Send a message under a topic that only the server may write to."""
        self.engine.submit(Event(topic, MESSAGE, b"x", None, 1, False), SERVER)

    async def short_turn(self):
        """A turn for a crowd: enough for one write or one SUBSCRIBE."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def put_nowait(self, count):
        """Submit many writes through another door, without waiting for them."""
        for number in range(count):
            self.engine.submit(Event(f"Dog/{number}", PUT, b"{}", None, 1, True), OTHER)
        await self.turn()

    def cursor(self, seq):
        return f"{EPOCH}:{seq}"


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
    "EPOCH", "OTHER", "TABLES", "VERSIONS", "Connack", "Connect", "Disconnect", "Peer", "Pingreq",
    "Pingresp", "Puback", "Pubcomp", "Publish", "Pubrec", "Pubrel", "Suback", "Subscribe",
    "Subscription", "Transport", "Unsuback", "Unsubscribe", "World", "payloads", "topics",
    "user", "users",
]  # fmt: skip
