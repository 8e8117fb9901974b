"""The committer: durable, announced, answered, in this order (D15, B2, C22)."""

import asyncio
import logging

import pytest

from build import ANN, BEN, Code, Listener, Server, refusal, turns
from memory_store import MemoryStore
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, PATCH, PUT, Event
from rowcast.core.limits import SEQ_RESERVE
from rowcast.store.store import Keep
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import Condition, Group, Receipt, Write


def put(topic, caller=ANN, outcomes=None, **options):
    """Return a write whose outcome is noted."""
    told = outcomes.append if outcomes is not None else lambda _outcome: None
    event = Event(topic, PUT, b"1", "application/json", 1, True, decoded=1)
    return Write(event, caller, told, **options)


def message(topic, caller=ANN, outcomes=None):
    told = outcomes.append if outcomes is not None else lambda _outcome: None
    return Write(Event(topic, MESSAGE, b"1"), caller, told, logged=False)


def grouped(*writes):
    group = Group(list(writes))
    for write in writes:
        write.group = group
    return list(writes)


async def test_durable_then_announced_then_answered():
    room, order = Server(), []
    store_commit = room.store.commit
    room.store.commit = lambda *batch: [order.append("stored"), store_commit(*batch)][1]
    listener = Listener(room)
    listener.offer = lambda _event: order.append("announced")
    write = put("u/1")
    write.done = lambda _outcome: order.append("answered")
    room.committer.submit([write])
    await turns()
    assert ["stored", "announced", "answered"] == order


async def test_what_comes_in_one_turn_is_one_transaction():
    room = Server()
    for number in range(5):
        room.committer.submit([put(f"u/{number}")])
    await room.committer.settle()
    assert (1, 5) == (room.committer.commits, room.committer.announced)


async def test_the_next_batch_collects_while_one_is_written():
    room = Server()
    room.writer.held = True
    room.committer.submit([put("u/1")])
    await turns()
    room.committer.submit([put("u/2")])
    room.committer.submit([put("u/3")])
    await turns()
    assert (1, 2) == (len(room.writer.waiting), room.committer.backlog)
    room.writer.release()
    await room.committer.settle()
    assert (2, 0) == (room.committer.commits, room.committer.backlog)


async def test_a_batch_is_bounded():
    room = Server(bounds=WriteBounds(batch_events=2))
    room.committer.submit([put(f"u/{number}") for number in range(5)])
    await room.committer.settle()
    assert 3 == room.committer.commits


@pytest.mark.parametrize("large", [True, False], ids=["large", "reads the store"])
async def test_long_decisions_are_made_on_the_writer_thread(large):
    room = Server(bounds=WriteBounds(loop_writes=1 if large else 9))
    room.writer.held = True
    writes = [put("u/1"), put("u/2")]
    if not large:
        writes[0].check(lambda _write, _record, _current: 0)
        writes[0].on_writer_thread = True
    room.committer.submit(writes)
    await turns()
    while not large and len(room.writer.waiting) and writes[0].event.seq == 0:
        room.writer.step()  # the current record, then the decision
        await turns()
        break
    assert [0, 0] == [write.event.seq for write in writes]
    room.writer.release()
    await room.committer.settle()
    assert [1, 2] == [write.event.seq for write in writes]
    assert 1 == room.committer.commits


async def test_a_group_is_never_split():
    """B11."""
    room = Server(bounds=WriteBounds(batch_events=2))
    room.committer.submit([put("u/0")])
    room.committer.submit(grouped(*(put(f"u/{number}") for number in range(1, 5))))
    room.committer.submit([put("u/5")])
    await room.committer.settle()
    assert 2 == room.committer.commits


async def test_too_many_waiting_writes_are_refused():
    room = Server(bounds=WriteBounds(backlog_events=2))
    room.writer.held = True
    room.committer.submit([put("u/1"), put("u/2")])
    with pytest.raises(Error) as raised:
        room.committer.submit([put("u/3", BEN)])
    assert (Code.BUSY, [ANN.connection]) == (raised.value.code, list(room.committer.pending))
    await turns()
    room.writer.release()
    await room.committer.settle()


