"""A PUBLISH to ``$tx``: what its sender writes behind it comes after the transaction."""

import asyncio
import json

import pytest

from mqtt_server import OTHER, Disconnect, Puback, Publish
from rowcast.core.errors import Code, Error
from rowcast.features.hooks.hook import Hook
from rowcast.features.transactions.feature import Transactions
from rowcast.mqtt.encode import encode

MOVE = json.dumps([{"op": "put", "topic": f"Dog/{n}", "value": {"name": "moved"}} for n in (1, 2)])
LATER = b'{"name":"later"}'


def transaction(topic="$tx", qos=1, payload=MOVE, properties=None):
    return Publish(topic, payload.encode(), qos, False, False, 1 if qos else 0, properties)


def put(name, qos=1, packet_id=2):
    return Publish(f"Dog/{name}", LATER, qos, True, False, packet_id if qos else 0, None)


async def value_at(world, topic):
    return json.loads((await world.kernel.read(topic, OTHER)).payload)["name"]


@pytest.fixture
def world(world):
    """The broker's world, with transactions."""
    Transactions().install(world.kernel)
    return world


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("topic", ["$tx", "/$tx"])
@pytest.mark.parametrize("properties", [None, {"user_property": (("a", "b"),)}])
async def test_a_publish_behind_a_transaction_comes_after_it(world, qos, topic, properties):
    """B22: in one read of the socket, and in the next; also where the session is on disk."""
    watcher = await world.subscribed("Dog/#", qos=1)
    peer = await world.connected(properties={"session_expiry_interval": 60})
    first = transaction(topic, qos, properties=properties)
    peer.send(put(1, packet_id=3), first, put(1, qos), put(2, 0))
    peer.publish("Dog/3", LATER, retain=True)
    await peer.hear()
    heard = [(item.topic, json.loads(item.payload)["name"]) for item in watcher.heard()]
    assert heard == [
        ("Dog/1", "later"), ("Dog/1", "moved"), ("Dog/2", "moved"), ("Dog/1", "later"),
        ("Dog/2", "later"), ("Dog/3", "later"),
    ]  # fmt: skip


async def test_a_publish_behind_a_refused_transaction_is_written(world):
    """B22: whether it is refused at once or after a look at the records; answered in order."""
    peer = await world.connected()
    for payload in ("[]", json.dumps([{"op": "delete", "topic": "Dog/9"}])):
        answers = await peer.ask(transaction(payload=payload), put(1))
        assert [type(item) for item in answers] == [Puback, Puback]
        assert [item.packet_id for item in answers] == [1, 2]
        assert await value_at(world, "Dog/1") == "later"


async def test_what_was_sent_before_the_connection_is_lost_is_written(world):
    """B22: as behind a SUBSCRIBE, also a DISCONNECT waits, and a refusal ends nothing."""
    for name, end in (("a", Disconnect()), ("b", None)):
        peer = await world.connected(name)
        packets = [transaction(qos=0), transaction(qos=0, payload="[]"), put(name, 0)]
        packets += [] if end is None else [end]
        peer.send_bytes(b"".join(encode(packet, 5) for packet in packets))
        peer.lose()
        await world.turn()
        assert await value_at(world, f"Dog/{name}") == "later"
        assert await value_at(world, "Dog/2") == "moved"


async def test_a_publish_behind_a_repeated_transaction_comes_after_it_too(world):
    """B22: the connection was lost while it ran; its sender repeats it, and goes on behind it."""
    thought = asyncio.Event()

    class Slow(Hook):
        async def on_publish(self, caller, event):
            if event.topic in {"Dog/1", "Dog/2"} and b"moved" in event.payload:
                await thought.wait()

    world.kernel.hooks.add(Slow())
    watcher = await world.subscribed("Dog/#", qos=1)
    expiry = {"session_expiry_interval": 60}
    first = await world.connected(properties=expiry)
    assert await first.ask(transaction(qos=2)) == []
    again = await world.connected(clean_start=False, properties=expiry)
    repeated = Publish("$tx", MOVE.encode(), 2, False, True, 1, None)
    assert await again.ask(repeated, put(1)) == []
    thought.set()
    assert [item.packet_id for item in await again.hear()] == [1, 2]
    heard = [(item.topic, json.loads(item.payload)["name"]) for item in watcher.heard()]
    assert heard == [("Dog/1", "moved"), ("Dog/2", "moved"), ("Dog/1", "later")]


async def test_a_repeated_transaction_of_qos_2_is_written_once_whenever_the_disk_refuses(world):
    """B22, D16: its identifier is in its transaction, or a kill between would double it."""
    peer = await world.connected(properties={"session_expiry_interval": 60})
    head, commits = world.store.head(), []

    def fault(what):
        if what == "commit":
            commits.append(what)
            if len(commits) > 1:
                raise Error(Code.BUSY, "the disk is full")

    world.store.fault = fault
    await peer.ask(transaction(qos=2))
    world.store.fault = None
    assert commits == ["commit"]
    there = await world.killed()
    Transactions().install(there.kernel)
    again = await there.connected(clean_start=False, properties={"session_expiry_interval": 60})
    repeated = Publish("$tx", MOVE.encode(), 2, False, True, 1, None)
    (pubrec,) = await again.ask(repeated)
    assert (1, 0) == (pubrec.packet_id, pubrec.reason)
    assert there.store.head() == head + 2
