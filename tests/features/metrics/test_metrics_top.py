"""F28: the bounds of the sketch, and what is told of topics."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.features.topic_statistics.top import Counted, Top
from rowcast.features.topic_statistics.topic_stats import TopicStats
from rowcast.writes.write import Receipt


def add(top, name, weight=1):
    place = top.places.get(name) or top.place(name)
    place.count += weight
    top.total += weight


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(1, 4)), max_size=300),
    st.integers(1, 8),
)
def test_the_stated_bounds_hold(stream, size):
    """F28: never too small, too large by at most the error, no error above N / size."""
    top, true = Top(size, Counted), Counter()
    for name, weight in stream:
        add(top, name, weight)
        true[name] += weight
    total = sum(true.values())
    assert total == top.total
    assert len(top.places) <= size
    for name, place in top.places.items():
        assert place.count - place.error <= true[name] <= place.count
        assert place.error <= total / size
    frequent = {name for name, count in true.items() if count > total / size}
    assert frequent <= set(top.places)
    assert len(top._heap) == len(top.places)


def test_what_is_often_stays_among_many_that_are_not():
    """Bad input: a flood of topics that come once."""
    top = Top(10, Counted)
    for number in range(10_000):
        add(top, f"once/{number}")
        add(top, "often", 1 + number % 2)
    assert 15_000 == top.places["often"].count
    assert 10 == len(top.places)


class World:
    """Statistics with a clock that a test moves."""

    def __init__(self, size=100):
        self.now = 1_000.0
        self.stats = TopicStats(lambda: self.now, len, size)

    def write(self, topic, count, seconds=0.0, client="c", payload=b"1234"):
        for _ in range(count):
            self.now += seconds / count
            self.stats.appended([Receipt(Event(topic, MESSAGE, payload, client=client))])


@pytest.fixture
def world():
    return World()


def test_a_topic_as_it_is_told(world):
    """F28: rate in and out, bytes, subscribers, last publisher, last seen."""
    world.write("ab", 20, 10.0, client="first")
    world.write("ab", 1, client="last")
    row = world.stats.row("ab")
    assert (21, 0, 84, 2, "last") == tuple(
        row[name]
        for name in ("messages", "messages_error", "bytes", "subscribers", "last_publisher")
    )
    assert pytest.approx(2.1, 0.1) == row["rate"]
    assert pytest.approx(2 * row["rate"], 0.01) == row["out_rate"]
    assert pytest.approx(4 * row["rate"], 0.02) == row["bytes_rate"]
    assert "1970-01-01T00:16:50.000Z" == row["last_seen"]


def test_a_rate_follows_within_minutes_and_fades(world):
    for _ in range(30):
        world.write("a", 50, 10.0)
        world.stats.update()
    assert pytest.approx(5.0, 0.02) == world.stats.row("a")["rate"]
    for _ in range(60):
        world.now += 10
        world.stats.update()
    assert world.stats.row("a")["rate"] < 0.01


def test_the_server_s_own_topics_are_not_among_them(world):
    world.write("$SYS/broker/uptime", 5)
    assert [] == world.stats.topics()
    assert {} == world.stats.row("$SYS/broker/uptime")


def test_the_error_is_told():
    """F28: a count that may be too large says by how much."""
    world = World(size=2)
    for topic, count in (("a", 10), ("b", 3), ("c", 1)):
        world.write(topic, count)
    assert {"a", "c"} == set(world.stats.topics())
    row = world.stats.row("c")
    assert (1, 3) == (row["messages"], row["messages_error"])


def test_a_batch_of_topics_without_a_place_costs_one_eviction():
    """F28: one of them stands for all; what has a place is counted exactly, the sum, too."""
    world = World(size=2)
    world.write("often", 10)
    world.write("seldom", 1)
    batch = [Event(f"once/{number}", MESSAGE, b"1234") for number in range(50)]
    batch += [Event("often", MESSAGE, b"")] * 7
    late = Receipt(Event("often", MESSAGE, b""), late=5)
    refused = Error(Code.BUSY, "the disk is full")
    world.stats.appended([*map(Receipt, batch), late, refused])
    (other,) = set(world.stats.topics()) - {"often"}
    assert other.startswith("once/")
    row = world.stats.row(other)
    assert (50, 1, 200) == (row["messages"], row["messages_error"], row["bytes"])
    assert 17 == world.stats.row("often")["messages"]


def test_a_clock_that_is_set_back(world):
    world.write("a", 5)
    world.now -= 100
    world.stats.update()
    assert world.stats.row("a")["rate"] >= 0


def test_a_sample_stands_for_all_that_came_with_it(world):
    world.stats.count("a", 10, "c", 50)
    assert (50, 500) == (world.stats.row("a")["messages"], world.stats.row("a")["bytes"])
