"""The newest events of sources: a reader who missed nothing reads nothing."""

import pytest

from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topic_tables import TopicRoot, branch_of
from rowcast.reads.source_heads import SourceHeads
from rowcast.writes.write import Receipt

DOG = Table("Dog", "Dog", (Attribute("id", Type.ID, required=True, primary_key=True),))
CAT = Table("Cat", "Cat", (Attribute("id", Type.ID, required=True, primary_key=True),))
STORM = TopicRoot("storm")


class World:
    """A log whose batches are announced."""

    def __init__(self, **bounds):
        self.listeners = []
        self.heads = SourceHeads(self.listeners, **bounds)
        self.announced = 10

    def announce(self, *topics, gap=0):
        """Announce a batch of one event for each topic; those in capitals are of a table."""
        outcomes = []
        for topic in topics:
            self.announced += 1 + gap
            table = {"Dog": DOG, "Cat": CAT}.get(topic.partition("/")[0])
            kind = MESSAGE if table is None else PUT
            outcomes.append(Receipt(Event(topic, kind, b"", seq=self.announced, table=table)))
        self.tell(outcomes)

    def tell(self, outcomes):
        for listener in list(self.listeners):
            listener(outcomes)

    def learn(self, *sources, newest=None, upto=None):
        newest = self.announced if newest is None else newest
        upto = self.announced if upto is None else upto
        self.heads.learn(sources, newest, upto, self.announced)

    def has_none(self, after, *sources):
        return self.heads.has_none(after, self.announced, sources)


def test_nothing_is_known_before_a_read_or_noted_before_a_question():
    world = World()
    assert [] == world.listeners
    assert not world.has_none(10, STORM)
    assert 1 == len(world.listeners)
    world.announce("other/1")
    assert not world.has_none(11, STORM)
    assert 1 == len(world.listeners)


def test_an_empty_log_has_nothing_to_go_on_from():
    world = World()
    world.announced = 0
    assert not world.has_none(0, STORM)
    world.learn(STORM)
    world.announce("storm/1")
    assert not world.has_none(0, STORM)


def test_a_read_that_began_before_others_were_announced_tells_all_the_same():
    """As in a crowd that comes back: each of them is an event of ``$SYS``."""
    world = World()
    world.has_none(10, STORM)
    world.announce("other/1", "storm/1", "other/1")
    world.learn(STORM, DOG, newest=4, upto=10)
    assert [False, True] == [world.has_none(n, STORM) for n in (11, 12)]
    assert world.has_none(4, DOG)
    assert not world.has_none(13, CAT)


def test_a_read_that_ended_before_what_is_noted_tells_nothing():
    world = World()
    world.has_none(10, STORM)
    world.learn(STORM, newest=4, upto=9)
    assert not world.has_none(10, STORM)


def test_so_many_sources_that_they_are_not_noted_are_read_once_more():
    world = World(heads_max=2)
    world.learn(CAT)
    world.announce("a/1", "b/1", "storm/1")
    world.learn(STORM, newest=4, upto=10)
    assert [False, True] == [world.has_none(13, STORM), world.has_none(10, CAT)]
    world.learn(STORM)
    assert world.has_none(13, STORM)


def test_a_read_tells_up_to_where_there_is_nothing():
    world = World()
    world.learn(STORM, DOG, newest=4)
    assert world.has_none(4, STORM)
    assert world.has_none(10, STORM, DOG)
    assert not world.has_none(3, STORM)
    assert not world.has_none(10, STORM, CAT)
    assert not world.has_none(10, None), "all undeclared topics"


@pytest.mark.parametrize(
    ("topic", "source"),
    [
        ("storm/1", STORM),
        ("Dog/1", DOG),
        ("alone", TopicRoot(None)),
        ("$SYS/events/x/connected", branch_of("$SYS/events/x/connected")),
        ("$SYS/broker/load", branch_of("$SYS/broker/load")),
    ],
)
def test_what_is_announced_is_noted_by_source(topic, source):
    world = World()
    world.learn(source, CAT)
    world.announce("other/1", "bird/1")
    assert world.has_none(10, source)
    world.announce(topic, "other/1")
    assert [False, False, True] == [world.has_none(n, source) for n in (10, 12, 13)]
    assert world.has_none(10, CAT)


def test_what_is_announced_and_not_noted_yet_may_be_anything():
    world = World()
    world.learn(STORM)
    world.announced += 1
    assert not world.has_none(10, STORM)


def test_a_gap_in_the_numbers_forgets_all():
    """Another way to announce events has been used, such as a large result that becomes visible."""
    world = World()
    world.learn(STORM)
    world.announce("other/1", gap=1)
    assert [] == world.listeners
    assert not world.has_none(10, STORM)
    world.learn(STORM)
    assert world.has_none(12, STORM)


def test_a_read_after_events_that_were_not_noted_forgets_what_was_known():
    world = World()
    world.learn(STORM)
    world.announced += 1
    world.learn(DOG)
    assert not world.has_none(10, STORM)
    assert world.has_none(11, DOG)
    assert 1 == len(world.listeners)


def test_refused_late_and_unlogged_writes_are_no_events():
    world = World()
    world.learn(STORM)
    late = Receipt(Event("storm/1", PUT, b"", seq=11), late=7)
    world.tell([Error(Code.INVALID, "no"), late, Receipt(Event("storm/1", MESSAGE, b""))])
    assert world.has_none(10, STORM)


def test_of_several_reads_the_one_that_tells_more_counts():
    world = World()
    world.learn(STORM, newest=5)
    world.learn(STORM, newest=8)
    assert world.has_none(5, STORM)


def test_the_sources_are_bounded():
    world = World(heads_max=2)
    world.learn(STORM, DOG)
    world.learn(CAT)
    assert not world.has_none(10, STORM)
    assert world.has_none(10, CAT)
    assert 1 == len(world.listeners)


def test_it_ends_when_nobody_asks():
    world = World(unasked_max=3)
    world.learn(STORM)
    world.announce("a/1", "a/1", "a/1")
    assert world.has_none(10, STORM)
    world.announce("a/1", "a/1", "a/1")
    assert 1 == len(world.listeners)
    world.announce("a/1")
    assert [] == world.listeners
    assert not world.has_none(10, STORM)
