"""The lease: one node takes it, keeps it, and loses it (K12)."""

import random

import pytest

from memory_engine import MemoryEngine, Shared
from rowcast.cluster.lease_keeper import Holder, LeaseKeeper
from rowcast.core.errors import Code, Error
from rowcast.log.engine import no_answer

SECONDS = 3.0


class Flaky(MemoryEngine):
    """An engine whose answers are lost, or that is not reached."""

    lost = ""

    def lease(self):
        if self.lost:
            raise no_answer("the engine", "lost")
        return super().lease()

    def take_lease(self, known, holder):
        if self.lost == "request":
            raise no_answer("the engine", "lost")
        taken = super().take_lease(known, holder)
        if self.lost == "answer":
            raise no_answer("the engine", "lost")
        return taken


class World:
    """Keepers of one lease, with a clock each that this sets."""

    def __init__(self, count, schemas=("s",)):
        shared = Shared()
        self.schemas = schemas
        self.now = 0.0
        self.engines = [Flaky(shared) for _ in range(count)]
        self.changes = [0] * count
        self.keepers = [self.keeper(index) for index in range(count)]

    def keeper(self, index):
        def changed():
            self.changes[index] += 1

        schema = self.schemas[index % len(self.schemas)]
        own = Holder(f"n{index}", f"life{index}", "127.0.0.1", 7000 + index, schema)
        return LeaseKeeper(self.engines[index], own, SECONDS, changed, lambda: self.now)

    def step(self, seconds=0.5, awake=None):
        self.now += seconds
        for index in range(len(self.keepers)) if awake is None else awake:
            self.keepers[index].step()

    @property
    def held(self):
        return [index for index, keeper in enumerate(self.keepers) if keeper.held]


def test_the_first_one_takes_it_and_keeps_it():
    world = World(3)
    for _ in range(20):
        world.step()
        assert world.held == [0]
    assert {keeper.holder for keeper in world.keepers} == {
        Holder("n0", "life0", "127.0.0.1", 7000, "s")
    }
    assert world.changes == [1, 1, 1]


def test_when_its_holder_is_silent_one_other_takes_it_after_its_time():
    world = World(3)
    world.step()
    for _ in range(6):
        world.step(awake=[1, 2])
        assert world.held == [0]
    world.step(awake=[1, 2])
    assert world.held == [0, 1], "the one that sleeps cannot know"
    world.step()
    assert world.held == [1]
    assert world.keepers[0].holder.node == "n1"


def test_a_holder_that_does_not_reach_the_engine_ends_to_count_on_it_by_itself():
    world = World(1)
    world.step()
    world.engines[0].lost = "request"
    for _ in range(6):
        world.step()
        assert world.held == [0]
    world.step()
    assert world.held == []
    world.engines[0].lost = ""
    world.step()
    assert world.held == [0], "nobody else has taken it"


def test_a_lost_answer_does_not_cost_the_lease():
    world = World(2)
    world.step()
    world.engines[0].lost = "answer"
    world.step()
    world.engines[0].lost = ""
    world.step()
    assert world.held == [0]
    world = World(2)
    world.engines[0].lost = "answer"
    world.step(awake=[0])
    world.engines[0].lost = ""
    world.step()
    assert world.held == [0]


def test_who_gives_it_up_takes_it_no_earlier_than_the_others():
    world = World(2)
    world.step()
    world.keepers[0].give_up()
    world.step()
    assert world.held == [1]
    world.keepers[1].give_up()
    world.step()
    assert world.held == []
    world.step(SECONDS)
    assert len(world.held) == 1


def test_the_end_of_a_node_gives_it_to_another_at_once():
    world = World(2)
    world.keepers[0].start()
    world.keepers[0].stop()
    world.step(awake=[1])
    assert world.held == [1]


def test_a_lease_that_cannot_be_read_names_nobody():
    assert Holder.unpack(b"") is None
    assert Holder.unpack(b"[1,2]") is None
    assert Holder.unpack(b'["a","l","h","x","s"]') is None
    own = Holder("a", "l", "::1", 1)
    assert Holder.unpack(own.pack()) == own


@pytest.mark.parametrize("seed", range(30))
def test_after_any_trouble_one_node_holds_it_and_all_know_who(seed):
    rng = random.Random(seed)
    world = World(3)
    for _ in range(100):
        for engine in world.engines:
            engine.lost = rng.choice(("", "", "", "answer", "request"))
        if rng.random() < 0.05:
            rng.choice(world.keepers).give_up()
        awake = [index for index in range(3) if rng.random() < 0.8]
        rng.shuffle(awake)
        world.step(rng.random(), awake)
    for engine in world.engines:
        engine.lost = ""
    for _ in range(20):
        world.step()
    assert len(world.held) == 1
    assert {keeper.holder.node for keeper in world.keepers} == {f"n{world.held[0]}"}


def test_a_node_with_another_schema_takes_it_only_when_none_with_the_same_is_there():
    """Else it would lock out the others, and write what they do not understand."""
    world = World(3, ("new", "old", "old"))
    world.step(awake=[1])
    world.keepers[1].give_up()
    for _ in range(5):
        world.step(awake=[0])
    assert world.held == []
    world.step()
    assert world.held in ([1], [2])
    world = World(2, ("new", "old"))
    world.step(awake=[1])
    for _ in range(62):
        world.step(awake=[0])
    assert 0 in world.held, "nobody with the former schema is left"


def test_a_keeper_outlives_what_no_engine_should_raise():
    world = World(2)
    world.step()

    def broken(known, holder):
        raise ValueError("not an answer")

    world.engines[0].take_lease = broken
    for _ in range(8):
        world.step()
    assert world.held == [1]


def test_the_engine_lets_one_of_two_have_it():
    """Both have seen it free; the second is refused."""
    shared = Shared()
    one, two = MemoryEngine(shared), MemoryEngine(shared)
    known = one.lease().version, two.lease().version
    one.take_lease(known[0], b"one")
    with pytest.raises(Error) as caught:
        two.take_lease(known[1], b"two")
    assert caught.value.code is Code.CONFLICT
