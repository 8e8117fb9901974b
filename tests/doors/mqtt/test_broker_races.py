"""Random orders of connections, losses, subscriptions and QoS 2 on a disk that is slow (D66).

Between any two steps the loop gets a random number of turns, and the writer is held or let go. What
happens is decided by a seed alone; it is a note of the failure.
"""

import asyncio
import random

import pytest

from amounts import amount
from mqtt_server import (
    Connack,
    Connect,
    Disconnect,
    MqttServer,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
)

SEEDS = (range(60), pytest.param(range(60, amount(long=220, short=120)), marks=pytest.mark.slow))
LASTING = {"session_expiry_interval": 3600}
FILTERS = ("t/#", "t/1", "t/+", "other")
STEPS = 60
CHANCES = {
    "connect": 4, "clean": 1, "lose": 2, "leave": 1, "publish": 8, "subscribe": 3,
    "unsubscribe": 2, "disk": 4, "time": 1,
}  # fmt: skip
"""What may happen next, and how often."""


class Device:
    """A client that follows the protocol, over as many connections as it takes."""

    def __init__(self, world, dice, name):
        self.world, self.dice, self.name = world, dice, name
        self.peer = None
        self.open = False
        self.next_id = self.sent = 0
        self.outbox = {}
        """Packet identifiers to payload, and whether PUBREC came."""
        self.stored = set()
        """Payloads that the server said are stored."""
        self.taken = set()
        """Identifiers of QoS 2 messages that were not released yet."""
        self.got = []

    def connect(self, *, clean=False):
        """Begin a connection; the one before, if there is one, is left to be taken over."""
        self.peer, self.open = self.world.peer(), False
        if clean:  # MQTT-3.1.2-4 binds the client too
            self.outbox.clear()
            self.taken.clear()
        self.peer.send(Connect(5, self.name, clean, properties=LASTING))

    def lose(self):
        if self.peer is not None:
            self.peer.lose()
        self.peer, self.open = None, False

    def leave(self):
        if self.open:
            self.peer.send(Disconnect())
        self.lose()

    def publish(self):
        """Say something with QoS 2."""
        if self.open and len(self.outbox) < 5:
            self.next_id, self.sent = self.next_id % 7 + 1, self.sent + 1
            if self.next_id not in self.outbox:
                payload = f"{self.name}{self.sent}".encode()
                self.outbox[self.next_id] = payload, False
                self.peer.publish("t/1", payload, 2, packet_id=self.next_id)

    def subscribe(self):
        if self.open:
            wanted = Subscription(self.dice.choice(FILTERS), self.dice.randint(0, 2))
            self.peer.send(Subscribe(9, (wanted,)))

    def unsubscribe(self):
        if self.open:
            self.peer.send(Unsubscribe(9, (self.dice.choice(FILTERS),)))

    def hear(self):
        """Take what came, and answer it."""
        for packet in self.peer.heard() if self.peer is not None else ():
            answer = getattr(self, f"_on_{type(packet).__name__.lower()}", None)
            if answer is not None:
                answer(packet)
        if self.peer is not None and self.peer.closed:
            self.peer, self.open = None, False

    def _on_connack(self, packet):
        assert (0, False) == (packet.reason, self.open)
        self.open = True
        if not packet.session_present:
            self.outbox.clear()
            self.taken.clear()
        for packet_id, (payload, received) in self.outbox.items():
            again = Publish("t/1", payload, 2, False, True, packet_id)
            self.peer.send(Pubrel(packet_id) if received else again)

    def _on_pubrec(self, packet):
        payload, received = self.outbox[packet.packet_id]
        assert (0, False) == (packet.reason, received)
        self.outbox[packet.packet_id] = payload, True
        self.stored.add(payload)
        self.peer.send(Pubrel(packet.packet_id))

    def _on_pubcomp(self, packet):
        del self.outbox[packet.packet_id]

    def _on_publish(self, packet):
        assert self.open
        if packet.qos < 2 or packet.packet_id not in self.taken:
            self.got.append((packet.payload, packet.qos))
        if packet.qos == 2:
            assert packet.dup or packet.packet_id not in self.taken
            self.taken.add(packet.packet_id)
        if packet.qos:
            self.peer.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))

    def _on_pubrel(self, packet):
        self.taken.discard(packet.packet_id)
        self.peer.send(Pubcomp(packet.packet_id))


