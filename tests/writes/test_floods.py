"""A flood of messages that nobody waits for, beside writes that somebody waits for (P2, L11)."""

import asyncio

import pytest

from build import ANN, BEN, Server, turns
from rowcast.core.callers import METRICS_WRITER
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import FireAndForget, LowPriority, Write

AT_ONCE = FireAndForget(at_once=True)
SIZE = WRITE_BYTES + 1
"""Of each write here."""
BOUNDS = WriteBounds(
    shared_events=6,
    unawaited_events=2,
    caller_events=1,
    few_bytes=2 * SIZE,
    shared_client_high=8 * SIZE,
)


def put(topic, caller=BEN):
    event = Event(topic, PUT, b"1", "application/json", 1, True)
    return Write(event, caller, lambda _outcome: None)


def message(topic, caller=ANN):
    return Write(Event(topic, MESSAGE, b"1"), caller, AT_ONCE)


def messages(first, last, caller=ANN):
    return [message(f"u/{number}", caller) for number in range(first, last + 1)]


@pytest.fixture
async def room():
    """Return a server that two have written to, with its writer held."""
    room = Server(bounds=BOUNDS)
    room.batches, commit = [], room.store.commit

    def noted(events, *rest):
        room.batches.append([event.topic for event in events])
        return commit(events, *rest)

    room.store.commit = noted
    room.committer.submit([put("u/a"), put("u/b", ANN)])
    await turns()
    assert room.committer.shares.until
    room.batches.clear()
    room.writer.hold()
    yield room
    await finish(room)
    assert ({}, 0) == (room.committer.pending, room.committer.backlog)


async def finish(room):
    room.writer.release()
    await room.committer.settle()


def sizes(room):
    return [len(batch) for batch in room.batches]


async def test_a_flood_has_small_batches_while_somebody_waits_for_the_disk(room):
    """Its own, which others wait behind, and those that it shares with them."""
    room.committer.submit([put("u/c")])
    await finish(room)
    room.committer.submit(messages(1, 5))
    await room.committer.settle()
    room.committer.submit(messages(6, 9))
    room.committer.submit([put("u/d")])
    await room.committer.settle()
    assert [1, 2, 2, 1, 2, 2, 1] == sizes(room)
    assert ["u/6", "u/d"] == room.batches[4]


async def test_messages_that_nobody_waits_for_share_large_batches(room):
    room.committer.submit([*messages(1, 5), *messages(6, 9, BEN)])
    await finish(room)
    assert [6, 3] == sizes(room)


async def test_the_metrics_wait_for_no_disk(room):
    event = Event("$SYS/broker/uptime", PUT, b"1")
    room.committer.submit([Write(event, METRICS_WRITER, LowPriority(lambda outcome: None))])
    await finish(room)
    room.committer.submit(messages(1, 6))
    await room.committer.settle()
    assert [1, 6] == sizes(room)


async def test_who_waits_for_many_writes_has_large_batches_beside_a_flood(room):
    """Whether they come now, or were left by an earlier batch; and no longer than that."""
    room.committer.submit([put(f"u/b{number}") for number in range(10)])
    room.committer.submit(messages(1, 10))
    await finish(room)
    room.committer.submit(messages(11, 14))
    await room.committer.settle()
    assert [6, 6, 6, 2, 2, 2] == sizes(room)


async def test_a_write_waits_for_the_append_on_its_way_and_its_own(room):
    """What would be announced meanwhile would be appended before it."""
    room.committer.submit([put("u/c")])
    await finish(room)
    room.writer.hold()
    for number in range(1, 6):
        room.committer.submit([message(f"u/{number}")])
        await turns()
    room.committer.submit([put("u/d")])
    await turns()
    room.batches.clear()
    room.writer.step()
    await turns()
    room.writer.step()
    await turns()
    assert ["u/1"] == room.batches[0]
    assert "u/d" in room.batches[1]


async def test_little_of_a_flood_is_taken_while_several_write(room):
    """P2: some batches of it; the rest is left where it is, and is not written later for that."""
    room.committer.submit(messages(1, 7))
    assert not room.committer.slows(ANN)
    room.committer.submit(messages(8, 8))
    assert room.committer.slows(ANN)
    assert not room.committer.slows(BEN)
    assert room.committer.pending.calm <= room.committer.pending[ANN.connection]
    room.committer.submit(messages(9, 12))
    waits = asyncio.ensure_future(room.committer.room(ANN))
    await turns()
    for left in (12, 6):
        assert (False, left * SIZE) == (waits.done(), room.committer.pending[ANN.connection])
        room.writer.step()
        await turns()
    assert waits.done()


async def test_who_writes_alone_again_has_the_usual_bound(room):
    room.committer.shares.until = room.committer.shares._now()  # as after SHARED_SECONDS
    room.committer.submit(messages(1, 9))
    await turns()
    assert not room.committer.slows(ANN)
    assert BOUNDS.client_high == room.committer.pending.client_high
