"""The hash queue: callers take turns when more password checks wait than can run (L11, P3)."""

import asyncio

import pytest

from rowcast.auth.hash_queue import HashQueue
from rowcast.core.errors import Code, Error


class Queue:
    """Tries that wait for turns; a turn lasts until ``finish``."""

    def __init__(self, **limits):
        self.turns = HashQueue(at_once=1, draw=lambda _below: 0, **limits)
        self.order = []
        self.gates = {}
        self.tasks = {}

    async def come(self, lane, name):
        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._try(lane, name))
        await asyncio.sleep(0)

    async def _try(self, lane, name):
        async with self.turns.turn(lane):
            self.order.append(name)
            await self.gates[name].wait()

    async def finish_all(self):
        for _ in range(100):
            for gate in self.gates.values():
                gate.set()
            await asyncio.sleep(0)
        return self.order


async def test_p3_a_flood_from_one_address_waits_for_itself():
    queue = Queue()
    for number in range(9):
        await queue.come("flood", number)
    await queue.come("ann", "ann")
    order = await queue.finish_all()
    assert [0, 1, "ann"] == order[:3]
    assert 10 == len(order)


async def test_p3_when_too_many_wait_one_of_the_longest_lane_goes():
    queue = Queue(waiting_max=3)
    for number in range(4):
        await queue.come("flood", number)
    await queue.come("ann", "ann")
    assert "ann" in (await queue.finish_all())
    with pytest.raises(Error) as caught:
        await queue.tasks[1]
    assert Code.BUSY is caught.value.code


async def test_who_is_gone_makes_room_for_the_next():
    queue = Queue()
    for name in ("first", "gone", "last"):
        await queue.come("lane", name)
    queue.tasks["gone"].cancel()
    assert ["first", "last"] == await queue.finish_all()
    await queue.come("lane", "later")
    assert ["first", "last", "later"] == await queue.finish_all()


@pytest.mark.parametrize("others", [[], ["other"]])
async def test_who_is_gone_in_the_moment_of_its_turn_hands_it_on(others):
    queue = Queue()
    for name in ("first", "gone", *others):
        await queue.come("lane", name)
    queue.gates["first"].set()
    await asyncio.sleep(0)  # the turn is given to "gone", which has not run yet
    queue.tasks["gone"].cancel()
    await queue.finish_all()
    await queue.come("lane", "later")
    assert ["first", *others, "later"] == await queue.finish_all()


async def test_who_is_sent_away_in_the_moment_it_goes_is_forgotten_once():
    queue = Queue(waiting_max=1)
    await queue.come("lane", "first")
    await queue.come("lane", "gone")
    queue.tasks["gone"].cancel()  # it has not run yet when the next one comes
    queue.gates["late"] = asyncio.Event()
    queue.tasks["late"] = asyncio.create_task(queue._try("lane", "late"))
    await asyncio.sleep(0)
    assert ["first", "late"] == await queue.finish_all()
