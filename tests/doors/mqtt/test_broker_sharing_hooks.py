"""Hooks see shared subscriptions as any others (G4, G6, G8, G18; X2)."""

import asyncio
from dataclasses import replace

import pytest
from shared_workers import SHARE, ended, publish, returned, texts, worker

from mqtt_server import MqttServer, payloads
from rowcast.core.callers import NONE
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import DROP, Hook
from rowcast.mqtt.packets import Subscribe, Subscription, Unsubscribe
from rowcast.mqtt.reasons import Reason


class Blinds(Hook):
    """Lets the client x read no odd numbers below a topic of that name."""

    def can_read(self, caller, topic):
        return caller.client_id != "x" or not topic.endswith("odd")


class Editor(Hook):
    """Changes one message, drops another, and sends a third with QoS 0."""

    def on_publish_deliver(self, caller, event):
        if event.payload == b"1":
            return event.changed(payload=b"one for " + caller.client_id.encode())
        if event.payload == b"2":
            return DROP
        return event.changed(qos=0) if event.payload == b"3" else None


class Guide(Hook):
    """Refuses one filter, and sends who asks for another elsewhere, with less QoS."""

    def on_subscribe(self, caller, interest):
        if interest.topics.text == "secret":
            raise Error(Code.DENIED, "no")
        if interest.topics.text == "old/#":
            interest.topics = TopicFilter("a/#")
            interest.qos = 1
            return interest
        return None


async def test_what_a_member_may_not_read_goes_to_another(world):
    """G6: nothing is lost for a group of which one may read it."""
    world.kernel.hooks.add(Blinds())
    one, two = await worker(world, "x"), await worker(world, "y")
    await publish(world, (1, 2), topic="a/odd")
    await publish(world, (3, 4), topic="a/even")
    await one.hear()
    await two.hear()
    assert texts((1, 2)) == two.heard[:2]
    assert texts((3, 4)) == sorted(one.heard + two.heard[2:])


async def test_what_is_delivered_may_be_changed_or_dropped(world):
    """G8: what is dropped is done, and nobody else is assigned it."""
    world.kernel.hooks.add(Editor())
    one = await worker(world, "x")
    await publish(world, range(1, 5))
    assert [b"one for x", b"3", b"4"] == await one.hear()
    assert [b"one for x", b"4"] == [
        b"one for x" if packet.payload.startswith(b"one") else packet.payload for packet in one.open
    ]
    two = await worker(world, "y")
    one.peer.lose()
    assert [b"one for y", b"4"] == await two.hear()


@pytest.mark.parametrize("killed", [False, True])
async def test_a_share_may_be_refused_or_sent_elsewhere(killed):
    """G4: the filter without its group is what a hook is asked about; what it says is kept."""
    world = MqttServer()
    world.kernel.hooks.add(Guide())
    peer = await world.connected(
        "x", clean_start=False, properties={"session_expiry_interval": 3600}
    )
    share = "$share/g/old/#"
    asked = await peer.subscribe("$share/g/secret", share, qos=2)
    assert (Reason.NOT_AUTHORIZED, 1) == asked
    peer.lose()
    await publish(world, [1])
    there = await world.killed() if killed else world
    there.kernel.hooks.add(Guide())
    back = await returned(there, "x")
    assert texts([1]) == back.heard
    await back.work()
    (answer,) = await back.peer.ask(Unsubscribe(9, (share,)))
    assert (Reason.SUCCESS,) == answer.reasons
    assert [] == list(there.groups)
    await ended(there)


async def test_listeners_hear_of_shares(world):
    """G18."""
    told = []
    world.kernel.hooks.on("subscribe", lambda given, caller: told.append(given[0].topics.text))
    world.kernel.hooks.on("unsubscribe", lambda given, caller: told.append(given))
    one = await worker(world, "x")
    await one.peer.ask(Unsubscribe(9, (SHARE,)))
    await world.turn()
    assert ["a/#", ["a/#"]] == told


async def test_a_table_that_is_hidden_here_is_not_assigned(world):
    """A record of a table that MQTT is not shown is done for the group, at any QoS."""
    peers = [
        await world.subscribed("$share/g/Secret/#", client_id=str(qos), qos=qos) for qos in (0, 1)
    ]
    for number in range(4):
        await world.put(f"Secret/{number}", b'{"n": 1}')
    for peer in peers:
        assert ([], False) == (payloads(await peer.hear()), peer.closed)
    group = world.groups.find("g", "Secret/#")
    assert 0 == sum(len(state.assignments) for state in group._member_states.values())


async def test_a_share_that_means_another_filter_now_leaves_the_one_before(world):
    """G4: the hook came after the first SUBSCRIBE."""
    one = await worker(world, "x", share="$share/g/old/#")
    world.kernel.hooks.add(Guide())
    assert (1,) == await one.peer.subscribe("$share/g/old/#", qos=1)
    assert ["a/#"] == [group.topics.text for group in world.groups]


@pytest.mark.parametrize("share", ["", "$share/g/"])
async def test_l8_rights_that_change_while_a_hook_thinks_count(world, share):
    """L8, G4: who may read nothing any more joins no group, either."""

    class Thinker(Hook):
        async def on_subscribe(self, caller, interest):
            await thinking.wait()

    thinking, access = asyncio.Event(), world.kernel.reauthorization
    world.kernel.hooks.add(Thinker())
    peer = await world.connected()
    peer.send(Subscribe(7, (Subscription(f"{share}a", 1),)))
    await world.turn()
    access.judges.append(lambda caller: replace(caller, grants=NONE))
    access.changed()
    thinking.set()
    (answer,) = await peer.hear()
    assert (Reason.NOT_AUTHORIZED,) == answer.reasons
    assert 0 == world.kernel.bus.subscriptions
