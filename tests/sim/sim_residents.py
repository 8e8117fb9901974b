"""MQTT clients whose sessions outlive their connections, and who remember what they must.

A resident keeps on its own disk, as it were, what MQTT asks of a client: publishes that are not
acknowledged, which it sends again, and the identifiers of QoS 2 messages that it took. It goes
without a word, comes back soon or late, takes its own session over, begins anew now and then, and
leaves a will.
"""

from collections import deque
from math import inf

from sim_checks import LATER, require
from sim_mailbox import Mailbox
from sim_presence import Presence, Testament
from sim_readers import FILTERS
from sim_store import number_of
from sim_wire import Link
from sim_writers import TOPICS, choose_kind, make_payload

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, Event
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
    Unsuback,
    Unsubscribe,
    Will,
)
from rowcast.writes.write import Receipt

IN_FLIGHT_MAX = 6
"""The server's Receive Maximum."""
OFFLINE_SECONDS = (0, 0, 0.01, 0.05, 0.3, 0.8, 3)
EXPIRIES_SECONDS = (1, 2, 3600, 0xFFFFFFFF)
DELAYS_SECONDS = (0, 0, 1, 2, 5)
EXCUSED = {0x80, 0x89, 0x8B, 0x8E}
"""Reasons of a DISCONNECT that are nobody's mistake: a disk that fails, a stop, a take-over."""


class Parcel:
    """A publish of its own that is not complete."""

    __slots__ = ("n", "packet", "released")

    def __init__(self, packet, n):
        self.packet = packet
        self.n = n
        self.released = False
        """Whether PUBREC came: from now on PUBREL is sent."""


