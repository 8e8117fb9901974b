"""Two Rowcast servers, bridged: each effect exactly once (M8, H25, H34, H36)."""

from dataclasses import replace
from functools import partial

import pytest
from bridged import ANN, server

from rowcast.core.errors import Error
from rowcast.features.bridges.dead_letters import topic_of_letter
from rowcast.features.bridges.state import Saved
from rowcast.features.idempotency.idempotent_writes import IdempotentWrites


@pytest.fixture
def folders(tmp_path):
    found = [tmp_path / name for name in ("edge", "cloud", "other")]
    for folder in found:
        folder.mkdir()
    return found


def to(other, *filters, **more):
    """Return the settings of a bridge to another server of this process."""
    carried = [{"filter": text} for text in filters]
    return {"host": "127.0.0.1", "port": other.application.mqtt_port, "out": carried,
            "reconnect_interval_ms": 100} | more  # fmt: skip


def saving(seconds):
    """Return what makes a bridge save its position at this interval."""
    return partial(replace, save_seconds=seconds)


def said(world, topic):
    """Return the payloads that a server has in its log at a topic."""
    events = world.application.store.read(0, 100_000)
    return [event.payload for event in events if event.topic == topic]


@pytest.mark.heavy
async def test_what_is_sent_twice_arrives_once(folders, monkeypatch):
    """M8, H26: the place is never saved, and everything is sent again, three times."""
    async with server(folders[1]) as cloud, server(folders[0], change=saving(1e9)) as edge:
        await edge.gateway.change("b", to(cloud, "u/#"))
        await edge.idle()
        for number in range(100):
            await edge.say(f"u/{number % 7}", b"%d" % number)
        await edge.idle()
        plan = edge.bridge.plan
        for _ in range(3):
            monkeypatch.setattr(edge.bridge, "_save", lambda: None)
            await edge.bridge.stop()
            again = type(edge.bridge)(plan, edge.kernel, edge.application._now)
            edge.gateway.bridges["b"] = again
            again.start(Saved(0, ()))
            await edge.idle()
            assert 100 <= again.sent
        for topic in range(7):
            expected = [b"%d" % number for number in range(100) if number % 7 == topic]
            assert expected == said(cloud, f"u/{topic}")
        assert cloud.kernel.service(IdempotentWrites).repeats >= 300


async def test_both_ways_each_message_is_delivered_once(folders):
    """H34: two of our servers, bridged both ways."""
    async with server(folders[1]) as cloud, server(folders[0]) as edge:
        await edge.gateway.change("b", to(cloud, "u/#"))
        await cloud.gateway.change("b", to(edge, "u/#"))
        await edge.idle()
        await cloud.idle()
        await edge.say("u/1", b"from the edge")
        await cloud.say("u/1", b"from the cloud")
        for world in (edge, cloud):
            await world.until(lambda world=world: len(said(world, "u/1")) == 2)
        for _ in range(2):
            await edge.idle()
            await cloud.idle()
        for world in (edge, cloud):
            assert {b"from the edge", b"from the cloud"} == set(said(world, "u/1"))
            assert 2 == len(said(world, "u/1"))


async def test_servers_that_subscribe_at_each_other_make_no_loop(folders):
    """H34: each copy would be stored and delivered to the other one, without end."""
    async with server(folders[1]) as cloud, server(folders[0]) as edge:
        for one, other in ((edge, cloud), (cloud, edge)):
            await one.gateway.change("b", to(other) | {"out": [], "in": [{"filter": "#"}]})
            await one.until(lambda one=one: one.bridge.connected)
        await edge.say("u/1", b"from the edge")
        await edge.put("Dog/1", b'{"name":"Rex"}')
        await cloud.say("u/2", b"the end")
        for world in (edge, cloud):
            await world.until(lambda world=world: b"the end" in said(world, "u/2"))
            await world.until(lambda world=world: said(world, "Dog/1"))
        for _ in range(20):
            await edge.idle()
            await cloud.idle()
        for world in (edge, cloud):
            assert len(said(world, "u/1")) <= 2
            assert len(said(world, "Dog/1")) == 1


