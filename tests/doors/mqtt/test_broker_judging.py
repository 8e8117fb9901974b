"""Those that are connected are judged anew when what they may do has changed (L8)."""

import asyncio
from dataclasses import replace

import pytest

from mqtt_server import Disconnect, MqttServer, Publish, Subscribe, Subscription, payloads
from rowcast.core.callers import ALL, NONE, Grants
from rowcast.core.errors import Code, Error
from rowcast.features.hooks.hook import Hook
from rowcast.mqtt.reasons import Reason

CLIENTS, FILTERS = 100, 100


def refusing(error):
    def judge(_caller):
        raise error

    return judge


WAYS = {
    "disabled": (refusing(Error(Code.DENIED, "the user was disabled")), 0x98),
    "token over": (refusing(Error(Code.UNAUTHENTICATED, "the token is over")), 0x87),
    "rights less": (lambda caller: replace(caller, grants=NONE), 0x87),
    "only write": (lambda caller: replace(caller, grants=Grants(write=True)), 0x87),
}


@pytest.fixture
async def world():
    made = MqttServer()
    yield made
    for peer in made.peers:
        peer.lose()
    await made.stop()
    await made.turn()


async def gather(world, count):
    """Return so many readers, of so many filters."""
    readers = []
    for number in range(count):
        peer = world.peer()
        await peer.connect(f"c{number}")
        filters = (f"topic/{number}/+", *(f"{number}/{n}" for n in range(FILTERS - 1)))
        peer.send(Subscribe(1, tuple(Subscription(x, retain_handling=2) for x in filters)))
        while not await peer.hear():
            pass  # so many filters may take more than a turn of the loop
        readers.append(peer)
    return readers


@pytest.mark.slow
async def test_l8_ten_thousand_live_subscriptions_end_at_once(world):
    """All in the turn in which it changes: no event can come between; in every way."""
    stays = await world.subscribed("topic/+/1", client_id="stays")
    readers = await gather(world, CLIENTS)
    assert CLIENTS * FILTERS + 1 == world.kernel.bus.subscriptions
    quarter = CLIENTS // len(WAYS)
    for place, (name, (judge, reason)) in enumerate(WAYS.items()):
        gone = readers[place * quarter : (place + 1) * quarter]
        ids = {f"c{place * quarter + n}" for n in range(quarter)}
        world.kernel.reauthorization.judges[:] = [
            lambda caller, ids=ids, judge=judge: (
                judge(caller) if caller.client_id in ids else caller
            )
        ]
        world.kernel.reauthorization.changed()
        told = [peer.heard() for peer in gone]  # before any other turn of the loop
        assert {(Disconnect, Reason(reason))} == {(type(p), p.reason) for (p,) in told}, name
        number = place * quarter
        await world.say(f"topic/{number}/1", b"x")
        assert [[]] * quarter == [peer.heard() for peer in gone], name
        assert [b"x"] == payloads(await stays.hear())
    await world.turn()
    assert 1 == world.kernel.bus.subscriptions


async def test_l8_who_may_stay_stays(world):
    readers = await gather(world, 10)
    world.kernel.reauthorization.judges.append(
        lambda caller: replace(caller, grants=replace(ALL, write=False))
    )
    world.kernel.reauthorization.changed()
    assert [[]] * 10 == [peer.heard() for peer in readers]
    await world.say("topic/7/2", b"x")
    (heard,) = await readers[7].hear()
    assert isinstance(heard, Publish)


# -- changed while a SUBSCRIBE is carried out ------------------------------------------------------


class Asked(Hook):
    """Waits before it answers, and moves filters to other topics."""

    def __init__(self, prefix):
        self.prefix, self.go = prefix, asyncio.Event()

    async def on_subscribe(self, caller, interest):
        await self.go.wait()
        interest.filter = self.prefix + interest.filter


def forbid_reading(world):
    """Take the right to read from everybody."""
    world.kernel.reauthorization.judges.append(
        lambda caller: replace(caller, grants=Grants(write=True))
    )
    world.kernel.reauthorization.changed()


async def refused(world, peer, topics):
    """Return the reasons of its SUBACK, when nothing at these topics reaches it."""
    heard = []
    while not heard:
        heard = await peer.hear()
    for topic in topics:
        await world.say(topic, b"x")
    assert [] == await peer.hear()
    assert not peer.client.session.subscription.caller.grants.read
    return {reason for suback in heard for reason in suback.reasons}


@pytest.mark.parametrize("prefix", ["", "moved/"])
async def test_l8_filters_that_a_hook_kept_waiting_are_judged_by_the_rights_of_then(world, prefix):
    """L8: the second one is asked about after the change, and a moved one is asked again."""
    hook = Asked(prefix)
    world.kernel.hooks.add(hook)
    peer = await world.connected()
    peer.send(Subscribe(1, (Subscription("a/1"), Subscription("a/2"))))
    await world.turn()
    forbid_reading(world)
    hook.go.set()
    assert {0x87} == await refused(world, peer, [f"{prefix}a/1", f"{prefix}a/2"])


async def test_l8_filters_that_take_many_turns_are_judged_by_the_rights_of_then(world):
    """L8: many filters are entered in slices of the loop, and rights change between two."""
    peer = await world.connected()
    peer.send(Subscribe(1, tuple(Subscription(f"a/{n}", retain_handling=2) for n in range(5_000))))
    await world.short_turn()
    forbid_reading(world)
    assert {0x87} == await refused(world, peer, ["a/1", "a/4999"])


# -- changed while writes wait ---------------------------------------------------------------------


class First(Hook):
    """Keeps the first write waiting."""

    def __init__(self):
        self.go = asyncio.Event()

    async def on_publish(self, caller, event):
        if event.payload == b"1":
            await self.go.wait()


def rename(world):
    """Give everybody another attribute, which changes no right."""
    world.kernel.reauthorization.judges.append(
        lambda caller: caller if caller.claims else replace(caller, claims={"site": "north"})
    )
    world.kernel.reauthorization.changed()


async def test_l8_writes_that_wait_for_a_hook_stay_in_order_when_rights_change(world):
    """L8: else the older value would come last, and stay."""
    hook = First()
    world.kernel.hooks.add(hook)
    peer = await world.connected()
    peer.publish("a/1", b"1", qos=1, packet_id=1)
    await world.turn()
    rename(world)
    peer.publish("a/1", b"2", qos=1, packet_id=2)
    await world.turn()
    hook.go.set()
    await world.turn()
    assert [b"1", b"2"] == [event.payload for event in world.store.read(0, 99)]
