"""Shared subscriptions: each event to one member, and to another if that one leaves (D36, X11)."""

import pytest
from group_workers import GroupWorld, Worker, numbers

from rowcast.core.errors import Code, Error
from rowcast.core.limits import GROUP_PREFETCH_EVENTS_MAX
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@pytest.fixture
def world():
    return GroupWorld()


# -- assignment ----------------------------------------------------------------------------------


async def test_events_go_to_one_member_each_in_turn(world):
    """D36: round-robin."""
    workers = [world.worker(name) for name in "abc"]
    for payload in numbers(1, 9):
        world.put(payload)
        await world.rounds()
    assert [[b"1", b"4", b"7"], [b"2", b"5", b"8"], [b"3", b"6", b"9"]] == [
        worker.received for worker in workers
    ]


async def test_a_burst_is_assigned_evenly_and_in_order_for_each(world):
    """D36; more than the queue holds: the rest comes from the log."""
    workers = [world.worker(name) for name in "abc"]
    world.put(*numbers(1, 30))
    await world.rounds()
    assert [10, 10, 10] == [len(worker.received) for worker in workers]
    assert numbers(1, 30) == sorted((p for w in workers for p in w.received), key=int)
    for worker in workers:
        assert sorted(worker.received, key=int) == worker.received


async def test_who_has_no_room_is_passed_over_and_holds_nobody_back(world):
    """D36: a stopped worker."""
    stopped, other = world.worker("a", room=1), world.worker("b")
    world.put(*numbers(1, 6))
    await world.rounds()
    assert ([b"1"], numbers(2, 6)) == (stopped.received, other.received)


async def test_what_nobody_has_room_for_waits_for_the_first_who_has(world):
    one, two = world.worker("a", room=1), world.worker("b", room=1)
    world.put(*numbers(1, 6))
    await world.rounds()
    assert ([b"1"], [b"2"]) == (one.received, two.received)
    two.free = 10
    two.finish()
    await world.rounds()
    assert ([b"1"], numbers(2, 6)) == (one.received, two.received)


async def test_a_member_that_acknowledges_nothing_is_assigned_so_many_and_no_more():
    world = GroupWorld(prefetch_events=4)
    silent, busy = world.worker("a"), world.worker("b")
    for payload in numbers(1, 20):
        world.put(payload)
        await world.rounds()
        busy.finish()
    assert (4, 16) == (len(silent.received), len(busy.received))
    assert GROUP_PREFETCH_EVENTS_MAX >= 4


async def test_a_turn_of_the_loop_is_shared():
    """Not everything is assigned at once when others wait for the loop."""
    world = GroupWorld(turn_events=2)
    worker = world.worker("a")
    world.tell(b"1", b"2", b"3")
    await world.rounds()
    assert [b"1", b"2", b"3"] == worker.received


async def test_each_gets_the_qos_that_it_was_granted(world):
    """MQTT-4.8.2-3."""
    workers = [world.worker(str(qos), qos) for qos in (0, 1, 2)]
    world.put(*numbers(1, 3), qos=2)
    await world.rounds()
    assert [[], [1], [2]] == [
        [assignment.qos for assignment in worker.assigned] for worker in workers
    ]
    assert [["1"], ["2"]] == [
        [assignment.interest.identifiers[0] for assignment in w.assigned] for w in workers[1:]
    ]


async def test_what_one_may_not_be_given_goes_to_another_who_may(world):
    """G6: also to one who has no room; and to nobody if nobody may."""
    one, two, full = world.worker("a"), world.worker("b"), world.worker("c", room=0)
    one.forbidden = numbers(1, 9)
    two.forbidden = [b"4", b"5"]
    full.forbidden = [b"5"]
    world.put(*numbers(1, 5))
    await world.rounds()
    assert ([], numbers(1, 3), [b"4"]) == (one.received, two.received, full.received)
    assert 0 == one.group.losses.total  # none of them may know


async def test_current_records_are_never_assigned(world):
    """MQTT 5, 3.3.1.3: no retained messages for shared subscriptions."""
    world.put(b"old")
    worker = world.worker("a")
    await world.rounds()
    world.put(b"new")
    await world.rounds()
    assert [b"new"] == worker.received


async def test_a_new_group_may_begin_in_the_past(world):
    """D55: a stream with a place to begin at, for a group too."""
    world.put(*numbers(1, 5))
    one, two = world.worker("a", since=2), world.worker("b", since=0)
    await world.rounds()
    assert ([b"3", b"5"], [b"4"]) == (one.received, two.received)


async def test_the_same_name_with_another_filter_is_another_group(world):
    topics, worker = TopicFilter("Dog/1"), Worker(world, "b")
    first = world.worker("a")
    other = world.groups.group("g", topics)
    other.join(worker, SubscribedFilter(topics, 1))
    world.put(b"1")
    await world.rounds()
    assert ([b"1"], [b"1"]) == (first.received, worker.received)


