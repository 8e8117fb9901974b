"""Workers of a shared subscription, each a client with a connection of its own."""

from mqtt_server import Puback, Pubcomp, Publish, Pubrec, Pubrel

SHARE = "$share/g/a/#"


def lasting(version=5, seconds=3600, clean_start=False):
    """Return the options of a CONNECT whose session outlives the connection."""
    properties = {"session_expiry_interval": seconds} if version == 5 else None
    return {"clean_start": clean_start, "properties": properties}


class Worker:
    """A client that takes part in a group and does what it is sent."""

    def __init__(self, peer, name):
        self.peer, self.name = peer, name
        self.heard = []
        """Payloads in the order in which they came."""
        self.open = []
        """Messages that it did not acknowledge."""

    async def hear(self):
        """Take what came; return all that ever came."""
        return self.note(await self.peer.hear())

    def note(self, packets):
        for packet in packets:
            if isinstance(packet, Publish):
                self.heard.append(packet.payload)
                if packet.qos:
                    self.open.append(packet)
        return self.heard

    async def work(self):
        """Acknowledge all there is."""
        await self.hear()
        while self.open:
            packets, self.open = self.open, []
            for packet in packets:
                answer = Puback if packet.qos == 1 else Pubrec
                self.peer.send(answer(packet.packet_id))
            packets = await self.peer.hear()
            self.note(packets)
            for packet in packets:
                if isinstance(packet, Pubrel):
                    self.peer.send(Pubcomp(packet.packet_id))


async def worker(world, name, *, qos=1, share=SHARE, version=5, durable=False, **connect):
    """Return a worker that has subscribed."""
    options = lasting(version) if durable else {}
    options |= connect
    peer = await world.subscribed(
        share, client_id=name, version=version, qos=qos, connect=options
    )  # fmt: skip
    made = Worker(peer, name)
    made.note(peer.later)
    return made


async def returned(world, name, version=5):
    """Return a worker that came back to its session, and has heard what it was sent at once."""
    peer = world.peer(version)
    connack = await peer.connect(name, **lasting(version))
    assert connack.session_present or version == 3  # it has no such flag
    again = Worker(peer, name)
    again.note(peer.later)
    await again.hear()
    return again


async def publish(world, numbers, *, qos=1, client_id="p", topic="a/b"):
    """Publish numbered messages, as one client."""
    peer = world.publishers.get(client_id) if hasattr(world, "publishers") else None
    if peer is None:
        peer = await world.connected(client_id)
        world.publishers = {client_id: peer}
    for number in numbers:
        peer.publish(topic, b"%d" % number, qos, packet_id=number if qos else 0)
        if qos == 2:
            await peer.hear()
            peer.send(Pubrel(number))
    await peer.hear()


def texts(numbers):
    return [b"%d" % number for number in numbers]


async def ended(world):
    """End a world that a test made."""
    for peer in world.peers:
        peer.lose()
    await world.broker.stop()
    await world.stop()
    await world.turn()
