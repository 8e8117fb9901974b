"""Live cursors: nothing is lost, nothing comes twice (C2, C9, C11, C18, C22)."""

import asyncio

import pytest

from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, DELETE, GAP, MESSAGE, PATCH, PUT, RESET, SNAPSHOT
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import GapCause
from subscription_world import SMALL, World, kinds


@pytest.fixture
def world():
    return World(**SMALL)


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


async def test_a_queue_is_bounded_in_bytes_too(world):
    """D23: the limit is a setting (``subscriptions.queue_bytes``)."""
    world.subscription.queue.events_max = 100
    world.subscription.queue.bytes_max = 10
    world.watch("Dog/#", 1, current=False)
    for _ in range(10):
        world.write("Dog/1", PUT, b"12345678")
    assert world.subscription.waiting <= 3
    await world.settle()
    world.check()


async def test_bytes_taken_are_room_again_though_the_queue_is_never_empty():
    """C18: what is not logged is not dropped while there is room."""
    world = World(queue_events=100, queue_bytes=50)
    world.watch("Dog/#", 1, current=False)
    world.say("Dog/1", b"12345678")
    for _ in range(50):
        world.say("Dog/1", b"12345678")
        world.take(1)
    assert 0 == world.subscription.losses.total


async def test_what_is_not_logged_and_does_not_fit_is_counted_and_told(world):
    """C18: sent = delivered + the counts of the gaps."""
    world.watch("Dog/#", 1, current=False)
    world.take()
    for _ in range(10):
        world.say("Dog/1")
    await world.settle()
    gap = world.pairs[-1][0]
    assert (GAP, 7, GapCause.SLOW) == (gap.kind, gap.count, gap.why)
    assert 10 == world.gaps
    assert 7 == world.subscription.losses.total


async def test_a_run_is_queued_in_order_as_far_as_it_fits(world):
    """C18: as if its events had come one by one; what does not fit is counted and told."""
    world.watch("Dog/#", 1, current=False)
    world.take()
    world.say_all("Dog/1", b"0", b"1")
    world.say_all("Dog/1", b"2", b"3", b"4")
    await world.settle()
    assert [b"0", b"1", b"2"] == [event.payload for event in world.heard[1].unlogged]
    assert (GAP, 2) == (world.pairs[-1][0].kind, world.pairs[-1][0].count)
    world.say_all("Dog/1", b"5", b"6", b"7")
    await world.settle()
    assert [b"5", b"6", b"7"] == [event.payload for event in world.heard[1].unlogged[3:]]
    world.check()


async def test_a_run_that_is_larger_than_the_queue_in_bytes(world):
    """D23: the bytes of a run count as those of single events do."""
    world.watch("Dog/#", 1, current=False)
    world.take()
    world.subscription.queue.bytes_max = 10
    world.say_all("Dog/1", b"x" * 6, b"y" * 6, b"z" * 6)
    assert 2 == world.subscription.waiting - 1  # and the gap
    await world.settle()
    assert 1 == world.subscription.losses.total
    world.check()


async def test_a_run_while_the_log_is_read_comes_before_what_is_logged_later(world):
    """C18: the queue has logged events only where they follow the position."""
    world.watch("Dog/#", 1, current=False)
    for _ in range(5):
        world.write("Dog/1", MESSAGE)
    assert world.subscription.progress.behind
    world.say_all("Dog/1", b"a", b"b")
    await world.settle()
    world.check()
    assert 5 == len(world.heard[1].events)


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
    assert world.subscription._catch_up.task is None


async def test_a_batch_waits_for_the_next_event(world):
    world.watch("Dog/#", 1, current=False)
    world.take()
    waiting = asyncio.create_task(world.subscription.batch(10))
    await world.turn()
    assert not waiting.done()
    world.write("Dog/1")
    assert [(PUT, 1)] == kinds(await waiting)


async def test_what_was_fetched_before_a_failure_is_still_handed_over(world):
    world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.take()
    await world.turn()
    world.subscription.restart("the cursor is of another log", "deadbeef:7")
    _, future = world.reader.asked.pop()
    future.set_exception(Error(Code.BUSY, "the disk is full"))
    await world.turn()
    assert [(RESET, 1)] == kinds(world.take())
    with pytest.raises(Error):
        world.take()


async def test_it_says_whether_there_may_be_more(world):
    world.watch("Dog/#", 1, current=False)
    assert world.subscription.ready
    world.take()
    assert not world.subscription.ready
    world.write("Dog/1")
    world.write("Dog/1")
    world.take(1)
    assert world.subscription.ready


async def test_what_is_taken_at_once_is_bounded_in_bytes():
    world = World(queue_events=10, log_page_events=10, take_bytes=10)
    for _ in range(6):
        world.write("Dog/1", PUT, b"12345678")
    world.watch("Dog/#", 1, since=0)
    await world.turn()
    for _ in range(6):
        world.write("Dog/1", PUT, b"12345678")
    sizes = set()
    while len(world.heard[1].events) < 12:
        sizes.add(len(world.take()))
        await world.turn()
        while world.reader.asked:
            world.reader.ask()
            world.reader.answer()
            await world.turn()
    assert 2 == max(sizes)


async def test_the_memory_for_topics_is_bounded():
    world = World(**SMALL, topics_cached=2)
    world.watch("Dog/#", 1, current=False)
    world.watch("Cat/#", 2, current=False)
    for number in range(9):
        world.write(f"Dog/{number}")
    await world.settle()
    world.check()
    assert ["Dog/#", "Cat/#"] == [interest.topics.text for interest in world.subscription.interests]
    assert len(world.subscription.interests._by_topic) <= 2
