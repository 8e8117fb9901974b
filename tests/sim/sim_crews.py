"""A shared subscription and its members, MQTT clients with durable sessions that come and go.

Together they are one reader (D55): what is logged after the first SUBACK reaches one of
them at least, and if all have QoS 2 exactly one, once, whatever is cut, killed or refused.
"""

from sim_checks import require
from sim_store import number_of
from sim_wire import Link

from rowcast.core.events import DELETE
from rowcast.core.topics import TopicFilter
from rowcast.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)

MEMBERS = 2
EXPIRY_SECONDS = 3600
PAUSES_SECONDS = (0, 0.01, 0.05, 0.3)
FILTERS = ("u/#", "Dog/+", "+/1")


class Crew:
    """The members together: what they are owed, and what came."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        rng = world.fork(name)
        self.topics = TopicFilter(rng.choice(FILTERS))
        self.text = f"$share/{name}/{self.topics.text}"
        self.members = [Member(self, f"{name}{i}") for i in range(MEMBERS)]
        self.asked = False
        self.since = None
        """How many events were announced when the first SUBACK came."""
        self.came = {}
        """Numbers to how often they came with QoS 2, not counting what was sent again."""

    def wants(self, topic):
        """Tell whether a message of QoS 1 must be kept for it; None if nobody can know."""
        if not self.asked or not self.topics.matches(topic):
            return False
        return True if self.since is not None else None

    def granted(self):
        """Hear that SUBACK came to a member."""
        if self.since is None:
            self.since = self.world.server.tap.index

    def arrived(self, member, packet, n):
        """Take a message that the member had not."""
        fine = self.topics.matches(packet.topic) and not packet.retain
        require(fine, f"{member.name}: a message of no filter", packet)
        if n is None:
            return
        count = self.came[n] = self.came.get(n, 0) + (packet.qos == 2)
        # What a member has with QoS 1 may be assigned again, and then to one that has QoS 2.
        exact = all(item.qos == 2 for item in self.members)
        exact &= len(self.world.store.copies.get(n, ())) == 1
        require(count < 2 or not exact, f"{member.name}: QoS 2 twice", packet, count)

    def finish(self):
        """Check that nothing is missing, now that everything is quiet."""
        for member in self.members:
            member.finish()
        store = self.world.store
        if self.since is None or store.trims:  # what was trimmed need not come
            return
        for event in store.shadow[self.since :]:
            n = number_of(event.payload, event.properties)
            owed = event.qos and self.topics.matches(event.topic) and not event.expires_at
            if owed and n is not None and event.kind != DELETE:
                require(n in self.came, f"{self.name}: never arrived", event)


class Member:
    """One of them."""

    def __init__(self, crew, name):
        self.crew = crew
        self.world = crew.world
        self.name = name
        self.rng = crew.world.fork(name)
        self.qos = self.rng.choice((1, 2))
        self.granted = self.connected = False
        self.taken = {}
        """Identifiers of QoS 2 messages that came and are not released, to their numbers."""

    async def run(self):
        world, rng = self.world, self.rng
        while not world.closing:
            await self._visit(await world.server_up())
            await world.loop.pause(0.01 if world.quiet else rng.choice(PAUSES_SECONDS))
        while not await self._end(await world.server_up()):
            await world.loop.pause(0.1)

    async def _visit(self, server):
        world, rng = self.world, self.rng
        self.link = link = Link(world, server, 5)
        properties = {
            "session_expiry_interval": EXPIRY_SECONDS,
            "receive_maximum": rng.choice((1, 3, 20)),
        }
        world.trace(f"{self.name} connects")
        link.send(Connect(5, self.name, False, properties=properties))
        packet = await link.receive()
        if not isinstance(packet, Connack) or packet.reason:
            return
        present = packet.session_present
        require(present or not self.granted, f"{self.name}: its session is gone")
        if not present:
            self.taken = {}
        self.connected = True
        talking = world.loop.create_task(self._talk(link))
        while (packet := await link.receive()) is not None:
            self._take(link, packet)
        talking.cancel()
        self.connected = False

    async def _talk(self, link):
        """Subscribe, and go at some moment."""
        world, rng = self.world, self.rng
        if not self.granted:
            self.crew.asked = True
            link.send(Subscribe(1, (Subscription(self.crew.text, self.qos, False, False, 0),)))
        while not link.over:
            await world.loop.pause(2 if world.quiet else rng.choice((0.01, 0.05)))
            choice = rng.random()
            if world.closing or (choice < 0.05 and not world.quiet):
                link.goodbye = Disconnect()
                link.send(link.goodbye)
                return
            if world.quiet or choice > 0.5:
                link.go()
            elif choice < 0.1:
                world.trace(f"{self.name} vanishes")
                link.drop()
            elif choice < 0.15:
                link.stop()

    def _take(self, link, packet):
        if isinstance(packet, Suback):
            require(packet.reasons == (self.qos,), f"{self.name}: a refused SUBSCRIBE", packet)
            self.granted = True
            self.crew.granted()
        elif isinstance(packet, Pubrel):
            self.taken.pop(packet.packet_id, None)
            link.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Publish):
            self._take_message(link, packet)

    def _take_message(self, link, packet):
        packet_id, n = packet.packet_id, number_of(packet.payload, packet.properties)
        self.world.trace(f"{self.name} got {packet.topic} {n=} qos={packet.qos} id={packet_id}")
        if packet.qos < 2:
            require(packet_id not in self.taken, f"{self.name}: an identifier in use", packet)
            self.crew.arrived(self, packet, n)
        elif packet_id not in self.taken:
            self.crew.arrived(self, packet, n)
            self.taken[packet_id] = n
        else:
            same = packet.dup and self.taken[packet_id] == n
            require(same, f"{self.name}: an identifier that is not released", packet)
        if packet.qos:
            link.send((Puback if packet.qos == 1 else Pubrec)(packet_id))

    def finish(self):
        require(self.connected, f"{self.name} is not connected")
        require(not self.taken, f"{self.name}: never released", self.taken)
        require(not len(self.link.client.session.window), f"{self.name}: in flight at the end")

    async def _end(self, server):
        """End the session for good; return whether that is known."""
        link = Link(self.world, server, 5)
        link.send(Connect(5, self.name, True, properties={"session_expiry_interval": 0}))
        packet = await link.receive()
        if not isinstance(packet, Connack) or packet.reason:
            return False
        link.goodbye = Disconnect()
        link.send(link.goodbye)
        await link.receive()
        return link.ended_by_server
