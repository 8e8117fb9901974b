"""Shared subscriptions: each event to one member, and to another if that one leaves (D36, X11)."""

import pytest
from group_workers import Worker, Yard, numbers

from rowcast.core.errors import Code, Error
from rowcast.core.limits import GROUP_AHEAD_EVENTS_MAX
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


@pytest.fixture
def yard():
    return Yard()


# -- dealing -------------------------------------------------------------------------------------


async def test_events_go_to_one_member_each_in_turn(yard):
    """D36: round-robin."""
    workers = [yard.worker(name) for name in "abc"]
    for payload in numbers(1, 9):
        yard.put(payload)
        await yard.rounds()
    assert [[b"1", b"4", b"7"], [b"2", b"5", b"8"], [b"3", b"6", b"9"]] == [
        worker.heard for worker in workers
    ]


async def test_a_burst_is_dealt_evenly_and_in_order_for_each(yard):
    """D36; more than the queue holds: the rest comes from the log."""
    workers = [yard.worker(name) for name in "abc"]
    yard.put(*numbers(1, 30))
    await yard.rounds()
    assert [10, 10, 10] == [len(worker.heard) for worker in workers]
    assert numbers(1, 30) == sorted((p for w in workers for p in w.heard), key=int)
    for worker in workers:
        assert sorted(worker.heard, key=int) == worker.heard


async def test_who_has_no_room_is_passed_over_and_holds_nobody_back(yard):
    """D36: a stopped worker."""
    stopped, other = yard.worker("a", room=1), yard.worker("b")
    yard.put(*numbers(1, 6))
    await yard.rounds()
    assert ([b"1"], numbers(2, 6)) == (stopped.heard, other.heard)


async def test_what_nobody_has_room_for_waits_for_the_first_who_has(yard):
    one, two = yard.worker("a", room=1), yard.worker("b", room=1)
    yard.put(*numbers(1, 6))
    await yard.rounds()
    assert ([b"1"], [b"2"]) == (one.heard, two.heard)
    two.free = 10
    two.finish()
    await yard.rounds()
    assert ([b"1"], numbers(2, 6)) == (one.heard, two.heard)


async def test_a_member_that_acknowledges_nothing_is_dealt_so_many_and_no_more():
    yard = Yard(ahead_events=4)
    silent, busy = yard.worker("a"), yard.worker("b")
    for payload in numbers(1, 20):
        yard.put(payload)
        await yard.rounds()
        busy.finish()
    assert (4, 16) == (len(silent.heard), len(busy.heard))
    assert GROUP_AHEAD_EVENTS_MAX >= 4


async def test_a_turn_of_the_loop_is_shared():
    """Not everything is dealt at once when others wait for the loop."""
    yard = Yard(turn_events=2)
    worker = yard.worker("a")
    yard.tell(b"1", b"2", b"3")
    await yard.rounds()
    assert [b"1", b"2", b"3"] == worker.heard


async def test_each_gets_the_qos_that_it_was_granted(yard):
    """MQTT-4.8.2-3."""
    workers = [yard.worker(str(qos), qos) for qos in (0, 1, 2)]
    yard.put(*numbers(1, 3), qos=2)
    await yard.rounds()
    assert [[], [1], [2]] == [[deal.qos for deal in worker.deals] for worker in workers]
    assert [["1"], ["2"]] == [
        [deal.interest.identifiers[0] for deal in w.deals] for w in workers[1:]
    ]


async def test_what_one_may_not_be_given_goes_to_another_who_may(yard):
    """G6: also to one who has no room; and to nobody if nobody may."""
    one, two, full = yard.worker("a"), yard.worker("b"), yard.worker("c", room=0)
    one.forbidden = numbers(1, 9)
    two.forbidden = [b"4", b"5"]
    full.forbidden = [b"5"]
    yard.put(*numbers(1, 5))
    await yard.rounds()
    assert ([], numbers(1, 3), [b"4"]) == (one.heard, two.heard, full.heard)
    assert 0 == one.group.losses.total  # none of them may know


