"""What goes to a node that no longer numbers is ended, whatever that node does (K4)."""

import asyncio

from rowcast.cluster.lease_keeper import Holder
from rowcast.net.relay import MQTT, Client
from rowcast.program import relaying
from rowcast.program.relaying import Relays


class Keeper:
    """Knows who numbers."""

    def __init__(self, life):
        self.holder = Holder("a", life, "127.0.0.1", 1, "")


class Transport:
    """A connection to another node."""

    def __init__(self):
        self.aborted = self.closing = False

    def abort(self):
        self.aborted = self.closing = True

    def is_closing(self):
        return self.closing


async def test_connections_to_a_stopped_node_end_when_another_one_numbers(monkeypatch):
    made = []

    async def relay(*_):
        made.append(Transport())
        return made[-1]

    monkeypatch.setattr(relaying, "relay", relay)
    keeper = Keeper("old")
    relays = Relays(keeper, "own", b"key", None)

    async def opened(count):
        client = Client(MQTT, "10.0.0.1")
        return [await relays.open(client, asyncio.Protocol(), 1.0) for _ in range(count)]

    old = await opened(3)
    relays.leave_others("old")
    assert not any(one.aborted for one in old)
    keeper.holder = Holder("b", "new", "127.0.0.1", 2, "")
    new = await opened(2)
    relays.leave_others("new")
    assert all(one.aborted for one in old)
    assert not any(one.aborted for one in new)


async def test_what_has_ended_is_forgotten(monkeypatch):
    async def relay(*_):
        return Transport()

    monkeypatch.setattr(relaying, "relay", relay)
    relays = Relays(Keeper("old"), "own", b"key", None)
    for _ in range(5 * relaying.PRUNE_LEAST):
        one = await relays.open(Client(MQTT, "10.0.0.1"), asyncio.Protocol(), 1.0)
        one.closing = True
    assert len(relays._open) <= relaying.PRUNE_LEAST
