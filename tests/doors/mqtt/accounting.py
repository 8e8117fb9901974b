"""A world in which for every subscription what was sent is what came and what is told missing (M4).

One seed decides all: writers on logged and unlogged topics, small and too large, some of which
expire; readers on MQTT with every QoS and on streams, which stop, go slowly, are cut off and come
back, or are taken over. The sent are counted where events are announced, the rest from the bytes
that a reader is given.
"""

import json
import random
import re
from dataclasses import dataclass, field

from mqtt_server import (
    OTHER,
    MqttServer,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscription,
    users,
)
from rowcast.core.events import CURRENT, MESSAGE, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.streams.frames import Frames
from rowcast.subscriptions.backlog import Overflow
from rowcast.subscriptions.subscription import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription as Cursor

TOPICS = ("a", "a/1", "a/2", "b", "Dog/1", "Dog/2", "Quiet/1", "Open/x", "Last/1", "Last/2")
FILTERS = ("a", "a/#", "+/1", "b", "Dog/#", "Quiet/+", "Open/#", "+", "#", "a/1", "Last/#")
KEPT = ("Dog", "Last")
GROUPS = ("a/#", "Dog/#", "b")
NUMBER = re.compile(rb'"(?:n|age)":\s*(\d+)')
PACKET_BYTES_MAX = 400
FULL = 0xFFFFFFFF


@dataclass(eq=False)
class Ledger:
    """What one subscription was sent, got, and was told is missing."""

    filters: list
    local: dict = field(default_factory=dict)
    """Client ids whose own messages are not wanted, by filter."""
    sent: int = 0
    got: int = 0
    got_often: int = 0
    known: bytearray = field(default_factory=bytearray)
    """One byte for each message: whether it came."""
    gaps: dict = field(default_factory=dict)
    wants: dict = field(default_factory=dict)

    def offered(self, event):
        key = (event.topic, event.client)
        wanted = self.wants.get(key)
        if wanted is None:
            found = [item for item in self.filters if item.matches(event.topic)]
            found = [item for item in found if self.local.get(item.text, -1) != event.client]
            wanted = self.wants[key] = bool(found)
        self.sent += wanted

    def came(self, number, *, again=False):
        if number >= len(self.known):
            self.known.extend(bytes(number + 1000 - len(self.known)))
        if self.known[number]:
            self.got_often += not again
        else:
            self.known[number] = 1
            self.got += 1

    def gap(self, facts):
        assert facts["count"] > 0
        assert (facts["from"] is None) == (facts["to"] is None)
        self.gaps[facts["reason"]] = self.gaps.get(facts["reason"], 0) + facts["count"]

    def adds_up(self):
        return self.got_often == 0 and self.sent == self.got + sum(self.gaps.values())

    def __str__(self):
        texts = ",".join(item.text for item in self.filters)
        return f"{texts}: sent {self.sent} = {self.got} + {self.gaps} twice {self.got_often}"


class Tap:
    """Stands between the writer and the bus: what passes was sent."""

    def __init__(self, bus):
        self.bus = bus
        self.ledgers = set()
        self.events = 0

    def publish(self, event):
        self.events += 1
        for ledger in self.ledgers:
            ledger.offered(event)
        self.bus.publish(event)


