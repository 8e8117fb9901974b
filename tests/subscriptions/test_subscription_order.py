"""No interleaving of writes, reads and filters loses or doubles an event (C2, C11)."""

import random

import pytest

from amounts import amount
from rowcast.core.events import DELETE, MESSAGE, PATCH, PUT
from subscription_world import DOG, SMALL, World

TEN_THOUSAND = (range(1_000), pytest.param(range(1_000, 11_000), marks=pytest.mark.slow))
THOUSANDS = (
    range(200),
    pytest.param(range(200, amount(long=1_200, short=500)), marks=pytest.mark.slow),
)


TOPICS = ("Dog/1", "Dog/2", "Cat/1", "Dog/a/b", "x")
FILTERS = ("Dog/#", "Dog/1", "+/1", "#", "Cat/#", "x")


def write_something(world, dice):
    kind = dice.choice((PUT, PUT, PATCH, DELETE, MESSAGE))
    world.commit(dice.choice(TOPICS), kind)


def begin_something(world, dice):
    free = [text for text in FILTERS if text not in world.subscription.interests]
    if not free:
        return
    number = len(world.heard) + len(world.gone) + 1
    start = dice.choice(("current", "new", "since"))
    since = dice.randint(0, world.announced) if start == "since" else None
    world.watch(dice.choice(free), number, since, current=start == "current")


def end_something(world, dice):
    if world.heard:
        world.unwatch(dice.choice(list(world.heard)))


def step(world, dice, weights):
    """Do one of the things that may happen next."""
    what = dice.choices(list(weights), list(weights.values()))[0]
    if what == "write":
        write_something(world, dice)
    elif what == "announce" and world.unannounced:
        world.announce()
    elif what == "ask" and world.reader.asked:
        world.reader.ask()
    elif what == "answer" and world.reader.answered:
        world.reader.answer()
    elif what == "take":
        world.take(dice.choice((1, 2, 100)))
    elif what == "begin":
        begin_something(world, dice)
    elif what == "end":
        end_something(world, dice)
    elif what == "replace" and world.heard:
        world.replace(dice.choice(list(world.heard)), current=False)
    elif what == "say":
        world.say(dice.choice(TOPICS))
    elif what == "trim":
        world.trim(dice.randint(1, 4), dice.choice((DOG, None)))


async def interleave(seed, weights, steps, begin=begin_something, limits=SMALL):
    dice = random.Random(seed)
    world = World(**limits)
    begun_at = dice.randrange(steps // 2 + 1)
    for number in range(steps):
        if number == begun_at:
            begin(world, dice)
        step(world, dice, weights)
        await world.turn()
    await world.settle(dice.choice((1, 3, 100)))
    try:
        world.check()
    except AssertionError as failure:
        failure.add_note(f"seed {seed}")
        raise
    return world


SMALLEST = SMALL | {
    "queue_events": 2,
    "log_page_events": 2,
    "scan_records": 1,
    "table_scan_records": 1,
}
CALM = {"write": 4, "announce": 4, "ask": 3, "answer": 3, "take": 3}
BUSY = CALM | {"begin": 1, "end": 0.5, "replace": 0.5, "say": 1}
TRIMMED = {**CALM, "begin": 1, "end": 0.3, "trim": 1}


@pytest.mark.heavy
@pytest.mark.parametrize("seeds", TEN_THOUSAND)
async def test_no_interleaving_of_a_write_and_a_subscribe_loses_or_doubles(seeds):
    """C2: 10,000 interleavings, each step of a write against each step of a subscribe."""
    for seed in seeds:
        await interleave(seed, CALM, 12, limits=SMALLEST)


@pytest.mark.heavy
@pytest.mark.parametrize("seeds", THOUSANDS)
async def test_no_interleaving_of_filters_loses_or_doubles(seeds):
    for seed in seeds:
        await interleave(seed, BUSY, 60)


@pytest.mark.heavy
@pytest.mark.parametrize("seeds", THOUSANDS)
async def test_no_interleaving_with_retention_gives_a_part(seeds):
    """C11."""
    resets = 0
    for seed in seeds:
        world = await interleave(seed, TRIMMED, 60)
        resets += sum(heard.resets for heard in world.heard.values())
    assert resets > len(seeds) / 15
