"""Filters that come and go, and logs that are trimmed (C9, C11, C22)."""

import pytest

from rowcast.core.events import CURRENT, MESSAGE, PUT, RESET, SNAPSHOT
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription
from subscription_world import CAT, SMALL, World, kinds


@pytest.fixture
def world():
    return World(**SMALL)


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
        if not world.subscription.progress.page:
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


async def test_what_was_published_before_it_was_asked_for_is_not_left_out(world):
    """MQTT-3.8.4-3: nothing is lost because options are replaced, No Local among them."""
    world.subscription.client_id = "me"
    old = world.watch("Dog/#", 1, current=False)
    world.commit("Dog/1").client = "me"
    world.subscription.suspend()
    world.announce()
    again = Subscription(world.reader, "me")
    again.resume(0, [old])
    new = SubscribedFilter(old.topics, 1, no_local=True)
    again.replace(new, current=False)
    mine = world.commit("Dog/1")
    mine.client = "me"
    wanted = [again.interests.wanting(event, "me") for event in world.logged]
    assert [new, None] == wanted


async def test_what_waits_is_sent_as_it_was_asked_for_last(world):
    """MQTT-3.3.4-7: or more would be in flight than the QoS of the filters tells."""
    for _ in range(3):
        world.write("Dog/1")
    world.watch("Dog/#", 1, since=0)
    world.watch("Dog/1", 2, since=0)
    world.take()
    await world.turn()
    world.reader.ask()
    world.reader.answer()
    await world.turn()
    world.replace(2, current=False)
    await world.settle()
    merged = {item for _, interest in world.pairs if interest for item in interest.merged}
    assert world.interests[2] in merged
    assert all(item in world.interests.values() for item in merged)


async def test_filters_that_begin_together_in_the_past_come_in_the_order_of_the_log(world):
    """C9, C22: so each number is a place to continue from, for all of them."""
    for number in range(20):
        world.write(("Dog/1", "Cat/1", "x")[number % 3])
    for number, text in enumerate(("Dog/#", "Cat/#", "x")):
        world.watch(text, number + 1, since=4)
    await world.settle(2)
    assert list(range(5, 21)) == [event.seq for event, _ in world.pairs]
    world.check()


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


async def test_a_stream_of_several_filters_is_reset_as_a_whole(world):
    """C11: its reader cannot tell which of its records a RESET is about, and forgets them all."""
    world.write("Cat/1")
    for _ in range(10):
        world.write("Dog/1")
    world.trim(2)
    for text, number in (("Cat/#", 1), ("Dog/#", 2), ("Cat/2", 3)):
        interest = world.watch(text, number, since=3, marks=number == 2)
        interest.identifiers, interest.of_stream = (() if number < 3 else (3,)), True
    await world.settle()
    heard = [(event.kind, event.topic) for event in (event for event, _ in world.pairs)]
    assert [(RESET, ""), (SNAPSHOT, "Cat/1"), (SNAPSHOT, "Dog/1"), (CURRENT, "")] == heard


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