async def test_who_waits_for_relief_hears_once_it_is_no_longer_crowded(caplog):
    room, heard = Server(bounds=WriteBounds(backlog_events_high=2, batch_events=1)), []
    room.committer.submit([put("u/1"), put("u/2"), put("u/3")])
    assert room.committer.crowded
    room.committer.when_relieved(lambda: 1 / 0)
    room.committer.when_relieved(lambda: heard.append(room.committer.backlog))
    await room.committer.settle()
    assert [1] == heard
    assert "failed to read again" in caplog.text


async def test_numbers_grow_and_versions_with_them():
    room, outcomes = Server(), []
    for number in range(3):
        room.committer.submit([put(f"u/{number}", outcomes=outcomes)])
    await room.committer.settle()
    events = [outcome.event for outcome in outcomes]
    assert [1, 2, 3] == [event.seq for event in events]
    assert sorted({event.version for event in events}) == [event.version for event in events]


async def test_no_number_is_used_twice_after_a_crash():
    """The reserve is on disk before the numbers are in use."""
    room = Server()
    await room.put("u/1")
    again = Server(store=room.store)
    receipt = await again.put("u/2")
    assert receipt.event.seq > SEQ_RESERVE
    assert 1 == again.store.get(None, "u/1").seq


async def test_an_unlogged_event_has_neither_number_nor_version():
    """Also when it had to wait behind a write of its caller's."""
    room, outcomes = Server(), []
    room.committer.submit([put("u/1"), message("u/1", outcomes=outcomes)])
    await room.committer.settle()
    assert (0, 0) == (outcomes[0].event.seq, outcomes[0].event.version)


async def test_unlogged_and_logged_of_one_caller_keep_their_order():
    """C22."""
    room = Server()
    listener = Listener(room)
    room.committer.submit([put("u/1")])
    room.committer.submit([message("u/2")])
    room.committer.submit([put("u/3")])
    await room.committer.settle()
    assert ["u/1", "u/2", "u/3"] == listener.topics


async def test_a_message_is_announced_at_once():
    room = Server()
    listener = Listener(room)
    room.committer.publish_unlogged(Event("u/1", MESSAGE, b"1"))
    assert ["u/1"] == listener.topics


async def test_a_subscriber_that_fails_harms_nobody_else(caplog):
    room, outcomes = Server(), []
    broken, listener = Listener(room), Listener(room)
    broken.offer = lambda _event: 1 / 0
    room.committer.submit([put("u/1", outcomes=outcomes), put("u/2", outcomes=outcomes)])
    room.committer.publish_unlogged(Event("u/3", MESSAGE, b"1"))
    await room.committer.settle()
    assert ["u/3", "u/1", "u/2"] == listener.topics
    assert (2, {}) == (len(outcomes), room.committer.pending)
    assert "ZeroDivisionError" in caplog.text


async def test_a_writer_that_fails_to_listen_harms_nobody_else(caplog):
    room, outcomes = Server(), []
    write = put("u/1")
    write.done = lambda _outcome: 1 / 0
    room.committer.submit([write, put("u/2", outcomes=outcomes)])
    await room.committer.settle()
    assert (1, {}) == (len(outcomes), room.committer.pending)
    assert "failed to take the outcome" in caplog.text


async def test_what_an_answer_submits_is_carried_out():
    room, outcomes = Server(), []
    write = put("u/1")
    write.done = lambda _outcome: room.committer.submit([put("u/2", outcomes=outcomes)])
    room.committer.submit([write])
    await room.committer.settle()
    assert 1 == len(outcomes)


async def test_settle_outlives_an_impatient_waiter():
    room = Server()
    room.writer.held = True
    room.committer.submit([put("u/1")])
    impatient = asyncio.ensure_future(room.committer.settle())
    patient = asyncio.ensure_future(room.committer.settle())
    await turns()
    impatient.cancel()
    room.writer.release()
    await patient
    assert impatient.cancelled()


# -- the disk refuses ------------------------------------------------------------------------------


