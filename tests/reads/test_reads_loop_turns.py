"""Long work on the loop: in slices, and those of several clients take turns."""

import asyncio
from itertools import count

from rowcast.reads.loop_turns import LoopTurns
from serving import PATIENCE_SECONDS


class Clock:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self):
        self._now = count()

    def __call__(self):
        return next(self._now)


async def turns_of(loop_turns, items, seen, name):
    async for item in loop_turns.each(items):
        seen.append((name, item))


async def test_a_slice_has_as_many_items_as_its_time_allows():
    turns, seen, others = LoopTurns(2, Clock()), [], []
    task = asyncio.create_task(turns_of(turns, "abcdef", seen, "x"))
    while not task.done():
        await asyncio.sleep(0)
        others.append(len(seen))
    assert [("x", item) for item in "abcdef"] == seen
    assert {0, 2, 4, 6} == set(others)


async def test_work_of_two_takes_turns_one_slice_for_each_turn_of_the_loop():
    turns, seen, others = LoopTurns(0), [], []
    tasks = [asyncio.create_task(turns_of(turns, "abc", seen, name)) for name in "xy"]
    while not all(task.done() for task in tasks):
        before = len(seen)
        await asyncio.sleep(0)
        others.append(len(seen) - before)
    assert [(name, item) for item in "abc" for name in "xy"] == seen
    assert 1 == max(others)


async def test_one_that_gives_up_is_passed_over():
    turns, seen = LoopTurns(0), []
    tasks = [asyncio.create_task(turns_of(turns, "abc", seen, name)) for name in "xyz"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [(name, item) for item in "abc" for name in "xz"] == seen
    await asyncio.wait_for(turns_of(turns, "d", seen, "y"), PATIENCE_SECONDS)
    assert ("y", "d") == seen[-1]


async def test_no_items_need_no_more_than_a_turn():
    seen = []
    await turns_of(LoopTurns(), "", seen, "x")
    assert [] == seen


async def test_long_work_rests_between_slices_while_a_write_is_waited_for():
    """Not for ever: after three rests it goes on."""
    turns, seen, asked = LoopTurns(0, rest_seconds=0, rests_max=3), [], []

    def waited_for():
        asked.append(len(seen))
        return True

    turns.waited_for = waited_for
    await turns_of(turns, "ab", seen, "x")
    assert [0, 0, 0, 1, 1, 1] == asked


async def test_long_work_goes_on_as_soon_as_nobody_waits():
    turns, seen, asked = LoopTurns(0, rest_seconds=0, rests_max=3), [], []
    answers = iter([True, False, False])

    def waited_for():
        asked.append(len(seen))
        return next(answers)

    turns.waited_for = waited_for
    await turns_of(turns, "ab", seen, "x")
    assert [0, 0, 1] == asked