async def test_current_records_are_never_dealt(yard):
    """MQTT 5, 3.3.1.3: no retained messages for shared subscriptions."""
    yard.put(b"old")
    worker = yard.worker("a")
    await yard.rounds()
    yard.put(b"new")
    await yard.rounds()
    assert [b"new"] == worker.heard


async def test_a_new_group_may_begin_in_the_past(yard):
    """D55: a stream with a place to begin at, for a group too."""
    yard.put(*numbers(1, 5))
    one, two = yard.worker("a", since=2), yard.worker("b", since=0)
    await yard.rounds()
    assert ([b"3", b"5"], [b"4"]) == (one.heard, two.heard)


async def test_the_same_name_with_another_filter_is_another_group(yard):
    topics, worker = TopicFilter("Dog/1"), Worker(yard, "b")
    first = yard.worker("a")
    other = yard.groups.group("g", topics)
    other.join(worker, SubscribedFilter(topics, 1))
    yard.put(b"1")
    await yard.rounds()
    assert ([b"1"], [b"1"]) == (first.heard, worker.heard)


async def test_subscribing_again_changes_the_options_and_not_the_turn(yard):
    one, two = yard.worker("a"), yard.worker("b")
    one.qos = 0
    one.join()
    yard.put(*numbers(1, 4))
    await yard.rounds()
    assert ([b"1", b"3"], [b"2", b"4"]) == (one.heard, two.heard)
    assert [] == one.deals


# -- handing over ---------------------------------------------------------------------------------


@pytest.mark.parametrize("logged", [True, False])
async def test_what_a_member_leaves_open_goes_to_the_others_first_and_in_order(yard, logged):
    """D36: 3 workers, one killed; each message at least once, 0 lost, also of what no log has."""
    announce = yard.put if logged else yard.tell
    workers = [yard.worker(name, room=2) for name in "abc"]
    announce(*numbers(1, 3))
    await yard.rounds()
    announce(*numbers(4, 6))
    await yard.rounds()
    announce(*numbers(7, 9))
    workers[0].end()
    for _ in range(5):
        await yard.rounds()
        workers[1].finish()
        workers[2].finish()
    assert [b"2", b"5", b"1", b"7", b"9"] == workers[1].heard
    assert [b"3", b"6", b"4", b"8"] == workers[2].heard


async def test_what_was_not_sent_yet_is_handed_over_when_a_member_unsubscribes(yard):
    """MQTT-3.10.4-2, MQTT-3.10.4-3: what was sent, that member completes."""
    one, two = yard.worker("a"), yard.worker("b")
    yard.put(b"1", b"2")
    await yard.rounds()
    one.sends = False
    yard.put(b"3", b"4")
    await yard.rounds()
    one.leave()
    yard.put(b"5")
    await yard.rounds()
    assert ([b"1"], [b"1"]) == (one.heard, one.payloads)
    assert [b"2", b"4", b"3", b"5"] == two.heard
    one.finish()
    two.leave()
    assert [] == list(yard.groups)


async def test_a_member_that_unsubscribed_and_ends_leaves_what_it_did_not_complete(yard):
    one, two = yard.worker("a"), yard.worker("b")
    yard.put(b"1", b"2")
    await yard.rounds()
    one.leave()
    one.end()
    await yard.rounds()
    assert [b"2", b"1"] == two.heard


async def test_what_a_durable_member_was_sent_before_it_unsubscribed_waits_for_it(yard):
    """MQTT-3.10.4-3: it completes it when it is back; the others are dealt it when it ends."""
    one, two = yard.worker("a", durable=True), yard.worker("b")
    yard.put(b"1", b"2")
    await yard.rounds()
    one.leave()
    one.rest()
    await yard.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.heard)
    one.end()
    await yard.rounds()
    assert [b"2", b"1"] == two.heard


