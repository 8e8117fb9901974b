"""Writers are flushed in slices: what many streams have to encode does not stop the loop."""

import asyncio

from rowcast.doors.http.streams.stream_writer import Flusher

SLICE_SECONDS = 2.0


class World:
    """A flusher whose writers take a second each."""

    def __init__(self, more=()):
        self.now = 0.0
        self.flushed = []
        self.more = set(more)
        self.flusher = Flusher(SLICE_SECONDS, lambda: self.now)

    def writer(self, name):
        return Writer(self, name)


class Writer:
    """Notes that it was flushed; has more to write once if the world says so."""

    def __init__(self, world, name):
        self.world, self.name = world, name

    def flush(self):
        self.world.now += 1.0
        self.world.flushed.append(self.name)
        if self.name in self.world.more:
            self.world.more.discard(self.name)
            self.world.flusher.add(self)


async def turns(world, count):
    """Return what was flushed after each turn of the loop."""
    seen = []
    for _ in range(count):
        await asyncio.sleep(0)
        seen.append("".join(world.flushed))
    return seen


async def test_what_does_not_fit_into_a_slice_waits_for_the_next_turn():
    world = World()
    for name in "abcde":
        world.flusher.add(world.writer(name))
    assert ["ab", "abcd", "abcde", "abcde"] == await turns(world, 4)


async def test_who_has_more_is_behind_those_that_wait():
    world = World(more="a")
    for name in "abcd":
        world.flusher.add(world.writer(name))
    assert ["ab", "abcd", "abcda", "abcda"] == await turns(world, 4)


async def test_a_writer_that_comes_meanwhile_is_flushed_too():
    world = World()
    for name in "abc":
        world.flusher.add(world.writer(name))
    assert ["ab"] == await turns(world, 1)
    world.flusher.add(world.writer("d"))
    assert ["abcd", "abcd"] == await turns(world, 2)