def failing(store, *errors):
    """Make the next commits of a store fail; None is one that does not."""
    left = list(errors)

    def fault(name):
        error = left.pop(0) if name == "commit" and left else None
        if error is not None:
            raise error

    store.fault = fault


BUSY = Error(Code.BUSY, "the disk is full")


async def test_a_busy_disk_refuses_all_that_it_should_have_stored():
    room, outcomes = Server(), []
    listener = Listener(room)
    failing(room.store, BUSY)
    room.committer.submit([put("u/1", outcomes=outcomes), put("u/2", outcomes=outcomes)])
    await room.committer.settle()
    assert [BUSY, BUSY] == outcomes
    assert ([], 0, 1, {}) == (
        listener.topics, room.committer.announced, room.committer.failures, room.committer.pending,
    )  # fmt: skip


async def test_a_message_that_is_not_stored_does_not_need_the_disk():
    room, outcomes = Server(), []
    listener = Listener(room)
    failing(room.store, BUSY)
    room.committer.submit([put("u/1"), message("u/2", outcomes=outcomes)])
    await room.committer.settle()
    assert (["u/2"], Receipt) == (listener.topics, type(outcomes[0]))


async def test_a_message_in_a_group_shares_its_fate():
    room, outcomes = Server(), []
    failing(room.store, BUSY)
    both = grouped(put("u/1", outcomes=outcomes), message("u/2", outcomes=outcomes))
    room.committer.submit(both)
    await room.committer.settle()
    assert [BUSY, BUSY] == outcomes


async def test_after_a_surprise_each_write_is_tried_alone(caplog):
    room, outcomes = Server(), []
    surprise = RuntimeError("a surprise")
    failing(room.store, surprise, None, surprise, None)
    room.committer.submit([put(f"u/{number}", outcomes=outcomes) for number in range(3)])
    await room.committer.settle()
    assert [Receipt, Error, Receipt] == [type(outcome) for outcome in outcomes]
    assert "a surprise" in caplog.text
    assert "a surprise" not in outcomes[1].message


async def test_one_write_that_the_store_cannot_take_does_not_fail_its_neighbours():
    """A refusal of the content, unlike BUSY, is that of one write."""
    room, outcomes = Server(), []
    invalid = Error(Code.INVALID, "no key")
    failing(room.store, invalid, None, invalid, None)
    room.committer.submit([put(f"u/{number}", outcomes=outcomes) for number in range(3)])
    await room.committer.settle()
    assert [Receipt, Error, Receipt] == [type(outcome) for outcome in outcomes]
    assert outcomes[1] is invalid


async def test_a_reserve_that_fails_refuses_and_is_tried_again():
    room = Server()
    room.store.fault = lambda name: (_ for _ in ()).throw(BUSY) if name == "reserve" else None
    assert Code.BUSY == await refusal(room.put("u/1"))
    room.store.fault = None
    receipt = await room.put("u/1")
    assert receipt.event.seq <= room.store.reserved()


async def test_a_refused_write_leaves_nothing_in_the_cache():
    room = Server()
    await room.put("u/1", b"1")
    failing(room.store, BUSY)
    assert Code.BUSY == await refusal(room.put("u/1", b"2"))
    assert b"1" == (await room.kernel.read("u/1", ANN)).payload


async def test_writes_at_the_very_end_are_answered():
    """The threads are gone: nobody waits for ever."""
    room, outcomes = Server(), []
    room.writer.stopped = True
    room.committer.submit([put("u/1", outcomes=outcomes)])
    await turns()
    assert (Code.BUSY, {}) == (outcomes[0].code, room.committer.pending)
    await room.committer.settle()


# -- decisions in the order of commits -------------------------------------------------------------


async def test_a_condition_sees_what_its_own_batch_wrote():
    """A16: two creations in one transaction, one wins."""
    room, outcomes = Server(), []
    alone = Condition(exists=False)
    room.committer.submit([put("u/1", outcomes=outcomes, condition=alone)])
    room.committer.submit([put("u/1", outcomes=outcomes, condition=alone)])
    await room.committer.settle()
    assert [Receipt, Error] == [type(outcome) for outcome in outcomes]