class MqttReader:
    """A client that reads as badly as a seed says."""

    def __init__(self, yard, name, ledger, share=None):
        chance = yard.chance
        self.yard, self.name, self.ledger, self.share = yard, name, ledger, share
        self.qos = chance.randrange(3) if share is None else chance.choice((1, 2))
        self.durable = share is not None or chance.random() < 0.7
        self.asks = {"maximum_packet_size": PACKET_BYTES_MAX} if chance.random() < 0.5 else {}
        if chance.random() < 0.5:
            self.asks["receive_maximum"] = chance.choice((1, 2, 5, 50))
        if self.durable:
            self.asks["session_expiry_interval"] = FULL
        self.peer = None
        self.open = []

    async def begin(self):
        await self.connect()
        chance, ledger = self.yard.chance, self.ledger
        filters = [item.text for item in ledger.filters]
        await self.yard.world.turn()
        if self.share is None:
            self.yard.tap.ledgers.add(ledger)  # what follows is announced in a later turn
        for text in filters:
            no_local = self.share is None and chance.random() < 0.3
            if no_local:
                ledger.local[text] = self.name
            wanted = Subscription(
                text if self.share is None else f"$share/{self.share}/{text}",
                self.qos,
                no_local,
                retain_handling=2,
            )
            await self.peer.subscribe(wanted, properties=users(("gaps", "true")))
            self.take(self.peer.later)

    async def connect(self):
        old, self.peer = self.peer, self.yard.world.peer()
        self.open.clear()
        await self.peer.connect(self.name, clean_start=False, properties=dict(self.asks))
        if old is not None:
            self.take(old.heard())
            self.open.clear()
            if old in self.yard.world.peers and old is not self.peer:
                old.lose()
                self.yard.world.peers.remove(old)
        self.take(self.peer.later)

    def leave(self):
        """Lose the connection; what was written before came."""
        self.take(self.peer.heard())
        self.peer.lose()
        self.yard.world.peers.remove(self.peer)

    @property
    def gone(self):
        return self.peer.ended or self.peer.closed

    def hear(self):
        self.take(self.peer.heard())
        self.peer.transport.sent.clear()  # a million messages are to fit
        self.peer.read = 0

    def take(self, packets):
        for packet in packets:
            if isinstance(packet, Pubrel):
                self.open.append(Pubcomp(packet.packet_id))
            elif isinstance(packet, Publish):
                self.come(packet)
                if packet.qos:
                    kind = Puback if packet.qos == 1 else Pubrec
                    self.open.append(kind(packet.packet_id))

    def come(self, packet):
        if packet.topic.startswith("$gap/"):
            if not packet.dup or (packet.packet_id, packet.payload) not in self.yard.told:
                self.ledger.gap(json.loads(packet.payload)["gap"])
            if packet.qos:
                self.yard.told.add((packet.packet_id, packet.payload))
            return
        number = int(NUMBER.search(packet.payload).group(1))
        self.ledger.came(number, again=packet.dup or self.share is not None)

    def answer(self, most):
        """Acknowledge some of what came, in order."""
        if self.gone:
            return
        some, self.open = self.open[:most], self.open[most:]
        if some:
            self.peer.send(*some)

    def stop(self):
        self.peer.client.pause_writing()

    def go_on(self):
        self.peer.client.resume_writing()

    async def step(self):
        chance = self.yard.chance
        what = chance.random()
        if self.gone:
            if self.durable and what < 0.5:
                await self.connect()
        elif what < 0.1:
            self.stop()
        elif what < 0.3:
            self.go_on()
        elif what < 0.35 and self.durable:
            self.leave()
        elif what < 0.38 and self.durable:
            await self.connect()  # takes over
        elif what < 0.7:
            self.answer(chance.choice((1, 2, 100)))
        else:
            self.yard.say("a", self.name)
        if not self.gone:
            self.hear()

    async def finish(self):
        """Come back, read all there is and acknowledge it."""
        if self.gone:
            if not self.durable:
                return
            await self.connect()
        self.go_on()
        self.hear()
        self.answer(1000)


class StreamReader:
    """A reader of SSE or WebSocket: it takes frames when the seed says so."""

    def __init__(self, yard, ledger):
        self.yard, self.ledger = yard, ledger
        kernel = yard.world.kernel
        self.frames = Frames(kernel, "application/json")
        self.cursor = Cursor(kernel.reader)
        for topics in ledger.filters:
            kernel.watch(self.cursor, SubscribedFilter(topics, marks=False), OTHER, current=False)
        yard.tap.ledgers.add(ledger)

    def take(self, most):
        for event, _ in self.cursor.take(most):
            envelope = json.loads(self.frames.envelope(event))
            if envelope["kind"] == "gap":
                self.ledger.gap(envelope["gap"])
            elif envelope["kind"] != CURRENT:
                self.ledger.came(int(NUMBER.search(event.payload).group(1)))

    async def step(self):
        if self.yard.chance.random() < 0.4:
            self.take(self.yard.chance.choice((1, 3, 500)))

    async def finish(self):
        self.take(500)


