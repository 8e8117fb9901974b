"""Garbage collection in steps: what survives is frozen, and looked at whole in quiet moments."""

import asyncio
import gc
import weakref

import pytest

from rowcast.program.collector import (
    FORMER_MAX,
    QUIET_ROUNDS,
    ROUNDS_MAX,
    SHORT_ROUNDS,
    Collector,
)
from rowcast.program.collector import set_thresholds as as_before
from serving import until

LOOK_SECONDS = 0.002


class Knot:
    """What only a collection frees."""

    def __init__(self):
        self.itself = self


class World:
    """A collector with memory and a processor of its own."""

    def __init__(self):
        self.short = False
        self.former = 0
        self.used = self.step = 0.0
        self.collector = Collector(self, self.cpu, LOOK_SECONDS)

    def short_of_memory(self):
        return self.short

    def former_clients(self):
        return self.former

    def cpu(self):
        self.used += self.step
        return self.used


@pytest.fixture
async def world():
    it = World()
    it.collector.start()
    yield it
    it.collector.stop()
    gc.unfreeze()
    as_before()


def frozen_knot():
    """Return a reference to garbage that has survived its last automatic collection."""
    knot = Knot()
    gc.collect()
    return weakref.ref(knot)


async def looks(count=3):
    for _ in range(count):
        over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(2 * LOOK_SECONDS, over.set_result, None)
        await over


async def test_what_survives_is_looked_at_no_more(world):
    found = frozen_knot()
    gc.collect()
    assert (found() is not None, 2) == (True, world.collector.rounds)


@pytest.mark.slow
async def test_a_quiet_moment_is_used_for_a_complete_collection(world):
    found = frozen_knot()
    world.collector.rounds = QUIET_ROUNDS
    await until(lambda: world.collector.completed)
    assert (None, 0) == (found(), world.collector.rounds)


@pytest.mark.slow
async def test_a_busy_process_waits_for_a_quiet_moment(world):
    world.step = 1.0
    world.collector.rounds = ROUNDS_MAX - 1
    found = frozen_knot()
    world.collector.rounds -= 1
    await looks()
    assert found() is not None
    world.step = 0.0
    await until(lambda: found() is None)


@pytest.mark.slow
async def test_too_much_is_collected_at_any_moment(world):
    world.step = 1.0
    world.collector.rounds = ROUNDS_MAX
    found = frozen_knot()
    await until(lambda: found() is None)


@pytest.mark.slow
async def test_little_is_collected_when_memory_is_short(world):
    world.step, world.short = 1.0, True
    found = frozen_knot()
    world.collector.rounds = SHORT_ROUNDS
    await until(lambda: found() is None)


@pytest.mark.slow
async def test_what_many_former_clients_left_is_collected(world):
    world.step = 1.0
    found = frozen_knot()
    await looks()
    assert found() is not None
    world.former = FORMER_MAX
    await until(lambda: found() is None)
    assert 1 == world.collector.completed


async def test_few_new_objects_are_left_alone(world):
    found = frozen_knot()
    world.collector.rounds = QUIET_ROUNDS - 1
    await looks()
    assert (found() is not None, 0) == (True, world.collector.completed)


async def test_survivors_are_frozen_as_they_come(world):
    kept = [[] for _ in range(100_000)]
    assert kept and world.collector.rounds > 5
    young = sum(gc.get_count()[:1]) + len(gc.get_objects(1)) + len(gc.get_objects(2))
    assert young < 20_000