async def test_subscribing_again_changes_the_options_and_not_the_turn(world):
    one, two = world.worker("a"), world.worker("b")
    one.qos = 0
    one.join()
    world.put(*numbers(1, 4))
    await world.rounds()
    assert ([b"1", b"3"], [b"2", b"4"]) == (one.received, two.received)
    assert [] == one.assigned


# -- handing over ---------------------------------------------------------------------------------


@pytest.mark.parametrize("logged", [True, False])
async def test_what_a_member_leaves_open_goes_to_the_others_first_and_in_order(world, logged):
    """D36: 3 workers, one killed; each message at least once, 0 lost, also of what no log has."""
    announce = world.put if logged else world.tell
    workers = [world.worker(name, room=2) for name in "abc"]
    announce(*numbers(1, 3))
    await world.rounds()
    announce(*numbers(4, 6))
    await world.rounds()
    announce(*numbers(7, 9))
    workers[0].end()
    for _ in range(5):
        await world.rounds()
        workers[1].finish()
        workers[2].finish()
    assert [b"2", b"5", b"1", b"7", b"9"] == workers[1].received
    assert [b"3", b"6", b"4", b"8"] == workers[2].received


async def test_what_was_not_sent_yet_is_handed_over_when_a_member_unsubscribes(world):
    """MQTT-3.10.4-2, MQTT-3.10.4-3: what was sent, that member completes."""
    one, two = world.worker("a"), world.worker("b")
    world.put(b"1", b"2")
    await world.rounds()
    one.sends = False
    world.put(b"3", b"4")
    await world.rounds()
    one.leave()
    world.put(b"5")
    await world.rounds()
    assert ([b"1"], [b"1"]) == (one.received, one.payloads)
    assert [b"2", b"4", b"3", b"5"] == two.received
    one.finish()
    two.leave()
    assert [] == list(world.groups)


async def test_a_member_that_unsubscribed_and_ends_leaves_what_it_did_not_complete(world):
    one, two = world.worker("a"), world.worker("b")
    world.put(b"1", b"2")
    await world.rounds()
    one.leave()
    one.end()
    await world.rounds()
    assert [b"2", b"1"] == two.received


async def test_what_a_durable_member_was_sent_before_it_unsubscribed_waits_for_it(world):
    """MQTT-3.10.4-3: it completes it when it is back; the others are assigned it when it ends."""
    one, two = world.worker("a", durable=True), world.worker("b")
    world.put(b"1", b"2")
    await world.rounds()
    one.leave()
    one.rest()
    await world.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.received)
    one.end()
    await world.rounds()
    assert [b"2", b"1"] == two.received


async def test_qos_2_that_was_sent_is_for_nobody_else(world):
    """MQTT-4.8.2-4 while the session lasts, MQTT-4.8.2-5 when it ends."""
    one, two = world.worker("a", 2, durable=True), world.worker("b", 2)
    world.put(b"1", b"2", qos=2)
    await world.rounds()
    one.rest()
    await world.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.received)
    one.end()
    await world.rounds()
    assert [b"2"] == two.received


async def test_qos_2_that_was_not_sent_is_for_the_others(world):
    one, two = world.worker("a", 2, sends=False), world.worker("b", 2)
    world.put(b"1", qos=2)
    await world.rounds()
    one.end()
    await world.rounds()
    assert [b"1"] == two.received


async def test_a_durable_member_that_is_back_first_keeps_what_it_was_sent(world):
    """MQTT-4.4.0-1: it is sent again under its identifier, and to nobody else."""
    one = world.worker("a", durable=True)
    world.put(b"1")
    await world.rounds()
    one.rest()
    await world.rounds()
    one.back()
    two = world.worker("b")
    await world.rounds()
    assert ([b"1", b"1"], [b"1"], []) == (one.received, one.payloads, two.received)


async def test_a_durable_member_forgets_what_another_took_meanwhile(world):
    one, two = world.worker("a", durable=True), world.worker("b", room=1)
    world.put(b"1", b"2")
    await world.rounds()
    one.rest()
    await world.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.received)
    two.finish()
    await world.rounds()
    assert ([], [b"2", b"1"]) == (one.payloads, two.received)
    one.back()
    two.end()
    await world.rounds()
    assert [b"1", b"1"] == one.received


async def test_a_member_that_goes_while_it_is_assigned_to_loses_nothing(world):
    """An edge may find out in the middle that a connection is gone."""
    one, two = world.worker("a"), world.worker("b")
    one.assign = lambda assignment: one.group.end(one)
    world.put(*numbers(1, 3))
    await world.rounds()
    assert [b"2", b"1", b"3"] == two.received


# -- on the bus and off it ------------------------------------------------------------------------


async def test_without_a_connected_member_it_costs_nothing_and_goes_on_from_the_log(world):
    """X11: only offline durable members; what came meanwhile goes to the first who returns."""
    one, two = world.worker("a", durable=True), world.worker("b", durable=True)
    world.put(b"1", b"2")
    await world.rounds()
    one.finish()
    two.finish()
    one.rest()
    two.rest()
    assert 0 == world.bus.subscriptions
    world.put(*numbers(3, 9))
    await world.rounds()
    two.back()
    await world.rounds()
    assert ([b"1"], [b"2", *numbers(3, 9)]) == (one.received, two.received)


