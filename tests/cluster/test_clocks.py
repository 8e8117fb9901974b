"""The clocks of the nodes: none that is wrong removes anything too early (K12)."""

import asyncio

import pytest

from rowcast.cluster.clocks import ALONE_SECONDS, NOTHING_OVER, UNKNOWN, ClockAnswer, Clocks
from rowcast.core.errors import Code, Error
from virtual import turns

DAY = 86_400.0
TIME = 1.8e9


class World:
    """The sequencer a, whose clock is wrong by ``off`` seconds, and other nodes."""

    def __init__(self, off=0.0, nodes="abc"):
        self.off, self.steady, self.changes, self.nodes = off, 100.0, 0, list(nodes)
        self.clocks = Clocks(
            lambda: TIME + self.off + self.steady,
            lambda: self.steady,
            lambda: self.nodes,
            self.changed,
        )

    def changed(self):
        self.changes += 1

    def hear(self, **offs):
        for node, off in offs.items():
            self.clocks.heard(node, TIME + off + self.steady, self.steady)

    @property
    def removes_by(self):
        """By how many seconds the time of removals is ahead of the true one."""
        return round(self.clocks() - TIME - self.steady, 3)


def test_nothing_is_over_until_a_majority_has_told_its_time():
    world = World(nodes="abcde")
    assert world.clocks() == NOTHING_OVER
    world.hear(b=0)
    assert world.clocks() == NOTHING_OVER
    assert world.changes == 0
    world.hear(c=0)
    assert world.removes_by == 0
    assert world.changes == 1


def test_a_node_of_its_own_goes_by_its_own_clock():
    assert World(nodes="a").removes_by == 0


def test_a_node_that_hears_nobody_goes_by_its_own_clock_after_some_time():
    world = World()
    world.steady += ALONE_SECONDS - 1
    assert world.clocks() == NOTHING_OVER
    world.steady += 1
    world.clocks.look()
    assert world.removes_by == 0
    assert world.changes == 1


@pytest.mark.parametrize(
    ("off", "others", "removes_by"),
    [
        (3 * DAY, {"b": 0}, 0),
        (3 * DAY, {"b": 0, "c": 1}, 1),
        (0, {"b": 3 * DAY}, 0),
        (0, {"b": 3 * DAY, "c": 3 * DAY}, 0),
        (0, {"b": -3 * DAY, "c": 1}, 0),
        (0, {"b": -3 * DAY}, -3 * DAY),
        (-3 * DAY, {"b": 0, "c": 0}, -3 * DAY),
        (30, {"b": 0, "c": 0}, 30),
        (0, {"b": -30, "c": -30}, 0),
    ],
    ids=str,
)
def test_a_clock_that_is_ahead_removes_nothing_early(off, others, removes_by):
    world = World(off)
    world.hear(**others)
    assert world.removes_by == removes_by


def test_a_clock_that_is_set_right_counts_again():
    world = World(3 * DAY)
    world.hear(b=0, c=0)
    assert "259200 seconds ahead of" in world.clocks.problem
    world.off = 0.5  # the others are not asked again yet
    world.clocks.look()
    assert world.removes_by == 0.5
    assert world.clocks.problem == ""
    assert world.changes == 2


def test_a_wrong_clock_is_told_once(caplog):
    world = World()
    for _ in range(3):
        world.hear(b=0, c=-2 * DAY)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "node c: its clock is 172800 seconds behind that of the other nodes"
    ]
    assert world.clocks.ahead() == {"": 0, "b": 0, "c": pytest.approx(-2 * DAY)}
    world.hear(c=0)
    assert "node c is right again" in caplog.text


def test_a_node_that_has_left_counts_no_more():
    world = World()
    world.hear(b=-DAY, c=-DAY)
    assert world.removes_by == -DAY
    world.nodes[:] = "ad"
    world.hear(d=0)
    assert world.removes_by == 0
    assert world.clocks.ahead().keys() == {"", "d"}


async def test_connected_nodes_are_asked_and_hear_whether_they_are_wrong(caplog):
    world = World()
    answers = {
        "b": ClockAnswer(lambda: TIME + world.steady),
        "c": ClockAnswer(lambda: TIME + world.steady + DAY),
        "d": None,
    }

    class Elsewhere:
        async def of(self, node, path, name):
            if node == "d":
                raise Error(Code.BUSY, "it is silent")
            return {name: answers[node].answer(name)} if node in answers else {}

    asking = asyncio.create_task(world.clocks.ask(Elsewhere(), lambda: ["b", "c", "d", "old"]))
    await turns(20)
    asking.cancel()
    assert world.removes_by == 0
    assert world.clocks.ahead() == {"": 0, "b": pytest.approx(0), "c": pytest.approx(DAY)}
    assert answers["c"].answer(UNKNOWN)["time"] == TIME + world.steady + DAY
    answers["c"].answer(f"{TIME + world.steady:.3f}")
    assert answers["b"].problem == ""
    assert "86400 seconds ahead of" in answers["c"].problem
    assert caplog.text.count("its clock is 86400") == 2  # at both