class Yard:
    """All of it."""

    def __init__(self, seed, store=None):
        self.chance = chance = random.Random(seed)
        policy = chance.choice((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST))
        most = chance.choice((0, 0, 3, 20))
        undeclared = chance.choice(("route", "table"))
        self.world = MqttServer(
            store, undeclared=undeclared, session_queue_max=most, session_queue_policy=policy
        )
        queue = chance.choice((2, 5, 50))
        self.world.kernel.reader.queue_events = queue
        self.tap = self.world.committer._bus = Tap(self.world.kernel.bus)
        self.world.committer.publish_unlogged = self.tap.publish
        self.told = set()
        self.number = 0
        self.readers, self.ledgers = [], []
        self.deepest = 0

    async def populate(self):
        chance = self.chance
        for number in range(chance.choice((2, 4))):
            self.ledgers.append(Ledger(self.filters()))
            reader = MqttReader(self, f"c{number}", self.ledgers[-1])
            await reader.begin()
            self.readers.append(reader)
        for _ in range(2):
            self.ledgers.append(Ledger(self.filters()))
            self.readers.append(StreamReader(self, self.ledgers[-1]))
        shared = Ledger([TopicFilter(chance.choice(GROUPS))])
        self.ledgers.append(shared)
        for number in range(2):
            reader = MqttReader(self, f"g{number}", shared, share="g")
            await reader.begin()
            self.readers.append(reader)
            self.tap.ledgers.add(shared)

    def filters(self):
        texts = self.chance.sample(FILTERS, self.chance.choice((1, 1, 2, 4)))
        return [TopicFilter(text) for text in texts]

    def say(self, topic, client="w", qos=None):
        """Write something at a topic, logged or not, small or large, lasting or not."""
        chance = self.chance
        self.number += 1
        fields = {"age": self.number} if topic.startswith("Dog") else {"n": self.number}
        if chance.random() < 0.1:
            fields["name" if topic.startswith("Dog") else "x"] = "x" * PACKET_BYTES_MAX
            if topic.startswith("Quiet"):
                fields.pop("x")
        kind = PUT if topic.startswith(KEPT) and chance.random() < 0.5 else MESSAGE
        qos = chance.randrange(3) if qos is None else qos
        event = Event(topic, kind, json.dumps(fields).encode(), None, qos, kind == PUT)
        event.client = client
        if kind == MESSAGE and chance.random() < 0.1:
            event.expires_at = self.world.time + 2
        self.world.kernel.submit(event, OTHER)

    async def run(self, messages, burst=40, progress=lambda _number: None):
        """Let so many messages pass, then let everybody come to the end.

        ``progress`` is told the number of messages after each burst.
        """
        await self.populate()
        chance = self.chance
        while self.number < messages:
            for _ in range(chance.randrange(burst)):
                self.say(chance.choice(TOPICS))
            await self.world.turn()
            for reader in self.readers:
                await reader.step()
            self.look()
            progress(self.number)
            if chance.random() < 0.3:
                await self.world.pass_time(chance.choice((0.3, 1, 3)))
        for _ in range(60):
            await self.finish()
            if all(ledger.adds_up() for ledger in self.checked()):
                return
        while await self.finish():
            pass

    async def finish(self):
        """Let everybody take what there is; return whether that changed anything."""
        before = [str(ledger) for ledger in self.ledgers]
        for _ in range(20):
            for reader in self.readers:
                await reader.finish()
            await self.world.turn()
        return before != [str(ledger) for ledger in self.ledgers]

    def checked(self):
        """Return the accounts that did not end: of a clean session that was cut off nothing is."""
        over = {
            reader.ledger
            for reader in self.readers
            if isinstance(reader, MqttReader) and not reader.durable and reader.gone
        }
        return [ledger for ledger in self.ledgers if ledger not in over]

    def look(self):
        """Note how much is in memory for the readers."""
        for reader in self.readers:
            if isinstance(reader, StreamReader):
                self.deepest = max(self.deepest, len(reader.cursor.queue.events))
            elif not reader.gone and reader.peer.client.session.subscription is not None:
                queue = reader.peer.client.session.subscription.queue.events
                self.deepest = max(self.deepest, len(queue))

    async def close(self):
        for peer in self.world.peers:
            peer.lose()
        await self.world.broker.stop()
        await self.world.stop()
