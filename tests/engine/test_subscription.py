"""Live cursors: nothing is lost, nothing comes twice (FEATURES C2, C9, C11, C18, C22)."""

import asyncio
import random

import pytest
from subscription_world import CAT, DOG, World

from app.core.errors import Code, Error
from app.core.events import CURRENT, DELETE, GAP, MESSAGE, PATCH, PUT, RESET, SNAPSHOT
from app.core.topics import TopicFilter
from app.engine import preludes, subscription

INTERLEAVINGS = 10_000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Limits so small that every one of them is met within a few events."""
    limits(monkeypatch)


def limits(monkeypatch, queue=3, page=3, scan=2, queue_bytes=10_000):
    monkeypatch.setattr(subscription, "SUBSCRIPTION_QUEUE_EVENTS_MAX", queue)
    monkeypatch.setattr(subscription, "SUBSCRIPTION_QUEUE_BYTES_MAX", queue_bytes)
    monkeypatch.setattr(subscription, "LOG_PAGE_EVENTS", page)
    monkeypatch.setattr(preludes, "LOG_PAGE_EVENTS", page)
    monkeypatch.setattr(preludes, "SCAN_PAGE_RECORDS", scan)


@pytest.fixture
def world():
    return World()


def kinds(pairs):
    return [(event.kind, event.seq) for event, _ in pairs]


# -- what a reader gets --------------------------------------------------------------------------


async def test_current_records_come_first_then_the_mark_then_events(world):
    """C2, C12."""
    world.write("Dog/1")
    world.write("Cat/1")
    world.write("Dog/2")
    world.watch("Dog/#", 1)
    await world.settle()
    world.write("Dog/1", PATCH)
    await world.settle()
    assert [(SNAPSHOT, 1), (SNAPSHOT, 3), (CURRENT, 3), (PATCH, 4)] == kinds(world.pairs)


async def test_start_new_gives_the_mark_and_only_what_follows(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1, current=False)
    await world.settle()
    world.write("Dog/1")
    await world.settle()
    assert [(CURRENT, 1), (PUT, 2)] == kinds(world.pairs)


async def test_without_marks_there_is_none(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1, marks=False)
    await world.settle()
    assert [(SNAPSHOT, 1)] == kinds(world.pairs)


async def test_a_record_written_during_the_snapshot_comes_once_as_its_event(world):
    """C2."""
    world.write("Dog/1")
    world.watch("Dog/1", 1)
    world.take()
    world.commit("Dog/1")
    await world.settle()
    assert [(CURRENT, 1), (PUT, 2)] == kinds(world.pairs)


@pytest.mark.parametrize("k", range(21))
async def test_a_cut_after_any_event_is_continued_exactly(world, k):
    """C9, C10."""
    for number in range(20):
        topic = f"{'Cat' if number % 3 else 'Dog'}/{number % 4}"
        world.write(topic, (PUT, PATCH, MESSAGE, DELETE)[number % 4])
    world.watch("#", 1, since=k)
    await world.settle()
    assert list(range(k + 1, 21)) == [event.seq for event, _ in world.pairs]


async def test_all_of_it_is_in_the_order_of_the_log_across_tables(world):
    """C22."""
    world.watch("Dog/#", 1, current=False)
    world.watch("Cat/#", 2, current=False)
    for number in range(40):
        world.commit(f"{'Cat' if number % 3 else 'Dog'}/1")
    await world.settle()
    assert list(range(1, 41)) == [event.seq for event, _ in world.pairs if event.kind == PUT]


async def test_a_stopped_reader_holds_a_bounded_queue_and_loses_nothing(world):
    """C18."""
    world.watch("Dog/#", 1, current=False)
    for _ in range(100):
        world.write("Dog/1", MESSAGE)
    assert world.subscription.waiting <= 4
    await world.settle()
    world.check()
    assert 100 == len(world.heard[1].events)
    assert world.subscription.fallbacks > 0


async def test_a_queue_is_bounded_in_bytes_too(world, monkeypatch):
    limits(monkeypatch, queue=100, queue_bytes=10)
    world.watch("Dog/#", 1, current=False)
    for _ in range(10):
        world.write("Dog/1", PUT, b"12345678")
    assert world.subscription.waiting <= 3
    await world.settle()
    world.check()


async def test_bytes_taken_are_room_again_though_the_queue_is_never_empty(world, monkeypatch):
    """C18: what is not logged is not dropped while there is room."""
    limits(monkeypatch, queue=100, queue_bytes=50)
    world.watch("Dog/#", 1, current=False)
    world.say("Dog/1", b"12345678")
    for _ in range(50):
        world.say("Dog/1", b"12345678")
        world.take(1)
    assert 0 == world.subscription.dropped


async def test_what_is_not_logged_and_does_not_fit_is_counted_and_told(world):
    """C18: sent = delivered + the counts of the gaps."""
    world.watch("Dog/#", 1, current=False)
    world.take()
    for _ in range(10):
        world.say("Dog/1")
    await world.settle()
    gap = world.pairs[-1][0]
    assert (GAP, 7, None) == (gap.kind, gap.decoded["count"], world.pairs[-1][1])
    assert 10 == world.gaps
    assert 7 == world.subscription.dropped


async def test_a_reader_is_asked_for_room_before_anything_is_refused(world):
    world.subscription._on_full = world.take
    world.watch("Dog/#", 1, current=False)
    for _ in range(50):
        world.say("Dog/1")
    await world.settle()
    assert 50 == len(world.heard[1].unlogged)


async def test_a_reader_that_closes_when_asked_for_room_takes_nothing_more(world):
    def close():
        world.bus.remove(TopicFilter("Dog/#"), world.subscription)
        world.subscription.close()

    world.subscription._on_full = close
    world.watch("Dog/#", 1, current=False)
    for _ in range(50):
        world.write("Dog/1")
    assert 0 == world.subscription.waiting


# -- several filters -----------------------------------------------------------------------------


async def test_overlapping_filters_give_one_delivery_for_both(world):
    world.watch("Dog/#", 1, current=False)
    world.watch("Dog/1", 2, current=False)
    world.write("Dog/1")
    await world.settle()
    assert [(1, 2)] == [i.identifiers for e, i in world.pairs if e.kind == PUT]
    world.check()


async def test_a_filter_that_begins_while_another_catches_up_misses_nothing(world):
    """The page that is on its way was read for one table alone."""
    for _ in range(9):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    world.watch("Cat/#", 2, current=False)
    world.commit("Cat/1", MESSAGE)
    world.commit("Dog/1")
    await world.settle()
    world.check()
    assert [10] == [event.seq for event in world.heard[2].events]


async def test_a_filter_that_begins_behind_what_is_read_gets_what_lies_between(world):
    for _ in range(6):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    world.reader.ask()
    world.reader.answer()
    await world.turn()
    world.watch("Dog/1", 2, since=1)
    await world.settle(1)
    world.check()


async def test_what_is_committed_but_not_announced_when_a_filter_begins_is_not_lost(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.commit("Dog/1")
    for _ in range(3):  # ask, answer and take: the reader is ahead of the announcements now
        world.take()
        await world.turn()
        while world.reader.asked:
            world.reader.ask()
            world.reader.answer()
            await world.turn()
    assert [1, 2] == [event.seq for event in world.heard[1].events]
    world.watch("+/1", 2, current=False)
    await world.settle()
    world.check()
    assert [2] == [event.seq for event in world.heard[2].events]


async def test_a_filter_that_ends_is_heard_no_more(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1)
    world.watch("Cat/#", 2)
    world.take()
    await world.turn()
    world.unwatch(1)
    world.write("Dog/1")
    await world.settle()
    assert [] == world.gone[1].snapshots + world.gone[1].events
    assert not world.subscription.discard(TopicFilter("Dog/#"))


async def test_the_end_of_one_of_two_filters_takes_nothing_from_the_other(world):
    """A page holds events that were for both."""
    for _ in range(3):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.watch("Dog/1", 2, since=0)
    world.take()
    await world.turn()
    for _ in range(2):
        while world.reader.asked:
            world.reader.ask()
            world.reader.answer()
            await world.turn()
        world.subscription.on_ready()
        if not world.subscription._page:
            world.take(1)
            await world.turn()
    assert world.subscription.waiting
    world.unwatch(1)
    await world.settle(1)
    world.check()


async def test_a_subscription_may_begin_again_after_its_last_filter_ended(world):
    for _ in range(20):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    world.unwatch(1)
    world.watch("Dog/#", 2, since=5)
    await world.settle()
    world.check()


async def test_replacing_a_filter_loses_no_event_of_its_past(world):
    """MQTT-3.8.4-3."""
    for _ in range(10):
        world.write("Dog/1")
    world.watch("Cat/#", 1)
    await world.settle()
    world.watch("Dog/#", 2, since=2)
    world.replace(2, current=False)
    await world.settle()
    world.check()


async def test_replacing_a_filter_sends_the_records_again_when_asked(world):
    """MQTT-3.8.4-3, MQTT-3.3.1-9."""
    world.write("Dog/1")
    world.watch("Dog/#", 1)
    await world.settle()
    world.replace(1, current=True)
    await world.settle()
    assert [(SNAPSHOT, 1), (CURRENT, 1)] * 2 == kinds(world.pairs)


async def test_the_records_sent_again_are_never_newer_than_the_events_after_them(world):
    """C22: one topic never goes back."""
    world.watch("Dog/#", 1)
    await world.settle()
    for _ in range(9):
        world.write("Dog/1")
    world.replace(1, current=True)
    await world.settle(1)
    told = [event.seq for event, _ in world.pairs if event.kind in {SNAPSHOT, PUT}]
    assert sorted(told) == told


async def test_a_snapshot_on_its_way_ends_when_it_is_asked_for_again(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1)
    world.take()
    await world.turn()
    world.replace(1, current=True)
    await world.settle()
    assert [(SNAPSHOT, 1), (CURRENT, 1)] == kinds(world.pairs)


async def test_what_the_client_wrote_itself_is_left_out_when_asked(world):
    """MQTT-3.8.3-3."""
    world.subscription.client_id = "me"
    world.watch("Dog/#", 1, current=False).no_local = True
    mine = world.commit("Dog/1")
    mine.client = "me"
    world.announce()
    world.write("Dog/1")
    await world.settle()
    assert [2] == [event.seq for event in world.heard[1].events]


# -- a log that is trimmed -----------------------------------------------------------------------


async def test_a_position_that_was_trimmed_gives_one_reset_and_the_records(world):
    """C11."""
    for _ in range(10):
        world.write("Dog/1")
    world.trim(2)
    world.watch("Dog/#", 1, since=3)
    await world.settle()
    world.write("Dog/2")
    await world.settle()
    expected = [(RESET, 10), (SNAPSHOT, 10), (CURRENT, 10), (PUT, 11)]
    assert expected == kinds(world.pairs)
    assert {"from": "0badcafe:3", "reason": "no longer in the log"} == world.pairs[0][0].decoded


async def test_trimming_between_the_look_and_the_read_is_noticed(world):
    """C11: never a part."""
    for _ in range(10):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    world.trim(2)
    world.reader.ask()
    await world.settle()
    assert [(RESET, 10), (SNAPSHOT, 10), (CURRENT, 10)] == kinds(world.pairs)


async def test_trimming_a_table_that_nobody_asked_for_resets_nobody(world):
    for _ in range(10):
        world.write("Cat/1")
    world.write("Dog/1")
    world.trim(1, CAT)
    world.watch("Dog/#", 1, since=0)
    await world.settle()
    assert [(PUT, 11)] == kinds(world.pairs)


async def test_a_filter_whose_own_past_was_trimmed_is_reset_alone(world):
    for _ in range(10):
        world.write("Dog/1")
    world.watch("Cat/#", 1)
    await world.settle()
    world.trim(2)
    world.watch("Dog/#", 2, since=3)
    await world.settle()
    world.check()
    assert (0, 1) == (world.heard[1].resets, world.heard[2].resets)


async def test_a_reset_is_never_followed_by_another_for_the_same_cause(world):
    """C11: no loop, even when the log is trimmed up to what is not announced yet."""
    for _ in range(6):
        world.write("Dog/1")
    world.commit("Dog/1")
    world.commit("Dog/1")
    world.trim(1)
    world.watch("Dog/#", 1, since=0)
    await world.settle()
    assert 1 == world.heard[1].resets


async def test_a_cursor_that_cannot_be_continued_begins_with_a_reset(world):
    world.write("Dog/1")
    world.subscription.restart("the cursor is of another log", "deadbeef:7")
    world.watch("Dog/#", 1)
    await world.settle()
    assert [(RESET, 1), (SNAPSHOT, 1), (CURRENT, 1)] == kinds(world.pairs)


# -- errors and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "code"),
    [(Error(Code.BUSY, "the disk is full"), Code.BUSY), (OSError("secret"), Code.BUSY)],
    ids=["refusal", "bug"],
)
async def test_a_page_that_cannot_be_read_ends_the_subscription(world, failure, code):
    world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    _, future = world.reader.asked.pop()
    future.set_exception(failure)
    await world.turn()
    world.write("Dog/1")  # it is queued, and lies beyond the hole
    with pytest.raises(Error) as caught:
        world.take()
    assert code == caught.value.code
    assert "secret" not in caught.value.message


async def test_a_closed_subscription_gives_nothing_and_asks_for_nothing(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1)
    world.take()
    await world.turn()
    world.subscription.close()
    await world.turn()
    assert [] == await world.subscription.batch(10)
    assert [] == world.subscription.take(10)
    assert world.subscription._task is None


async def test_a_batch_waits_for_the_next_event(world):
    world.watch("Dog/#", 1, current=False)
    world.take()
    waiting = asyncio.create_task(world.subscription.batch(10))
    await world.turn()
    assert not waiting.done()
    world.write("Dog/1")
    assert [(PUT, 1)] == kinds(await waiting)


# -- interleavings -------------------------------------------------------------------------------

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


async def interleave(seed, weights, steps, begin=begin_something):
    dice = random.Random(seed)
    world = World()
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


CALM = {"write": 4, "announce": 4, "ask": 3, "answer": 3, "take": 3}
BUSY = CALM | {"begin": 1, "end": 0.5, "replace": 0.5, "say": 1}
TRIMMED = {**CALM, "begin": 1, "end": 0.3, "trim": 1}


async def test_no_interleaving_of_a_write_and_a_subscribe_loses_or_doubles(monkeypatch):
    """C2: 10,000 interleavings, each step of a write against each step of a subscribe."""
    limits(monkeypatch, queue=2, page=2, scan=1)
    for seed in range(INTERLEAVINGS):
        await interleave(seed, CALM, 12)


async def test_no_interleaving_of_filters_loses_or_doubles():
    for seed in range(1_500):
        await interleave(seed, BUSY, 60)


async def test_no_interleaving_with_retention_gives_a_part():
    """C11."""
    resets = 0
    for seed in range(1_500):
        world = await interleave(seed, TRIMMED, 60)
        resets += sum(heard.resets for heard in world.heard.values())
    assert resets > 100