class Resident:
    """One MQTT client with a durable session."""

    def __init__(self, world, name, publishes):
        self.world = world
        self.name = name
        self.rng = rng = world.fork(name)
        self.version = rng.choice((4, 5))
        self.tells = self.version == 5 and rng.random() < 0.5
        self.expiry = rng.choice(EXPIRIES_SECONDS) if self.version == 5 else inf
        self.publishes = publishes
        self.visits = rng.randrange(2, 8)
        self.filters = rng.sample((*FILTERS, "v/1", "w/#"), 3)
        self.presence = Presence(world, name)
        self.mailbox = self.former = None
        self.must_begin = True
        """Whether it cannot know what of its session is there, and asks for none."""
        self.outbox = {}
        """Packet identifiers to what is sent and not complete, in the order of sending."""
        self.taken = {}
        """Identifiers of QoS 2 messages that came and are not released, to their payloads."""
        self.granted = {}
        """Filters to their QoS; None while SUBSCRIBE is not answered."""
        self.leaving = set()
        """Filters whose UNSUBSCRIBE is not answered."""
        self.packet_id = 0
        self.wills = []
        self.link = None
        self.fleeting = self.connected = False
        self.planted = 0
        """How many exceptions the store had thrown when CONNECT was sent."""

    @property
    def done(self):
        """Whether it has done all that it wanted."""
        return self.publishes <= 0 and self.visits <= 0

    async def run(self):
        world, rng = self.world, self.rng
        while not world.closing:
            await self._visit(await world.server_up())
            self.visits -= 1
            if not world.closing:
                pause = 0.01 if world.quiet else rng.choice(OFFLINE_SECONDS)
                await world.loop.pause(pause)
        while not await self._end(await world.server_up()):
            await world.loop.pause(0.1)

    # -- a connection ------------------------------------------------------------------------------

    async def _visit(self, server):
        rng, world = self.rng, self.world
        clean = self.must_begin or (rng.random() < 0.1 and not world.quiet)
        last = rng.random() < 0.05 and not world.quiet
        if self.version == 4:  # Clean Session is both: it begins anew, and it does not last
            clean = last = clean or last
        self.link = link = Link(world, server, self.version)
        if not await self._connect(link, clean, 0 if last else self.expiry):
            return
        talking = world.loop.create_task(self._talk(link))
        await self._listen(link)
        talking.cancel()
        self.connected = False

    async def _connect(self, link, clean, expiry):
        """Send CONNECT and check its answer; return whether the connection is made.

        A session of 3.1.1 that is to be new and to last takes two: the first only ends the old.
        """
        world, rng, version = self.world, self.rng, self.version
        self.operations, self.acks, self.open = {}, deque(), set()
        self.receive_maximum = rng.choice((1, 2, 10)) if version == 5 else 0
        properties = {"receive_maximum": self.receive_maximum, "session_expiry_interval": expiry}
        if self.tells:
            properties["user_property"] = (("seq", "1"),)
        self.presence.opens(clean=clean)
        earlier, sent_at = list(self.wills), world.loop.time()
        self.planted = world.store.planted
        if clean:
            self._forget()
        self.must_begin = not expiry or clean
        self.fleeting |= self.must_begin  # until CONNACK the session may be the one before, still
        will = self._will(expiry) if rng.random() < 0.5 and not world.closing else None
        world.trace(f"{self.name} connects {clean=} {expiry=} will={will}")
        link.send(Connect(version, self.name, clean, will=will,
                          properties=properties if version == 5 else None))  # fmt: skip
        packet = await link.receive()
        world.trace(f"{self.name} hears {packet}")
        if not isinstance(packet, Connack) or packet.reason:
            self._refused(link, packet, expiry)
            for one in earlier:
                one.perhaps_succeeded(sent_at)
            return False
        self.presence.opened(link, expiry, present=packet.session_present)
        for one in earlier:
            one.succeeded(sent_at, clean=clean)
        if will is not None:
            self.wills[-1].opened(link)
        if not packet.session_present:
            self._forget()
            self.mailbox = Mailbox(world, self.name, tells=version == 5)
        self.must_begin, self.fleeting, self.connected = False, not expiry, True
        return True

    def _refused(self, link, packet, expiry):
        told = getattr(packet, "reason", 0)
        excused = {0x88, 0x89}
        if self.world.store.planted > self.planted:  # more than a disk that is busy
            excused.add(0x80)
        fine = packet is None or isinstance(packet, Disconnect) or told in excused
        require(fine, f"{self.name}: a refused CONNECT", packet)
        if self.presence.certain is not True:  # it may be there anew, without anything in it
            self.must_begin = True
        self.presence.failed(link, expiry)

    def _will(self, expiry):
        world, rng = self.world, self.rng
        n = world.next_number()
        topic = rng.choice(("w/1", "u/1", "Dog/1", "v/1"))
        delay = rng.choice(DELAYS_SECONDS) if self.version == 5 else 0
        testament = Testament(world, self.name, n, delay, expiry)
        self.wills.append(testament)
        world.attempt(n, self.name, LATER, will=testament)
        world.unanswered(n)
        properties = {"will_delay_interval": delay} if delay else None
        payload = make_payload(rng, topic, n)
        return Will(topic, payload, rng.randrange(3), rng.random() < 0.3, properties)

    def _forget(self):
        """Lose all that the client keeps of its session."""
        for parcel in self.outbox.values():
            if parcel.n is not None and self.world.attempts[parcel.n].outcome is None:
                self.world.unanswered(parcel.n)
        self.former, self.mailbox = self.mailbox or self.former, None
        self.outbox, self.taken, self.granted, self.leaving = {}, {}, {}, set()

    def wants(self, topic):
        """Tell whether a message of QoS 1 must be kept for it now; None if nobody can know."""
        box = self.mailbox or self.former
        there = self.presence.certain
        wanted = box.wants(topic) if box is not None and there is not False else False
        doubtful = self.mailbox is None or there is None or self.fleeting
        return None if wanted and doubtful else wanted

    # -- what it sends -----------------------------------------------------------------------------

    async def _talk(self, link):
        world, rng = self.world, self.rng
        for packet_id, parcel in self.outbox.items():
            self._send_again(packet_id, parcel)
        while not link.over:
            if self.fleeting and self.version == 4:
                self._say_goodbye()
                return
            await world.loop.pause(rng.choice((0, 0.001, 0.004, 0.03)))
            self._ask()
            if world.quiet:
                link.go()
                if world.closing:
                    self._say_goodbye()
                    return
                await world.loop.pause(2)
            elif self._leaves():
                return
            elif rng.random() < 0.5 and self.publishes > 0:
                self._publish()

    def _leaves(self):
        """End the connection in one way or another, or do not; return whether it did."""
        link, choice = self.link, self.rng.random()
        if choice < 0.03:
            self.world.trace(f"{self.name} vanishes")
            link.drop()
        elif choice < 0.05:
            self._say_goodbye()
        elif choice < 0.06:
            self.world.trace(f"{self.name} comes again elsewhere")
            link.abandon()
        else:
            if choice < 0.1:
                link.stop()
            elif choice < 0.25:
                link.go()
            return False
        return True

    def _say_goodbye(self):
        rng, link = self.rng, self.link
        properties, reason = None, 0
        if self.version == 5 and not self.world.closing:
            reason = rng.choice((0, 0, 4))
            if rng.random() < 0.3 and not self.fleeting:
                seconds = rng.choice(EXPIRIES_SECONDS)
                properties = {"session_expiry_interval": seconds}
                self.presence.says_goodbye(seconds)
        link.go()
        link.goodbye = Disconnect(reason, properties)
        self.world.trace(f"{self.name} says {link.goodbye}")
        link.send(link.goodbye)

    def _next_id(self):
        while True:
            self.packet_id = self.packet_id % 60_000 + 1
            if self.packet_id not in self.outbox and self.packet_id not in self.operations:
                return self.packet_id

    def _ask(self):
        """Subscribe to what is not granted, and now and then to something else, or to less."""
        rng, world = self.rng, self.world
        if self.operations:
            return
        wanted = [text for text, qos in self.granted.items() if qos is None]
        if self.leaving:
            self._unsubscribe(min(self.leaving))
        elif wanted or not self.granted:
            self._subscribe(wanted[0] if wanted else self.filters[0])
        elif not world.quiet and rng.random() < 0.05:
            text = rng.choice(self.filters)
            if text in self.granted and rng.random() < 0.5:
                self._unsubscribe(text)
            else:
                self._subscribe(text)

    def _subscribe(self, text):
        rng, packet_id = self.rng, self._next_id()
        qos, no_local, handling = rng.randrange(3), False, 0
        if self.version == 5:
            no_local, handling = rng.random() < 0.1, rng.choice((0, 0, 0, 1, 2))
        self.granted[text] = None
        self.operations[packet_id] = text, qos, no_local
        self.mailbox.asks(text, qos, no_local=no_local, handling=handling)
        self.world.trace(f"{self.name} subscribes {text} {qos=} {no_local=} {handling=}")
        self.link.send(Subscribe(packet_id, (Subscription(text, qos, no_local, False, handling),)))

    def _unsubscribe(self, text):
        packet_id = self._next_id()
        self.leaving.add(text)
        self.operations[packet_id] = text, None, False
        self.mailbox.leaves(text)
        self.world.trace(f"{self.name} unsubscribes {text}")
        self.link.send(Unsubscribe(packet_id, (text,)))

    def _publish(self):
        world, rng = self.world, self.rng
        qos = rng.randrange(3) if len(self.outbox) < IN_FLIGHT_MAX else 0
        topic = rng.choice((*TOPICS, "w/1", "v/1"))
        kind = choose_kind(rng, topic, patches=False)
        if kind == DELETE and self.version != 5:
            kind = MESSAGE
        n = world.next_number()
        world.attempt(n, f"{self.name}/{self.link.number}", LATER)
        self.publishes -= 1
        payload = b"" if kind == DELETE else make_payload(rng, topic, n)
        properties = {"user_property": (("n", str(n)),)} if kind == DELETE else None
        packet = Publish(topic, payload, qos, kind != MESSAGE, False, 0, properties)
        if qos:
            packet.packet_id = self._next_id()
            self.outbox[packet.packet_id] = Parcel(packet, n)
        else:
            world.unanswered(n)
        if qos == 1:
            world.store.repeatable.add(n)
        world.trace(f"{self.name} publishes {kind} {topic} {qos=} {n=} id={packet.packet_id}")
        self.link.send(packet)

    def _send_again(self, packet_id, parcel):
        """Send what was not complete when the last connection ended (MQTT-4.4.0-1)."""
        self.world.trace(f"{self.name} sends again id={packet_id} n={parcel.n}")
        if parcel.released:
            self.link.send(Pubrel(packet_id))
            return
        parcel.packet.dup = True
        self.world.attempts[parcel.n].sends += 1
        self.link.send(parcel.packet)

    # -- what it hears -----------------------------------------------------------------------------

    async def _listen(self, link):
        handlers = {
            Publish: self._on_publish, Pubrel: self._on_pubrel, Puback: self._on_answer,
            Pubrec: self._on_answer, Pubcomp: self._on_pubcomp, Suback: self._on_suback,
            Unsuback: self._on_unsuback, Disconnect: self._on_disconnect,
        }  # fmt: skip
        while (packet := await link.receive()) is not None:
            handlers[type(packet)](packet)
            if not self.world.quiet and self.rng.random() < 0.2:
                await self.world.loop.pause(self.rng.choice((0.001, 0.01)))
        self.world.trace(f"{self.name} is disconnected")

    def _acknowledge(self, packet):
        """Send an acknowledgement soon; they go in their order (MQTT-4.6.0-2)."""
        self.acks.append(packet)
        delay = self.rng.choice((0, 0, 0.002, 0.01))
        self.world.loop.call_later(delay, self._send_ack, self.link, self.acks)

    def _send_ack(self, link, acks):
        packet = acks.popleft()
        if not link.over:
            if not isinstance(packet, Pubrec):
                self.open.discard(packet.packet_id)
            link.send(packet)

    def _on_publish(self, packet):
        packet_id, n = packet.packet_id, number_of(packet.payload, packet.properties)
        self.world.trace(
            f"{self.name} got {packet.topic} {n=} qos={packet.qos} id={packet_id} "
            f"dup={packet.dup} retain={packet.retain}"
        )
        told = packet.topic.startswith("$")  # of the server; a gap may have a QoS
        if packet.qos:
            require(packet_id not in self.open, f"{self.name}: an identifier in use", packet)
            self.open.add(packet_id)
            most = self.receive_maximum or inf
            require(len(self.open) <= most, f"{self.name}: over its Receive Maximum", packet)
        if packet.qos < 2:
            require(packet_id not in self.taken, f"{self.name}: an identifier in use", packet)
            if not told:
                self.mailbox.came(packet, n, self.link.server)
            if packet.qos:
                self._acknowledge(Puback(packet_id))
            return
        known = self.taken.get(packet_id)
        if known is None:
            if not told:
                self.mailbox.came(packet, n, self.link.server)
            self.taken[packet_id] = packet.topic, n
        else:
            same = packet.dup and known == (packet.topic, n)
            require(same, f"{self.name}: an identifier that is not released", packet, known)
        self._acknowledge(Pubrec(packet_id))

    def _on_pubrel(self, packet):
        self.taken.pop(packet.packet_id, None)
        self._acknowledge(Pubcomp(packet.packet_id))

    def _on_answer(self, packet):
        """Take the PUBACK or PUBREC of a publish of its own."""
        parcel = self.outbox.get(packet.packet_id)
        require(parcel is not None, f"{self.name}: an answer to nothing", packet)
        attempt = self.world.attempts[parcel.n]
        refused = packet.reason >= 0x80
        if attempt.outcome is None:
            event = Event("", "", b"")
            event.seq = -1
            code = Code.BUSY if packet.reason == 0x97 else Code.INVALID
            told = Error(code, str(packet.properties)) if refused else Receipt(event)
            self.world.answered(parcel.n, told, None)
        if isinstance(packet, Puback) or refused:
            del self.outbox[packet.packet_id]
        else:
            parcel.released = True
            self.link.send(Pubrel(packet.packet_id))

    def _on_pubcomp(self, packet):
        parcel = self.outbox.pop(packet.packet_id, None)
        fine = parcel is not None and parcel.released
        require(fine, f"{self.name}: PUBCOMP without PUBREL", packet)

    def _on_suback(self, packet):
        text, qos, no_local = self.operations.pop(packet.packet_id)
        require(packet.reasons == (qos,), f"{self.name}: a refused SUBSCRIBE", packet)
        self.granted[text] = qos
        self.mailbox.granted(text, qos, no_local=no_local)
        self.world.trace(f"{self.name} has {text}")

    def _on_unsuback(self, packet):
        text, _, _ = self.operations.pop(packet.packet_id)
        del self.granted[text]
        self.leaving.discard(text)
        self.mailbox.left(text)
        self.world.trace(f"{self.name} has no more {text}")

    def _on_disconnect(self, packet):
        require(packet.reason in EXCUSED, f"{self.name}: a mistake, it is told", packet)

    # -- the end -----------------------------------------------------------------------------------

    def killed(self, now):
        """Hear that the server was killed and is back."""
        self.presence.killed(now)
        for one in self.wills:
            one.killed(now)

    def finish(self):
        require(self.connected, f"{self.name} is not connected")
        require(not self.outbox, f"{self.name}: not complete", list(self.outbox))
        require(not self.taken, f"{self.name}: never released", self.taken)
        session = self.link.client.session
        require(not len(session.window), f"{self.name}: in flight at the end")
        require(not session.inbound, f"{self.name}: identifiers are held", session.inbound)
        self.mailbox.finish()
        for one in self.wills:
            one.finish()

    async def _end(self, server):
        """End the session for good; return whether that is known."""
        self.link = link = Link(self.world, server, self.version)
        if not await self._connect(link, True, 0):
            return False
        self._say_goodbye()
        await self._listen(link)
        return link.ended_by_server
