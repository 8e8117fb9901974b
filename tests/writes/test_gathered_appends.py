"""Announced messages of QoS 0 are gathered for a moment, and appended together.

``gather_seconds`` is an hour here, so what is appended was not appended by the timer.
"""

import asyncio

import pytest
from test_announced_first import Listener, message, put, stored

from build import ANN, BEN, Code, Server, turns
from rowcast.core.errors import Error
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.topic_tables import TopicRoot
from rowcast.features.schema_proposal.proposal_resource import newest
from rowcast.writes.pending_bytes import WriteBounds

HOUR = 3600.0
SOON = 0.001


async def started(**bounds):
    """Return a server whose log has numbers to give, and a listener."""
    room = Server(bounds=WriteBounds(**{"gather_seconds": HOUR, **bounds}))
    await room.put("u/0")
    return room, Listener(room)


async def said(room, *topics):
    """Submit a message at each topic, each in a turn of its own."""
    for topic in topics:
        room.committer.submit([message(topic)])
        await turns()


async def soon(waiting):
    """Wait for what needs no timer; fail, instead of waiting for an hour, where it does."""
    task = asyncio.ensure_future(waiting)
    await turns(60)
    if not task.done():
        task.cancel()
        await turns()
        raise AssertionError("it waits for the time that messages are gathered for")
    await task


async def test_messages_of_several_turns_are_one_batch():
    room, listener = await started()
    before = room.committer.commits
    await said(room, "u/1", "u/2", "u/3")
    assert (["u/1", "u/2", "u/3"], ["u/0"]) == (listener.topics, stored(room))
    await soon(room.committer.unstored())
    assert (["u/0", *listener.topics], before + 1) == (stored(room), room.committer.commits)
    assert room.committer.stored == room.committer.announced


async def test_those_that_come_during_an_append_are_gathered_too():
    """A disk takes longer than the next message: they would be appended one by one."""
    room, listener = await started()
    room.writer.hold()
    await said(room, "u/1")
    room.committer._append_gathered()  # as when the time is over
    await said(room, "u/2")
    before = room.committer.commits
    room.writer.release()
    await turns(30)
    assert ["u/0", "u/1"] == stored(room)
    await said(room, "u/3")
    await soon(room.committer.unstored())
    assert (["u/0", *listener.topics], before + 2) == (stored(room), room.committer.commits)


async def test_the_time_ends():
    room, listener = await started(gather_seconds=SOON)
    await said(room, "u/1", "u/2")
    await room.committer.settle()
    assert ["u/0", *listener.topics] == stored(room)


async def test_a_write_that_waits_for_the_disk_is_not_held_up():
    room, listener = await started()
    await said(room, "u/1", "u/2")
    room.committer.submit([put("u/3")])
    await soon(room.committer.settle())
    assert ["u/0", "u/1", "u/2", "u/3"] == ["u/0", *listener.topics] == stored(room)


async def test_facts_are_not_held_up():
    room, _ = await started()
    await said(room, "u/1")
    await soon(room.committer.durable())
    assert ["u/0", "u/1"] == stored(room)


async def test_enough_of_them_are_appended_at_once():
    room, listener = await started(gather_events=3)
    await said(room, "u/1", "u/2", "u/3")
    assert ["u/0"] == stored(room)
    await said(room, "u/4")
    await turns()
    assert ["u/0", *listener.topics] == stored(room)


async def test_a_proposal_of_tables_has_what_subscribers_have():
    room, listener = await started()
    await said(room, "u/1", "u/2")
    found = await newest(room.kernel, TopicRoot("u"))
    assert [*reversed(listener.topics), "u/0"] == [event.topic for event in found]


@pytest.mark.parametrize("count", [1, 3])
async def test_when_the_disk_refuses_all_of_them_are_counted(count):
    room, listener = await started()

    def refuse(*_, **__):
        raise Error(Code.BUSY, "the disk is full")

    await said(room, *(f"u/{number}" for number in range(count)))
    room.store.append = refuse
    await soon(room.committer.unstored())
    assert (count, count) == (room.committer.announced_first.lost, len(listener.topics))
    assert 0 == room.committer.pending.size


async def test_what_waits_in_lanes_is_not_held_up():
    """Where several write much, a part of it is taken: the rest may have a write with a waiter."""
    few = {"shared_events": 4, "caller_events": 1, "few_bytes": 2 * (WRITE_BYTES + 1)}
    room, listener = await started(**few)
    flood = [message(f"u/{number}", caller) for number in range(1, 7) for caller in (ANN, BEN)]
    room.committer.submit([*flood, put("u/7")])
    await turns(60)
    assert ["u/0", *listener.topics] == stored(room)
    assert "u/7" == listener.topics[-1]
