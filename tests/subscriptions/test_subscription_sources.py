"""Subscriptions on undeclared topics while their tables come and go."""

import random

import pytest

from amounts import amount
from rowcast.core.events import DELETE, MESSAGE, PUT
from rowcast.core.topic_tables import TopicRoot, TopicTable
from subscription_world import SMALL, World

TOPICS = ("home/a", "home/x", "yard/x", "home", "deep/er/x", "Dog/x")
TABLES = [TopicTable(f"mqtt_{level}", TopicRoot(level)) for level in ("home", "yard", "deep", None)]
FILTERS = ("home/#", "#", "+/x", "home", "yard/+", "home/x")


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("defined", ["before", "while", "after", "come and go"])
async def test_f3_one_that_falls_behind_gets_everything_once(text, defined):
    """The table is made before it begins, while it is behind, or after it has read a part."""
    world = World(**SMALL)
    if defined == "before":
        world.store.define(TABLES[0])
    world.watch(text, 1, current=False)
    for number in range(40):
        world.commit(TOPICS[number % len(TOPICS)], MESSAGE)
        if number == 10 and defined == "while":
            world.store.define(TABLES[0])
        if number % 5 == 0 and defined == "come and go":
            # What is dropped had no events yet: nobody loses anything.
            world.store.drop(TABLES[3])
            world.store.define(TABLES[3])
            world.store.drop(TABLES[3])
        if number == 20:
            while world.unannounced:
                world.announce()
            world.take(2)
            await world.turn()
            if defined == "after":
                world.store.define(TABLES[0])
    await world.settle(3)
    world.check()
    assert world.heard[1].resets == 0
    assert world.heard[1].events


@pytest.mark.parametrize("text", FILTERS)
async def test_f14_what_was_dropped_before_it_was_read_is_told(text):
    """Whoever could have wanted it starts anew, and nobody else does."""
    world = World(**SMALL)
    for table in TABLES[:3]:
        world.store.define(table)
    world.watch(text, 1, current=False)
    for topic in TOPICS * 8:
        world.commit(topic, PUT)
    world.store.drop(TABLES[0])
    await world.settle()
    world.check()
    assert world.heard[1].resets == (text in {"home/#", "#", "+/x", "home/x"})


def _step(world, dice):
    what = dice.choice(["write", "write", "write", "announce", "ask", "answer", "take", "table"])
    if what == "write":
        world.commit(dice.choice(TOPICS), dice.choice((PUT, DELETE, MESSAGE)))
    elif what == "announce" and world.unannounced:
        world.announce()
    elif what == "ask" and world.reader.asked:
        world.reader.ask()
    elif what == "answer" and world.reader.answered:
        world.reader.answer()
    elif what == "take":
        world.take(dice.choice((1, 2, 100)))
    elif what == "table":
        table = dice.choice(TABLES)
        (world.store.drop if dice.random() < 0.2 else world.store.define)(table)


@pytest.mark.parametrize(
    "seeds",
    [range(150), pytest.param(range(150, amount(long=2_000, short=600)), marks=pytest.mark.slow)],
)
async def test_no_interleaving_with_tables_loses_or_doubles(seeds):
    for seed in seeds:
        dice, world = random.Random(seed), World(**SMALL)
        for number in range(40):
            if number in {3, 12}:
                world.watch(FILTERS[(seed + number) % len(FILTERS)], number, current=seed % 2 == 0)
            _step(world, dice)
            await world.turn()
        await world.settle(dice.choice((1, 3, 100)))
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