async def test_a_value_that_waited_does_not_win_over_a_newer_one(folders):
    """H36, E26: the edge was cut off while the cloud wrote."""
    async with server(folders[1]) as cloud, server(folders[0]) as edge:
        settings = to(cloud, "u/#")
        await edge.gateway.change("b", settings | {"port": 9})
        await edge.put("u/1", b"older, of the edge")
        await cloud.put("u/1", b"newer, of the cloud")
        await edge.gateway.change("b", settings)
        await edge.idle()
        assert b"newer, of the cloud" == (await cloud.kernel.read("u/1", ANN)).payload
        await edge.put("u/1", b"")
        await edge.idle()
        with pytest.raises(Error):
            await cloud.kernel.read("u/1", ANN)


async def test_a_dead_letter_is_no_repeat(folders, monkeypatch):
    """H15: its number is long passed, and it was never delivered."""
    monkeypatch.setattr("rowcast.features.bridges.outbox.backoff_seconds", lambda _attempts: 0.01)
    async with server(folders[1]) as cloud, server(folders[0], change=saving(0.0)) as edge:
        await edge.gateway.change("b", to(cloud, "#") | {
            "out": [{"filter": "u/#", "strip": "u/"}]})  # fmt: skip
        await edge.idle()
        refused = await edge.say("u/Dog/1", b"no dog")
        await edge.until(lambda: edge.bridge.dead == 1)
        for number in range(20):
            await edge.say("u/x/1", b"%d" % number)
        await edge.idle()
        await edge.gateway.replay("b", refused.event.seq, {"payload": {"name": "Rex"}})
        await edge.idle()
        assert [b'{"name":"Rex"}'] == said(cloud, "Dog/1")
        store, letter = edge.application.store, topic_of_letter("b", refused.event.seq)
        await edge.until(lambda: store.get(None, letter) is None)


@pytest.mark.slow
async def test_restarts_of_either_side_double_and_lose_nothing(folders):
    """M8, H21: a hundred messages, and each server starts anew in their midst."""
    number = 0

    async def some(edge):
        nonlocal number
        for _ in range(25):
            await edge.say(f"u/{number % 3}", b"%d" % number)
            number += 1

    async with server(folders[0]) as edge:
        await edge.gateway.change("b", {"host": "127.0.0.1", "port": 9, "out": [{"filter": "u/#"}]})
        await some(edge)
    for _ in range(2):
        async with server(folders[1]) as cloud:
            async with server(folders[0]) as edge:
                await edge.gateway.change("b", to(cloud, "u/#"))
                await some(edge)
            async with server(folders[0]) as edge:
                await edge.idle()
    assert 75 == number
    async with server(folders[1]) as cloud:
        for topic in range(3):
            expected = [b"%d" % each for each in range(75) if each % 3 == topic]
            assert expected == said(cloud, f"u/{topic}")


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_a_refused_subscription_is_told(folders, caplog, version):
    """H12: the bridge is connected, and nothing would ever come; others are subscribed to."""
    async with server(folders[1]) as cloud, server(folders[0]) as edge:
        into = [{"filter": "$unknown/#"}, {"filter": "u/#", "prefix": "from/"}]
        await edge.gateway.change("b", to(cloud, version=version, **{"in": into}))
        await edge.until(lambda: edge.bridge.last_error)
        reason = "topic filter invalid (0x8f)" if version == "5" else "unspecified error (0x80)"
        told = f"the broker refuses the subscription to '$unknown/#', {reason}"
        assert (True, told) == (edge.bridge.connected, edge.bridge.last_error)
        assert told in caplog.text
        await cloud.say("u/1", b"x")
        await edge.until(lambda: said(edge, "from/u/1"))


async def test_what_comes_by_a_share_is_written(folders):
    """H33: two servers share the messages of a third; each is at one of them, and none is lost."""
    into = [{"filter": "$share/both/u/#", "qos": 2}]
    async with (
        server(folders[1]) as cloud,
        server(folders[0]) as edge,
        server(folders[2]) as other,
    ):
        for world in (edge, other):
            await world.gateway.change("b", to(cloud, **{"in": into}))
            await world.until(lambda world=world: world.bridge.connected)
        for number in range(20):
            await cloud.say("u/1", b"%d" % number)
        await edge.until(lambda: len(said(edge, "u/1") + said(other, "u/1")) >= 20)
        both = said(edge, "u/1") + said(other, "u/1")
        assert [b"%d" % number for number in range(20)] == sorted(both, key=int)
