"""The wheel of timers: everything expires once, in time; nothing is left of what was removed."""

import random

import pytest

from rowcast.doors.mqtt.connections.timer_wheel import SLOTS_PER_SECOND, SLOTS_SPARE, TimerWheel
from virtual import VirtualLoop


class Item:
    """Notes when it expires."""

    def __init__(self, loop, fails=False):
        self.loop, self.fails, self.expired = loop, fails, []

    def on_timer(self):
        self.expired.append(self.loop.time())
        if self.fails:
            raise RuntimeError("poison")


@pytest.fixture
def loop():
    return VirtualLoop()


def test_everything_expires_once_and_in_time(loop):
    """D7, D30: whatever the order in which it was put."""
    wheel, rng, waits = TimerWheel(loop), random.Random(1), {}
    for seconds in (*(rng.uniform(0, 30) for _ in range(100)), 0, 2, 2):
        waits[item] = loop.time() + seconds if (item := Item(loop)) else 0
        wheel.put(item, seconds)
        loop.advance(rng.choice((0, 0.01, 0.3)))
    loop.advance(60)
    for item, due in waits.items():
        (expired,) = item.expired
        assert due <= expired <= due + 1 / SLOTS_PER_SECOND
    assert [] == loop.due()


def test_what_was_removed_does_not_expire(loop):
    wheel, items = TimerWheel(loop), [Item(loop) for _ in range(3)]
    slots = [wheel.put(item, seconds) for item, seconds in zip(items, (1, 1, 2), strict=True)]
    wheel.remove(items[0], slots[0])
    wheel.remove(items[2], slots[2])
    wheel.remove(items[2], slots[2])
    loop.advance(5)
    assert [0, 1, 0] == [len(item.expired) for item in items]


def test_an_empty_wheel_has_no_timer(loop):
    """A server without connections does not wake."""
    wheel, item = TimerWheel(loop), Item(loop)
    slot = wheel.put(item, 1)
    assert 1 == len(loop.due())
    wheel.remove(item, slot)
    assert [] == loop.due()


def test_it_is_as_large_as_what_waits(loop):
    """Clients that come and go with ever other times leave nothing in it."""
    wheel, stays = TimerWheel(loop), Item(loop)
    wheel.put(stays, 1)
    for seconds in range(1000):
        item = Item(loop)
        wheel.remove(item, wheel.put(item, 10 + seconds))
    assert len(wheel._order) <= SLOTS_SPARE + 3
    loop.advance(2)
    assert 1 == len(stays.expired)


async def test_one_that_fails_harms_no_other(loop):
    """Each is called by the loop, which takes what it raises."""
    called = []
    loop.call_soon = called.append
    wheel, items = TimerWheel(loop), [Item(loop, fails=True), Item(loop)]
    for item in items:
        wheel.put(item, 1)
    loop.advance(2)
    assert called == [item.on_timer for item in items]
