"""A bridge whose broker is not there says what waits and what it gave up on (H16)."""

import pytest
from bridged import server

from free_ports import free_port
from http_clients import http_client
from rowcast.core.callers import SERVER
from rowcast.core.events import PUT, Event
from rowcast.features.bridges.dead_letters import DeadLetter, letter_of
from rowcast.features.bridges.outbox import Item


@pytest.fixture
def down():
    """Settings of a bridge to a port at which nobody listens."""
    carried = [{"filter": "home/#"}]
    return {"name": "b", "host": "127.0.0.1", "port": free_port(), "out": carried}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


async def get(world, path):
    url = f"http://127.0.0.1:{world.application.http_port}"
    async with http_client(base_url=url) as client:
        return (await client.get(path)).json()


async def test_h16_oldest_and_newest_are_those_that_wait(down, folder):
    async with server(folder, down) as world:
        await world.say("other", b"x")
        first, *_, last = [(await world.say(f"home/{number}", b"x")).event for number in range(3)]
        row = await get(world, "/$SYS/outbox_summary/b")
    assert (3, first.seq, last.seq) == (row["pending"], row["oldest"], row["newest"])
    assert "b" == row["broker_name"]


async def test_h16_nothing_waits(down, folder):
    async with server(folder, down) as world:
        [row] = await get(world, "/$SYS/outbox_summary/")
        assert (0, None, None) == (row["pending"], row["oldest"], row["newest"])


async def test_h16_what_was_given_up_is_summed_up(down, folder):
    async with server(folder, down) as world:
        for seq, now_ms, attempts in ((5, 2_000, 5), (6, 3_000, 1), (7, 1_000, 2)):
            item = Item(seq, f"home/{seq % 2}", None, attempts, f"error {seq}")
            event = Event(item.topic, PUT, b"x", seq=seq, version=1)
            await world.kernel.write_all(
                letter_of(DeadLetter("b", now_ms, 30), item, event), SERVER, atomic=False
            )
        [row] = await get(world, "/$SYS/dead_letter_summary/?dead_letters=gt=1")
        assert [] == await get(world, "/$SYS/dead_letter_summary/?dead_letters=gt=3")
    assert {
        "broker_name": "b",
        "dead_letters": 3,
        "topics": 2,
        "max_attempts_seen": 5,
        "oldest": 1_000,
        "newest": 3_000,
        "last_error": "error 6",
    } == row


async def test_h19_the_queue_is_as_long_as_it_is_said(down, folder):
    """H19: 65,536 unless the bridge says so, or all subscriptions are told another number."""
    async with server(folder, down | {"queue_size": 64}) as world:
        assert 64 == world.bridge.subscription.queue.events_max
        world.bridge.subscription.limit_queue(1_000, 0)
        assert 64 == world.bridge.subscription.queue.events_max
    async with server(folder, down) as world:
        assert 65_536 == world.bridge.subscription.queue.events_max
    async with server(folder, down, subscriptions={"queue_events": 10}) as world:
        assert 10 == world.bridge.subscription.queue.events_max


async def test_h18_a_bridge_is_late_for_a_while_before_it_is_cold(down, folder, monkeypatch):
    """H18: publish_timeout_ms; 0 is at once."""
    async with server(folder, down) as world:
        cursor = world.bridge.cursor
        assert cursor.keeps_up(100.0, 0.1)
        monkeypatch.setattr(cursor.subscription.progress, "behind", True)
        assert not cursor.keeps_up(200.0, 0)
        assert (True, False) == tuple(cursor.keeps_up(now, 0.1) for now in (200.05, 200.11))
        monkeypatch.setattr(cursor.subscription.progress, "behind", False)
        assert cursor.keeps_up(300.0, 0)
