"""How often a metric is written, and what becomes of it when the disk does not take it."""

import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.metric_limits import REPORT_RETRY_SECONDS, REPORT_SECONDS_MAX, REPORT_SECONDS_MIN
from rowcast.features.metrics.reporter import Reporter
from virtual import VirtualLoop


class Disk:
    """Takes texts, refuses them, or keeps their writers waiting."""

    def __init__(self, loop):
        self._loop = loop
        self.full = False
        self.held = None
        self.texts = {}
        self.writes = []
        """When, where and what."""

    def write(self, topic, text, written):
        self.writes.append((round(self._loop.now, 6), topic, text))
        if self.held is not None:
            self.held.append((topic, text, written))
        else:
            self._end(topic, text, written)

    def _end(self, topic, text, written):
        if self.full:
            written(Error(Code.BUSY, "the disk is full"))
            return
        self.texts[topic] = text
        written(None)

    def hold(self):
        self.held = []

    def release(self):
        held, self.held = self.held, None
        for item in held:
            self._end(*item)

    def times(self, topic):
        """When a topic was written."""
        return [at for at, name, _ in self.writes if name == topic]


class World:
    """A reporter of two texts."""

    def __init__(self):
        self.loop = VirtualLoop()
        self.disk = Disk(self.loop)
        self.texts = {"a": "0", "b": "0"}
        self.reporter = Reporter(lambda: dict(self.texts), self.disk.write, self.loop)
        self.reporter.changed()
        self.loop.advance(0)
        self.loop.advance(10)

    def change(self, topic, text):
        self.texts[topic] = text
        self.reporter.changed()
        self.loop.advance(0)


@pytest.fixture
def world():
    return World()


def test_the_first_change_is_written_in_the_same_turn(world):
    """F2, F22."""
    world.change("a", "1")
    assert (1010.0, "a", "1") == world.disk.writes[-1]
    assert {"a": "1", "b": "0"} == world.disk.texts


def test_what_does_not_change_is_not_written_and_needs_no_timer(world):
    """F2: an idle server writes nothing."""
    count = len(world.disk.writes)
    world.reporter.changed()
    world.loop.advance(100)
    assert (count, []) == (len(world.disk.writes), world.loop.due())


def test_a_second_change_waits_and_the_last_value_follows(world):
    """F2: at most one write in 100 ms, the final value exact."""
    for number in range(1, 9):
        world.change("a", str(number))
    assert "1" == world.disk.texts["a"]
    world.loop.advance(REPORT_SECONDS_MIN)
    assert "8" == world.disk.texts["a"]
    assert [1010.0, 1010.1] == world.disk.times("a")[1:]


def test_while_it_keeps_changing_the_pauses_grow_to_a_second(world):
    """F2: coalesced under load."""
    for number in range(1, 4_001):
        world.texts["a"] = str(number)
        world.reporter.changed()
        world.loop.advance(0.001)
    times = world.disk.times("a")[1:]
    pauses = [round(after - before, 2) for before, after in pairwise(times)]
    assert [0.1, 0.2, 0.4, 0.8, 1.0] == pauses[:5]
    assert REPORT_SECONDS_MAX == max(pauses)
    world.loop.advance(REPORT_SECONDS_MAX)
    assert "4000" == world.disk.texts["a"]


def test_after_a_rest_it_is_quick_again(world):
    for number in range(1, 2_001):
        world.texts["a"] = str(number)
        world.reporter.changed()
        world.loop.advance(0.001)
    world.loop.advance(10)
    world.change("a", "x")
    assert "x" == world.disk.texts["a"]
    world.change("a", "y")
    world.loop.advance(REPORT_SECONDS_MIN)
    assert "y" == world.disk.texts["a"]


def test_one_topic_does_not_wait_for_another(world):
    """F2 is per metric: ``b`` changes for the first time while ``a`` is busy."""
    world.change("a", "1")
    world.change("b", "1")
    world.loop.advance(REPORT_SECONDS_MIN)
    assert "1" == world.disk.texts["b"]


def test_what_happens_all_the_time_is_looked_at_when_it_is_due(world):
    """Traffic costs a look for each write of it, not one for each turn."""
    looks = []
    read = world.reporter._read
    world.reporter._read = lambda: looks.append(1) or read()
    for number in range(1, 4_001):
        world.texts["a"] = str(number)
        world.reporter.busy()
        world.loop.advance(0.001)
    assert len(looks) <= 16
    world.loop.advance(REPORT_SECONDS_MAX)
    assert "4000" == world.disk.texts["a"]


def test_a_write_that_is_on_its_way_is_not_doubled(world):
    """F16: a slow disk is not given the same metric again and again."""
    world.disk.hold()
    world.change("a", "1")
    for number in range(2, 50):
        world.change("a", str(number))
        world.loop.advance(1)
    assert 1 == len(world.disk.held)
    world.disk.release()
    world.loop.advance(REPORT_SECONDS_MAX)
    assert "49" == world.disk.texts["a"]


def test_a_write_that_fails_is_tried_again_with_what_is_true_then(world, caplog):
    """F23, F16: the disk refuses; nobody waits, memory is right, it is written when it can be."""
    caplog.set_level(logging.WARNING, "rowcast.features.metrics")
    world.disk.full = True
    world.change("a", "1")
    world.change("a", "2")
    world.loop.advance(3 * REPORT_RETRY_SECONDS)
    tries = len(world.disk.times("a")) - 1
    assert (1 <= tries <= 4, tries) == (True, world.reporter.failures)
    assert 1 == len(caplog.records)
    assert {"a": "0", "b": "0"} == world.disk.texts
    world.disk.full = False
    world.loop.advance(REPORT_RETRY_SECONDS + REPORT_SECONDS_MAX)
    assert "2" == world.disk.texts["a"]
    world.loop.advance(100)
    assert [] == world.loop.due()


def test_at_the_end_what_is_true_is_written_at_once(world):
    world.change("a", "1")
    world.change("a", "2")
    world.reporter.stop()
    assert "2" == world.disk.texts["a"]
    world.change("a", "3")
    world.loop.advance(10)
    assert ("2", []) == (world.disk.texts["a"], world.loop.due())


@pytest.mark.heavy
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 3),
            st.floats(0, 0.5, allow_nan=False),
            st.sampled_from(["change", "busy", "full", "free", "hold", "release"]),
        ),
        max_size=60,
    )
)
def test_whatever_happens_it_ends_with_the_truth_and_no_timer(steps):
    """F2, F23: and no metric is written twice within 100 ms."""
    world = World()
    for topic, text, seconds, what in steps:
        disk = world.disk
        if what in {"full", "free"}:
            disk.full = what == "full"
        elif what == "hold" and disk.held is None:
            disk.hold()
        elif what == "release" and disk.held is not None:
            disk.release()
        world.texts[topic] = str(text)
        (world.reporter.busy if what == "busy" else world.reporter.changed)()
        world.loop.advance(seconds)
    if world.disk.held is not None:
        world.disk.release()
    world.disk.full = False
    world.loop.advance(2 * REPORT_RETRY_SECONDS)
    assert (world.texts, []) == (world.disk.texts, world.loop.due())
    for topic in "ab":
        times = world.disk.times(topic)
        pauses = [after - before for before, after in pairwise(times)]
        assert min(pauses, default=1.0) >= REPORT_SECONDS_MIN - 1e-6