async def test_a_condition_asks_the_store_for_what_memory_does_not_know():
    store = MemoryStore("0badcafe")
    await Server(store=store).put("u/1", b"1")
    again = Server(store=store)
    assert Code.PRECONDITION == await refusal(again.put("u/1", condition=Condition(exists=False)))


async def test_a_condition_of_an_absent_record_is_asked_once():
    room, asked = Server(), []
    lookup = room.store.lookup
    room.store.lookup = lambda wanted: [asked.append(list(wanted)), lookup(wanted)][1]
    gone = Condition(exists=True)
    room.committer.submit([put("u/1", condition=gone), put("u/1", condition=gone)])
    await room.committer.settle()
    assert [[(None, "u/1")]] == asked


async def test_a_condition_trusts_what_memory_knows():
    room = Server()
    await room.put("u/1")
    room.store.lookup = None
    assert Code.PRECONDITION == await refusal(room.put("u/1", condition=Condition(exists=False)))


async def test_a_logged_message_leaves_the_record_in_memory():
    room = Server()
    await room.put("Note/1", b"1")
    receipt = await room.say("Note/1", b"2", qos=1)
    assert (2, b"1") == (receipt.event.seq, room.cache.get("Note/1").payload)


async def test_existed_is_told_for_each_event_to_who_wants_it():
    room, outcomes = Server(), []
    for wanted in (True, True, False):
        room.committer.submit([put("u/1", outcomes=outcomes, wants_existed=wanted)])
        room.committer.submit([message("u/1", outcomes=outcomes)])
    await room.committer.settle()
    existed = [outcome.existed for outcome in outcomes]
    assert [False, False, True, False, False, False] == existed


async def test_a_group_that_is_refused_leaves_the_batch_around_it_alone():
    """B11: all or none."""
    room, outcomes, around = Server(), [], []
    never = Condition(exists=True)
    room.committer.submit([put("u/1", outcomes=around)])
    both = grouped(put("u/2", outcomes=outcomes), put("u/3", outcomes=outcomes, condition=never))
    room.committer.submit(both)
    room.committer.submit([put("u/4", outcomes=around)])
    await room.committer.settle()
    assert [Code.PRECONDITION] * 2 == [outcome.code for outcome in outcomes]
    assert "nothing was written" in outcomes[0].message
    assert ["u/1", "u/4"] == [outcome.event.topic for outcome in around]
    assert room.store.get(None, "u/2") is None


async def test_a_batch_of_refusals_writes_nothing():
    room = Server()
    never = Condition(exists=True)
    assert Code.PRECONDITION == await refusal(room.put("u/1", condition=never))
    assert (0, 0) == (room.committer.commits, room.store.reserved())


async def test_patches_of_one_batch_build_on_each_other():
    room = Server()
    patches = [
        room.kernel.write(Event("Dog/1", PATCH, payload, qos=1, retain=True), ANN)
        for payload in (b'{"name":"Rex"}', b'{"age":3}')
    ]
    receipts = await asyncio.gather(*patches)
    assert {"id": "1", "name": "Rex", "age": 3}.items() <= receipts[1].event.decoded.items()
    assert 1 == room.committer.commits


async def test_trimming_and_other_work_take_their_turn():
    room = Server()
    for number in range(3):
        await room.put("u/1", b"%d" % number)
    assert 2 == await room.committer.trim(None, Keep(events=1), room.now(), 100)
    assert 2 == room.store.trimmed(None)


async def test_the_log_tells_what_failed(caplog):
    caplog.set_level(logging.WARNING, "rowcast.commit")
    room = Server()
    failing(room.store, BUSY)
    await refusal(room.put("u/1"))
    assert "a commit of 1 writes failed: the disk is full" in caplog.text


async def test_what_is_stored_is_known_before_it_is_announced():
    """A page of the log may tell of it already: such a cursor is good."""
    room = Server()
    room.writer.held = True
    room.committer.submit([put("u/1")])
    await turns()
    room.writer.step()
    assert (1, 0) == (room.committer.stored, room.committer.announced)
    await room.committer.settle()
    assert (1, 1) == (room.committer.stored, room.committer.announced)
