"""Shares of a batch while several callers write, and tables that are behind (P2)."""

import pytest

from build import ANN, BEN, Server, turns
from rowcast.core.callers import EVENTS_WRITER, METRICS_WRITER
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import FireAndForget, Write

AT_ONCE = FireAndForget(at_once=True)
BOUNDS = WriteBounds(shared_events=4, caller_events=1, few_bytes=2 * (WRITE_BYTES + 1))


def put(topic, caller=ANN, done=None):
    event = Event(topic, PUT, b"1", "application/json", 1, True)
    return Write(event, caller, done or (lambda _outcome: None))


def message(topic, caller=ANN):
    return Write(Event(topic, MESSAGE, b"1"), caller, AT_ONCE)


def stored(room):
    return [event.topic for event in room.store.read(0, 99)]


def appends(room):
    """Note of each batch whether it goes may_outrun_tables of tables that are behind."""
    found, append = [], room.store.append

    def noted(packed, *, may_outrun_tables):
        found.append(may_outrun_tables)
        append(packed)

    room.store.append = noted
    return found


def batches(room):
    """Note the topics of each batch that is stored."""
    found, commit = [], room.store.commit

    def noted(events, *rest):
        found.append([event.topic for event in events])
        return commit(events, *rest)

    room.store.commit = noted
    return found


@pytest.fixture
async def room():
    room = Server(bounds=BOUNDS)
    room.writer.hold()
    yield room
    room.writer.release()
    await room.committer.settle()
    assert ({}, 0) == (room.committer.pending, room.committer.backlog)


async def finish(room):
    room.writer.release()
    await room.committer.settle()


async def test_who_writes_alone_has_large_batches(room):
    found = batches(room)
    for number in range(9):
        room.committer.submit([put(f"u/{number}")])
    await finish(room)
    assert [9] == [len(batch) for batch in found]


@pytest.mark.parametrize("reporter", [METRICS_WRITER, EVENTS_WRITER])
async def test_who_writes_beside_the_servers_own_reports_writes_alone(room, reporter):
    """They come each second or connect: with them as another caller no batch would be large."""
    found = batches(room)
    for number in range(9):
        room.committer.submit([put(f"u/{number}")])
    room.committer.submit([put("$SYS/broker/uptime", reporter)])
    await finish(room)
    assert [10] == [len(batch) for batch in found]
    assert not room.committer.shares.until


async def test_a_few_writes_do_not_wait_behind_many_of_another(room):
    found = batches(room)
    room.committer.submit([put(f"u/{number}") for number in range(9)])
    room.committer.submit([put("u/b", BEN)])
    await finish(room)
    assert ["u/0", "u/1", "u/2", "u/b"] == found[0]
    assert [4, 4, 2] == [len(batch) for batch in found]


async def test_batches_stay_small_for_some_time_after_another_wrote(room):
    """The next write of the other one is not to find a large batch on its way."""
    room.committer.submit([put("u/a"), put("u/b", BEN)])
    await finish(room)
    found = batches(room)
    room.committer.submit([put(f"u/{number}") for number in range(9)])
    await room.committer.settle()
    assert [4, 4, 1] == [len(batch) for batch in found]
    room.committer.shares.until = 0.0  # as after SHARED_SECONDS
    room.committer.submit([put(f"u/{number}") for number in range(9)])
    await room.committer.settle()
    assert [9] == [len(batch) for batch in found[3:]]


async def test_no_more_is_announced_ahead_of_another_than_a_batch(room):
    await finish(room)
    await room.put("u/first")
    room.writer.hold()
    await turns()
    for number in range(3):
        room.committer.submit([message(f"u/{number}")])
        await turns()
    room.committer.submit([put("u/b", BEN)])
    for number in range(3, 9):
        room.committer.submit([message(f"u/{number}")])
        await turns()
    found = batches(room)
    await finish(room)
    assert max(len(batch) for batch in found) <= 4
    assert [f"u/{n}" for n in range(9)] == [t for t in stored(room)[1:] if t != "u/b"]


async def test_who_has_few_waiting_does_not_wait_for_tables_that_are_behind(room):
    told = []
    room.committer.submit([put("u/a"), put("u/b", BEN)])  # both write
    await finish(room)
    room.store.is_behind = True
    room.committer.submit([put(f"u/{number}", done=told.append) for number in range(9)])
    await turns()
    room.committer.submit([put("u/c", BEN, told.append)])
    await turns()
    assert (["u/c"], 9) == ([outcome.event.topic for outcome in told], room.committer.backlog)
    room.store.is_behind = False
    await room.committer.settle()  # it looks again
    assert [f"u/{number}" for number in range(9)] == stored(room)[3:]


async def test_who_is_passed_over_waits_no_longer_than_a_bound(room):
    room.committer.submit([put("u/a"), put("u/b", BEN)])
    await finish(room)
    room.store.is_behind, ahead = True, appends(room)
    room.committer.submit([put(f"u/{number}") for number in range(9)])
    await turns()
    assert (9, []) == (room.committer.backlog, ahead)
    room.committer.shares.behind_since -= BOUNDS.behind_seconds
    await room.committer.settle()
    assert (11, [False] * 3) == (len(stored(room)), ahead)


async def test_where_nobody_has_much_all_wait_for_the_tables_in_the_end(room):
    """Each of a crowd has few writes: together they must not leave the tables behind."""
    room.committer.submit([put("u/a"), put("u/b", BEN)])
    await finish(room)
    room.store.is_behind, ahead = True, appends(room)
    room.committer.submit([put("u/1")])
    await room.committer.settle()
    room.committer.shares.behind_since -= BOUNDS.behind_seconds
    room.committer.submit([put("u/2", BEN)])
    await room.committer.settle()
    assert [True, False] == ahead


async def test_what_waits_aside_is_refused_when_the_threads_have_stopped(room):
    room.committer.submit([put("u/a"), put("u/b", BEN)])
    await finish(room)
    room.store.is_behind, told = True, []
    room.committer.submit([put(f"u/{number}", done=told.append) for number in range(9)])
    await turns()
    room.writer.stopped = True
    room.committer.submit([put("u/c", BEN, told.append)])
    await room.committer.settle()
    assert 10 == len(told)
