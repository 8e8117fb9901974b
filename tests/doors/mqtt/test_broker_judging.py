"""Those that are connected are judged anew when what they may do has changed (L8)."""

from dataclasses import replace

import pytest

from mqtt_server import Disconnect, MqttServer, Publish, Subscribe, Subscription, payloads
from rowcast.core.callers import ALL, NONE, Grants
from rowcast.core.errors import Code, Error
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
