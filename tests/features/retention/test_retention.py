"""Retention: nothing ahead of its limits, and every end is heard of (A5, A6)."""

import asyncio
from dataclasses import replace

import pytest

from build import DOG, LEASE, NOTE, TABLES, Code, Listener, Server, turns
from rowcast.core.errors import Error
from rowcast.core.events import DELETE
from rowcast.core.limits import SWEEP_EVENTS_MAX
from rowcast.core.topics import TopicFilter
from rowcast.features.retention.retention import Retention, RetentionSettings
from rowcast.kernel.expired_records import delete_expired, delete_unchanged
from rowcast.routes.resource import Resource
from rowcast.store.store import Keep


class Lease(Resource):
    """Refuses deletions of what is to be kept."""

    async def delete(self):
        if self.id.startswith("kept"):
            raise Error(Code.DENIED, "it is to be kept")
        await super().delete()


def sweeper(room, tables=TABLES, step_events=SWEEP_EVENTS_MAX, **keep):
    settings = RetentionSettings(Keep(**keep), 0, step_events=step_events)
    return Retention(room.kernel, tables, settings, room.now)


async def test_each_table_is_trimmed_by_itself():
    room = Server()
    for topic in ("Note/1", "Note/1", "u/1", "u/1", "u/1"):
        await room.put(topic)
    assert 3 == await sweeper(room, events=1).sweep()
    assert [1, 4] == [room.store.trimmed(NOTE), room.store.trimmed(None)]


async def test_messages_logged_for_a_durable_session_are_trimmed_like_any():
    """D27: also on undeclared topics, whose part of the log has no records then."""
    room = Server()
    room.kernel.durable.add(TopicFilter("#"))
    for _ in range(3):
        await room.say("u/1", qos=1)
    assert 2 == await sweeper(room, events=1).sweep()
    assert ([3], None) == (
        [event.seq for event in room.store.read(0, 9)],
        room.store.get(None, "u/1"),
    )


async def test_trimming_goes_in_small_steps():
    room = Server()
    for _ in range(5):
        await room.put("u/1")
    assert 4 == await sweeper(room, step_events=2, events=1).sweep()


async def test_a_table_may_keep_its_own_time():
    room = Server((replace(NOTE, history_seconds=1_000), DOG))
    await room.put("Note/1")
    await room.put("Dog/1")
    room.time += 100
    tables = (replace(NOTE, history_seconds=1_000), DOG)
    assert 1 == await sweeper(room, tables, seconds=10).sweep()
    assert 0 == room.store.trimmed(NOTE)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        ({"history_events": 2}, 2),
        ({"history_bytes": 35}, 3),
        ({"history_seconds": 25}, 2),
        ({"history_seconds": 1_000}, 5),
        ({"history_seconds": 1_000, "history_events": 4, "history_bytes": 99}, 4),
        ({"history_seconds": 1_000, "history_events": 4, "history_bytes": 19}, 1),
        ({}, 1),
    ],
)
async def test_e24_a_table_s_own_limits_drop_its_oldest_and_no_other_limit_does(limit, kept):
    """E24: what a table promises is kept, whatever the server's own limits are."""
    table = replace(NOTE, **limit)
    room = Server((table, DOG))
    for _ in range(5):
        await room.put("Note/1", b'{"id":"1"}')
        await room.put("Dog/1", b"{}")
        room.time += 10
    await sweeper(room, (table, DOG), events=1, seconds=15).sweep()
    logged = [event.seq for event in room.store.read(0, 99)]
    assert [1, 3, 5, 7, 9][5 - kept :] == [seq for seq in logged if seq % 2]
    assert [10] == [seq for seq in logged if not seq % 2]


async def test_a5_an_end_is_a_delete_that_everybody_hears():
    room = Server()
    await room.put("Lease/1")
    listener = Listener(room)
    room.time += LEASE.expiration_seconds + 1
    assert 1 == (await delete_expired(room.kernel, room.now)).deleted
    assert [(DELETE, "Lease/1")] == [(event.kind, event.topic) for event in listener.events]
    assert None is room.store.get(LEASE, "Lease/1")


async def test_a5_many_ends_are_few_commits():
    room = Server()
    for number in range(7):
        await room.put(f"Lease/{number}")
    room.time += LEASE.expiration_seconds + 1
    before = room.committer.commits
    assert 7 == (await delete_expired(room.kernel, room.now, commit_records=3)).deleted
    assert 3 == room.committer.commits - before


@pytest.mark.parametrize("each", [0, 10])
async def test_a5_records_that_may_not_be_deleted_hold_up_no_others(each):
    """A5: a batch full of them is passed, whether they expire at one time or one by one."""
    room = Server(resources=[("Lease", Lease)])
    for number in range(5):
        await room.put(f"Lease/kept{number}")
        room.time += each
    for number in range(5):
        await room.put(f"Lease/{number}")
    room.time += LEASE.expiration_seconds + 1
    assert 5 == (await delete_expired(room.kernel, room.now, commit_records=2)).deleted
    left = [record.topic for record in room.store.expired(room.now(), 99)]
    assert [f"Lease/kept{number}" for number in range(5)] == left


async def test_a_record_that_was_written_again_does_not_end():
    room = Server()
    receipt = await room.put("Lease/1")
    room.time += LEASE.expiration_seconds + 1
    old = room.store.get(LEASE, "Lease/1")
    await room.put("Lease/1")
    assert Code.PRECONDITION is (await delete_unchanged(room.kernel, old)).code
    assert receipt.event.seq < room.store.get(LEASE, "Lease/1").seq


async def test_a_disk_that_refuses_ends_the_search():
    """It is tried again in the next one, not at once and for ever."""
    room = Server()
    await room.put("Lease/1")
    room.time += LEASE.expiration_seconds + 1
    busy = Error(Code.BUSY, "the disk is full")
    room.store.fault = lambda name: (_ for _ in ()).throw(busy) if name == "commit" else None
    assert 0 == (await delete_expired(room.kernel, room.now, commit_records=1)).deleted


@pytest.mark.parametrize(
    ("failure", "words"),
    [(Error(Code.BUSY, "the disk is full"), "the disk is full"), (RuntimeError("odd"), "odd")],
)
async def test_a_failed_sweep_is_not_the_last(caplog, failure, words):
    room, failures = Server(), [failure]

    def fault(_name):
        if failures:
            raise failures.pop()

    await room.put("u/1")
    room.store.fault = fault
    retention = sweeper(room)
    swept = asyncio.Event()
    sweep = retention.sweep

    async def noted():
        await sweep()
        swept.set()

    retention.sweep = noted
    running = asyncio.ensure_future(retention.run())
    await swept.wait()
    running.cancel()
    await turns()
    assert running.cancelled()
    assert words in caplog.text


async def test_what_the_store_left_for_later_is_done_in_steps(monkeypatch):
    """Events of a dropped topic table go a slice at a time, and writers go between."""
    room = Server()
    steps = [True, True, False]
    asked = []
    monkeypatch.setattr(room.store, "tidy", lambda limit: asked.append(limit) or steps.pop(0))
    await sweeper(room).sweep()
    assert ([SWEEP_EVENTS_MAX] * 3, []) == (asked, steps)