async def test_qos_2_that_was_sent_is_for_nobody_else(yard):
    """MQTT-4.8.2-4 while the session lasts, MQTT-4.8.2-5 when it ends."""
    one, two = yard.worker("a", 2, durable=True), yard.worker("b", 2)
    yard.put(b"1", b"2", qos=2)
    await yard.rounds()
    one.rest()
    await yard.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.heard)
    one.end()
    await yard.rounds()
    assert [b"2"] == two.heard


async def test_qos_2_that_was_not_sent_is_for_the_others(yard):
    one, two = yard.worker("a", 2, sends=False), yard.worker("b", 2)
    yard.put(b"1", qos=2)
    await yard.rounds()
    one.end()
    await yard.rounds()
    assert [b"1"] == two.heard


async def test_a_durable_member_that_is_back_first_keeps_what_it_was_sent(yard):
    """MQTT-4.4.0-1: it is sent again under its identifier, and to nobody else."""
    one = yard.worker("a", durable=True)
    yard.put(b"1")
    await yard.rounds()
    one.rest()
    await yard.rounds()
    one.back()
    two = yard.worker("b")
    await yard.rounds()
    assert ([b"1", b"1"], [b"1"], []) == (one.heard, one.payloads, two.heard)


async def test_a_durable_member_forgets_what_another_took_meanwhile(yard):
    one, two = yard.worker("a", durable=True), yard.worker("b", room=1)
    yard.put(b"1", b"2")
    await yard.rounds()
    one.rest()
    await yard.rounds()
    assert ([b"1"], [b"2"]) == (one.payloads, two.heard)
    two.finish()
    await yard.rounds()
    assert ([], [b"2", b"1"]) == (one.payloads, two.heard)
    one.back()
    two.end()
    await yard.rounds()
    assert [b"1", b"1"] == one.heard


async def test_a_member_that_goes_while_it_is_dealt_to_loses_nothing(yard):
    """An edge may find out in the middle that a connection is gone."""
    one, two = yard.worker("a"), yard.worker("b")
    one.give = lambda deal: one.group.end(one)
    yard.put(*numbers(1, 3))
    await yard.rounds()
    assert [b"2", b"1", b"3"] == two.heard


# -- on the bus and off it ------------------------------------------------------------------------


async def test_without_a_connected_member_it_costs_nothing_and_goes_on_from_the_log(yard):
    """X11: only offline durable members; what came meanwhile goes to the first who returns."""
    one, two = yard.worker("a", durable=True), yard.worker("b", durable=True)
    yard.put(b"1", b"2")
    await yard.rounds()
    one.finish()
    two.finish()
    one.rest()
    two.rest()
    assert 0 == yard.bus.subscriptions
    yard.put(*numbers(3, 9))
    await yard.rounds()
    two.back()
    await yard.rounds()
    assert ([b"1"], [b"2", *numbers(3, 9)]) == (one.heard, two.heard)


async def test_an_event_that_waits_when_the_last_member_goes_is_not_lost(yard):
    one = yard.worker("a", durable=True, room=1)
    yard.put(*numbers(1, 4))
    await yard.rounds()
    one.rest()
    one.free = 10
    one.back()
    await yard.rounds()
    assert [b"1", b"1", b"2", b"3", b"4"] == one.heard


@pytest.mark.parametrize("durable", [True, False])
async def test_without_a_durable_member_nothing_is_kept(yard, durable):
    """A member with QoS 0 is not durable: nothing is kept for it (MQTT 5, 4.1)."""
    one = yard.worker("a", 0, durable=durable)
    assert not one.group.durable
    one.rest()
    yard.put(b"1")
    one.back()
    yard.put(b"2")
    await yard.rounds()
    assert [b"2"] == one.heard


async def test_it_ends_with_its_last_member(yard):
    one, two = yard.worker("a", durable=True), yard.worker("b")
    two.end()
    one.rest()
    assert 1 == len(list(yard.groups))
    one.end()
    assert ([], 0) == (list(yard.groups), yard.bus.subscriptions)