def step(world, dice, device):
    """Do one of the things that may happen next."""
    what = dice.choices(
        (
            "connect",
            "clean",
            "lose",
            "leave",
            "publish",
            "subscribe",
            "unsubscribe",
            "disk",
            "time",
        ),
        (4, 1, 2, 1, 8, 3, 2, 4, 1),
    )[0]
    if what == "disk":
        (world.writer.hold if world.writer.held is None else world.writer.release)()
    elif what == "time":
        world.time += 0.3
        world.loop.advance(0.3)
    elif what == "clean":
        device.connect(clean=True)
    else:
        getattr(device, what)()


def close(world):
    """Let the connections that the server closed be gone."""
    for peer in world.peers:
        if peer.closed:
            peer.lose()


def check_connections(world):
    """A session has one connection at most, and each knows the other."""
    for session in world.broker.sessions:
        assert session.client is None or session.client.session is session
    for client in world.broker.clients:
        session = client.session
        assert session is None or session.client is client
        assert session is None or world.broker.sessions.get(session.client_id) is session


async def settle(world, devices):
    """Let go of the disk, bring everybody back, and let all dialogues end."""
    if world.writer.held is not None:
        world.writer.release()
    await world.turn()
    for device in devices:
        device.hear()
        if not device.open:
            device.connect()
    for _ in range(20):
        await world.turn()
        for device in devices:
            device.hear()
    await world.pass_time(1)


def check_messages(devices, watcher):
    """QoS 2: what was said to be stored came once; nothing came twice (MQTT-4.3.3-1)."""
    for device in (*devices, watcher):
        assert device.open
        assert ({}, set()) == (device.outbox, device.taken)
        exact = [payload for payload, qos in device.got if qos == 2]
        assert len(set(exact)) == len(exact)
    came = {payload for payload, _ in watcher.got}
    for device in devices:
        assert device.stored <= came


async def check_nothing_is_left(world, devices):
    """When all sessions have ended, neither memory nor disk has anything of them (D26)."""
    for device in devices:
        device.lose()
        await world.turn()
        device.connect(clean=True)
        await world.turn()
        device.peer.send(Disconnect(properties={"session_expiry_interval": 0}))
        await world.turn()
        device.lose()
    close(world)
    await world.pass_time(1)
    kernel = world.kernel
    left = len(world.broker.sessions), len(world.broker.clients), kernel.bus.subscriptions
    assert ((0, 0, 0), []) == (left, world.store.states("session/"))
    assert ({}, False, []) == (
        kernel.committer.pending,
        kernel.durable.wanted("t/1"),
        list(world.groups),
    )


async def race(seed):
    dice, world = random.Random(seed), MqttServer()
    devices = [Device(world, dice, name) for name in "abc"]
    watcher = Device(world, dice, "w")
    watcher.connect()
    await world.turn()
    watcher.hear()
    watcher.peer.send(Subscribe(1, (Subscription("t/#", 2),)))
    await world.turn()
    for _ in range(STEPS):
        device = dice.choice(devices)
        step(world, dice, device)
        for _ in range(dice.choice((0, 0, 1, 2, 5, 30))):
            await asyncio.sleep(0)
        dice.choice((device.hear, watcher.hear))()
        close(world)
        check_connections(world)
    await settle(world, (*devices, watcher))
    check_connections(world)
    check_messages(devices, watcher)
    await check_nothing_is_left(world, (*devices, watcher))
    await world.broker.stop()
    await world.stop()
    assert [] == world.loop.due()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
async def test_no_order_breaks_a_promise(seeds):
    """D66, D16, D26, D29, MQTT-3.1.4-3, MQTT-4.3.3-1."""
    for seed in seeds:
        try:
            await race(seed)
        except Exception as failure:
            failure.add_note(f"seed {seed}")
            raise


async def test_connack_is_the_first_word():
    """The devices would notice another one: their rules are not empty."""
    world = MqttServer()
    device = Device(world, random.Random(0), "a")
    device.connect()
    await world.turn()
    assert [Connack] == [type(packet) for packet in device.peer.heard()]
    with pytest.raises(AssertionError):
        device._on_publish(Publish("t/1", b"x", 0))
    device.lose()
    await world.broker.stop()
