"""MQTT clients, 3.1.1 and 5, that publish, subscribe, dawdle, stop reading and vanish."""

import json

from sim_checks import LATER, Follow, require
from sim_readers import FILTERS
from sim_store import number_of
from sim_wire import Link
from sim_writers import TOPICS, choose_kind, make_payload

from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from rowcast.subscriptions.gaps import GapCause
from rowcast.writes.write import Receipt

PUBLISHES_IN_FLIGHT_MAX = 6
POISON = "Counter/no-number"


class Device:
    """One MQTT client, over as many connections as it takes."""

    def __init__(self, world, name, publishes):
        self.world = world
        self.name = name
        self.rng = rng = world.fork(name)
        self.version = rng.choice((4, 5))
        self.tells = self.version == 5 and rng.random() < 0.7
        self.no_local = self.version == 5 and rng.random() < 0.3
        self.qos = rng.randrange(2)
        self.topics = TopicFilter(rng.choice(FILTERS))
        self.publishes = publishes
        self.follow = Follow(
            world, name, self.topics, tells=self.tells, drops_expired=True,
            local=name if self.no_local else None,
        )  # fmt: skip
        self.link = None
        self.subscription = None
        self.sent = {}
        """Packet identifiers to the numbers that wait for their PUBACK."""

    async def run(self):
        world, rng = self.world, self.rng
        world.on_watch[self.name] = self._watched
        while not world.closing:
            server = await world.server_up()
            self.link = Link(world, server, self.version)
            self.subscription, self.subscribed, self.sent, self.packet_id = None, False, {}, 0
            talking = world.loop.create_task(self._talk(server))
            await self._listen(server)
            talking.cancel()
            self.subscription = None
            for n in self.sent.values():
                world.unanswered(n)
            await world.loop.pause(rng.choice((0, 0.01, 0.05)))

    # -- what it sends -----------------------------------------------------------------------------

    async def _talk(self, server):
        world, rng, link = self.world, self.rng, self.link
        users = (("user_property", (("seq", "1"),)),) if self.tells else ()
        properties = dict(users) | {"receive_maximum": rng.choice((1, 2, 10))}
        link.send(
            Connect(self.version, self.name, properties=properties if self.version == 5 else None)
        )
        await world.loop.pause(rng.choice((0, 0.01)))
        self._subscribe(server)
        while not link.over:
            await world.loop.pause(rng.choice((0, 0.001, 0.004, 0.03)))
            choice = rng.random()
            if world.quiet:
                link.go()
                if world.closing:
                    link.send(Disconnect())
                    return
                await world.loop.pause(2)
            elif choice < 0.02:
                world.trace(f"{self.name} vanishes")
                link.drop()
            elif choice < 0.03:
                link.send(Disconnect())
            elif choice < 0.08:
                link.stop()
            elif choice < 0.2:
                link.go()
            elif self.publishes > 0:
                self._publish()

    def _subscribe(self, server):
        rng, follow = self.rng, self.follow
        users = ()
        if self.tells and follow.position is not None and follow.live and rng.random() < 0.6:
            users = (("since", f"5eed5eed:{follow.position}"),)
        handling = rng.choice((0, 0, 1, 2)) if self.version == 5 else 0
        option = Subscription(
            self.topics.text,
            self.qos,
            self.no_local,
            self.tells and rng.random() < 0.3,
            handling,
        )
        properties = {"user_property": users} if users else None
        self.link.send(Subscribe(7, (option,), properties))

    def _watched(self, server, subscription, announced, since, current):
        """Hear, from the server's inside, when the subscription began."""
        if server.alive and not self.link.over:
            self.subscription = subscription
            position = parse_cursor(since).seq if since is not None else None
            self.world.trace(f"{self.name} watches {self.topics.text} {announced} {since}")
            self.follow.begin(server.tap, announced, position, current=current)

    def _publish(self):
        rng = self.rng
        if rng.random() < 0.04:
            qos = rng.randrange(2)
            self.link.send(Publish(POISON, b"", 0, retain=True) if qos else self._bad())
            return
        qos = rng.randrange(2) if len(self.sent) < PUBLISHES_IN_FLIGHT_MAX else 0
        topic = rng.choice(TOPICS)
        kind = choose_kind(rng, topic, patches=False)
        if kind == DELETE and self.version != 5:
            kind = MESSAGE  # a delete of 3.1.1 could not be told apart
        self._send(topic, kind, qos)

    def _send(self, topic, kind, qos):
        world, rng = self.world, self.rng
        n = world.next_number()
        world.attempt(n, f"{self.name}/{self.link.number}", LATER)
        self.publishes -= 1
        payload = b"" if kind == DELETE else make_payload(rng, topic, n)
        properties = {"user_property": (("n", str(n)),)} if kind == DELETE else {}
        if kind == "put" and topic[0] in "uv" and self.version == 5 and rng.random() < 0.15:
            properties["message_expiry_interval"] = 1
        packet_id = 0
        if qos:
            packet_id = self.packet_id = self.packet_id % 60_000 + 1
            self.sent[packet_id] = n
        else:
            world.unanswered(n)
        world.trace(f"{self.name} publishes {kind} {topic} {qos=} {n=}")
        self.link.send(
            Publish(topic, payload, qos, kind != MESSAGE, False, packet_id, properties or None)
        )

    def _bad(self):
        """Return a publish that its table refuses."""
        return Publish("Dog/1", json.dumps({"n": "many"}).encode(), 0, retain=True)

    # -- what it hears -----------------------------------------------------------------------------

    async def _listen(self, server):
        rng, world, link = self.rng, self.world, self.link
        while (packet := await link.receive()) is not None:
            if isinstance(packet, Publish):
                self._deliver(packet)
                if packet.qos:
                    delay = rng.choice((0, 0, 0.002, 0.01))
                    world.loop.call_later(delay, self._acknowledge, link, packet.packet_id)
            elif isinstance(packet, Puback):
                self._answered(server, packet)
            elif isinstance(packet, Connack):
                require(not packet.reason, "a refused CONNECT", packet)
            elif isinstance(packet, Suback):
                require(packet.reasons == (self.qos,), "a refused SUBSCRIBE", packet)
                self.subscribed = True
            if not world.quiet and rng.random() < 0.2:
                await world.loop.pause(rng.choice((0.001, 0.01)))

    @staticmethod
    def _acknowledge(link, packet_id):
        if not link.over:
            link.send(Puback(packet_id))

    def _deliver(self, packet):
        require(self.subscribed, f"{self.name}: a message before SUBACK", packet)
        users = (packet.properties or {}).get("user_property", ())
        named = dict(users)
        seq = parse_cursor(named["seq"]).seq if self.tells and "seq" in named else None
        topic, follow = packet.topic, self.follow
        self.world.trace(f"{self.name} got {topic} {packet.payload[:20]} {seq} {packet.retain}")
        if topic.startswith("$"):
            self._mark(topic, packet)
            return
        n = number_of(packet.payload, packet.properties)
        if self.tells:
            if follow.live:
                follow.event(topic, n, seq or 0, empty=not packet.payload)
            else:
                follow.snapshot(topic, n, seq)
        elif packet.retain:
            follow.snapshot(topic, n, None)
        else:
            follow.event(topic, n, None, empty=not packet.payload)

    def _mark(self, topic, packet):
        facts = json.loads(packet.payload)
        if topic.startswith("$snapshot/end/"):
            self.follow.current(parse_cursor(facts["cursor"]).seq)
        elif topic.startswith("$reset/"):
            self.follow.reset(parse_cursor(facts["cursor"]).seq)
        else:
            self.follow.gap(facts["gap"]["count"], facts["gap"]["reason"])

    def _answered(self, server, packet):
        n = self.sent.pop(packet.packet_id)
        event = Event("", "", b"")
        event.seq = -1
        if packet.reason < 0x80:
            self.world.answered(n, Receipt(event), None)
        else:
            code = Code.BUSY if packet.reason == 0x97 else Code.INVALID
            self.world.answered(n, Error(code, str(packet.properties)), None)

    def finish(self):
        require(self.subscription is not None, f"{self.name} is not connected")
        require(not self.sent, f"{self.name}: never acknowledged", self.sent)
        session = self.link.client.session
        require(not len(session.window), f"{self.name}: in flight at the end")
        dropped = 0 if self.tells else self.subscription.losses.counts.get(GapCause.SLOW, 0)
        self.follow.finish(dropped)


class Chatterer(Device):
    """One that sends QoS 0 in bursts, of which the disk takes several at once."""

    def _publish(self):
        for _ in range(self.rng.choice((1, 2, 5))):
            self._send(self.rng.choice(("u/1", "u/2/x", "v/1")), MESSAGE, 0)