async def test_it_keeps_its_place_only_while_a_durable_member_is_in_it(yard):
    one, two = yard.worker("a", durable=True), yard.worker("b", 0, durable=True)
    one.rest()
    two.rest()
    yard.put(b"1")
    one.end()
    yard.put(b"2")
    two.back()
    yard.put(b"3")
    await yard.rounds()
    assert [b"3"] == two.heard


async def test_what_the_log_lost_meanwhile_is_left_out_and_the_rest_is_dealt(yard):
    """A queue cannot begin anew with the current records; it goes on with what is left."""
    one = yard.worker("a", durable=True)
    one.rest()
    yard.put(*numbers(1, 6))
    yard.trim(2)
    one.back()
    await yard.rounds()
    assert [b"5", b"6"] == one.heard


async def test_a_log_that_cannot_be_read_is_tried_again(monkeypatch):
    yard = Yard(retry_seconds=0)
    one = yard.worker("a", durable=True)
    one.rest()
    yard.put(b"1", b"2")
    read, tries = yard.reader._store.read, []

    def fails(*given, **options):
        tries.append(1)
        if len(tries) < 3:
            raise Error(Code.BUSY, "the disk refuses")
        return read(*given, **options)

    async def run(call, _lane=None):
        return call()

    monkeypatch.setattr(yard.reader, "_run", run)
    monkeypatch.setattr(yard.store, "read", fails)
    one.back()
    for _ in range(10):
        await yard.rounds()
    assert (3, [b"1", b"2"]) == (len(tries), one.heard)


async def test_unlogged_events_that_nobody_has_room_for_are_counted(yard):
    """C18 for a group."""
    one = yard.worker("a", room=0)
    yard.tell(*numbers(1, 5))
    await yard.rounds()
    group = one.group
    one.end()
    assert {GapCause.SLOW: 2} == group.losses.counts


# -- what is no mistake ----------------------------------------------------------------------------


async def test_what_is_unknown_or_done_changes_nothing(yard):
    """An edge need not know what the group still knows."""
    one, stranger = yard.worker("a"), Worker(yard, "s")
    yard.put(b"1")
    await yard.rounds()
    stranger.rest()
    stranger.leave()
    stranger.end()
    (deal,) = one.deals
    one.done(deal)
    deal.group.done(deal)
    yard.put(b"2")
    await yard.rounds()
    assert [b"1", b"2"] == one.heard


async def test_a_gap_is_told_to_one_member(yard):
    """C18, M4: so that the sum over all members is what the group lost."""
    one = yard.worker("a", room=0)
    yard.tell(*numbers(1, 5))
    await yard.rounds()
    one.free = 10
    one.group.ready()
    await yard.rounds()
    yard.put(b"6")
    await yard.rounds()
    assert ([b"1", b"2", b"3", b"6"], [("slow", 2)]) == (one.heard, one.gaps)


async def test_a_group_that_is_stopped_reads_nothing_more(yard):
    yard.worker("a", durable=True, sends=False)
    yard.put(*numbers(1, 3))
    await yard.rounds()
    yard.groups.save()
    again = yard.restart()
    back = again.worker("a", durable=True)
    await again.turn()
    assert again.reader.asked  # it reads again what was open
    again.groups.stop()
    await again.rounds()
    assert ([], 0) == (back.heard, again.bus.subscriptions)


async def test_what_nobody_wants_any_more_is_not_read_again(yard):
    """The last durable member ends while the log is asked for what was open."""
    yard.worker("a", durable=True, sends=False)
    yard.put(*numbers(1, 3))
    await yard.rounds()
    yard.groups.save()
    again = yard.restart()
    back = again.worker("a", durable=True)
    await again.turn()
    back.end()
    await again.rounds()
    other = again.worker("b")
    again.seq, again.announced = 3, 3
    again.put(b"4")
    await again.rounds()
    assert ([], [b"4"]) == (back.heard, other.heard)