async def test_an_event_that_waits_when_the_last_member_goes_is_not_lost(world):
    one = world.worker("a", durable=True, room=1)
    world.put(*numbers(1, 4))
    await world.rounds()
    one.rest()
    one.free = 10
    one.back()
    await world.rounds()
    assert [b"1", b"1", b"2", b"3", b"4"] == one.received


@pytest.mark.parametrize("durable", [True, False])
async def test_without_a_durable_member_nothing_is_kept(world, durable):
    """A member with QoS 0 is not durable: nothing is kept for it (MQTT 5, 4.1)."""
    one = world.worker("a", 0, durable=durable)
    assert not one.group.durable
    one.rest()
    world.put(b"1")
    one.back()
    world.put(b"2")
    await world.rounds()
    assert [b"2"] == one.received


async def test_it_ends_with_its_last_member(world):
    one, two = world.worker("a", durable=True), world.worker("b")
    two.end()
    one.rest()
    assert 1 == len(list(world.groups))
    one.end()
    assert ([], 0) == (list(world.groups), world.bus.subscriptions)


async def test_it_keeps_its_place_only_while_a_durable_member_is_in_it(world):
    one, two = world.worker("a", durable=True), world.worker("b", 0, durable=True)
    one.rest()
    two.rest()
    world.put(b"1")
    one.end()
    world.put(b"2")
    two.back()
    world.put(b"3")
    await world.rounds()
    assert [b"3"] == two.received


async def test_what_the_log_lost_meanwhile_is_left_out_and_the_rest_is_assigned(world):
    """A queue cannot begin anew with the current records; it goes on with what is left."""
    one = world.worker("a", durable=True)
    one.rest()
    world.put(*numbers(1, 6))
    world.trim(2)
    one.back()
    await world.rounds()
    assert [b"5", b"6"] == one.received


async def test_a_log_that_cannot_be_read_is_tried_again(monkeypatch):
    world = GroupWorld(retry_seconds=0)
    one = world.worker("a", durable=True)
    one.rest()
    world.put(b"1", b"2")
    read, tries = world.reader._store.read, []

    def fails(*given, **options):
        tries.append(1)
        if len(tries) < 3:
            raise Error(Code.BUSY, "the disk refuses")
        return read(*given, **options)

    async def run(call, _lane=None):
        return call()

    monkeypatch.setattr(world.reader, "_run", run)
    monkeypatch.setattr(world.store, "read", fails)
    one.back()
    for _ in range(10):
        await world.rounds()
    assert (3, [b"1", b"2"]) == (len(tries), one.received)


async def test_unlogged_events_that_nobody_has_room_for_are_counted(world):
    """C18 for a group."""
    one = world.worker("a", room=0)
    world.tell(*numbers(1, 5))
    await world.rounds()
    group = one.group
    one.end()
    assert {GapCause.SLOW: 2} == group.losses.counts


# -- what is no mistake ----------------------------------------------------------------------------


async def test_what_is_unknown_or_done_changes_nothing(world):
    """An edge need not know what the group still knows."""
    one, stranger = world.worker("a"), Worker(world, "s")
    world.put(b"1")
    await world.rounds()
    stranger.rest()
    stranger.leave()
    stranger.end()
    (assignment,) = one.assigned
    one.done(assignment)
    assignment.group.done(assignment)
    world.put(b"2")
    await world.rounds()
    assert [b"1", b"2"] == one.received


async def test_a_gap_is_told_to_one_member(world):
    """C18, M4: so that the sum over all members is what the group lost."""
    one = world.worker("a", room=0)
    world.tell(*numbers(1, 5))
    await world.rounds()
    one.free = 10
    one.group.ready()
    await world.rounds()
    world.put(b"6")
    await world.rounds()
    assert ([b"1", b"2", b"3", b"6"], [("slow", 2)]) == (one.received, one.gaps)


async def test_a_group_that_is_stopped_reads_nothing_more(world):
    world.worker("a", durable=True, sends=False)
    world.put(*numbers(1, 3))
    await world.rounds()
    world.groups.save()
    again = world.restart()
    back = again.worker("a", durable=True)
    await again.turn()
    assert again.reader.asked  # it reads again what was open
    again.groups.stop()
    await again.rounds()
    assert ([], 0) == (back.received, again.bus.subscriptions)


async def test_what_nobody_wants_any_more_is_not_read_again(world):
    """The last durable member ends while the log is asked for what was open."""
    world.worker("a", durable=True, sends=False)
    world.put(*numbers(1, 3))
    await world.rounds()
    world.groups.save()
    again = world.restart()
    back = again.worker("a", durable=True)
    await again.turn()
    back.end()
    await again.rounds()
    other = again.worker("b")
    again.seq, again.announced = 3, 3
    again.put(b"4")
    await again.rounds()
    assert ([], [b"4"]) == (back.received, other.received)
