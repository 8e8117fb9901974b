"""Durable streams that end while somebody uses them, and their bounds (V7)."""

import asyncio
from dataclasses import replace

import pytest
from test_durable_streams import NUMBERS, TEXT, content, create, open_room, refused

from build import ANN, turns
from rowcast.core.durable_stream_limits import (
    DURABLE_PRODUCERS_ALL_MAX,
    DURABLE_PRODUCERS_LEAST,
    DURABLE_READ_BYTES,
)
from rowcast.core.errors import Code, Error
from rowcast.core.topic_tables import branch_of
from rowcast.features.durable_streams.appends import OWNER, Append
from rowcast.features.durable_streams.stream import ProducerNumber
from rowcast.store.store import Keep


async def test_an_append_at_the_end_of_a_life_prolongs_it_or_is_refused():
    """V7: none is acknowledged in a stream that has ended, and none leaves a ghost behind."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1", replace(TEXT, ttl=10))
    keep, swept = streams._write, []

    async def slow(*what):
        room.time += 20
        assert streams.find("s/1") is stream, "it goes on while somebody appends"
        swept.append(await streams.expire_due())
        await keep(*what)

    streams._write = slow
    await streams.append("s/1", Append((b"x",)), ANN)
    assert swept[0] > room.time
    assert streams.get("s/1") is stream
    room.time += 20
    await streams.expire_due()
    await room.turn()
    assert [] == list(room.store.states(OWNER))


async def test_a_delete_that_the_disk_refuses_leaves_the_stream():
    """V7: what was answered with an error has not happened."""
    _, streams = open_room()
    await create(streams, "s/1", content=(b"x",))
    keep = streams._keep

    async def refuse(changes):
        raise Error(Code.BUSY, "the disk is full")

    streams._keep = refuse
    assert Code.BUSY == await refused(streams.delete("s/1", ANN))
    assert not streams.get("s/1").deleted
    streams._keep = keep
    await streams.delete("s/1", ANN)
    assert Code.NOT_FOUND == code_of_get(streams, "s/1")


@pytest.mark.parametrize("parts", [(b"a",), (b"a", b"b", b"c")])
async def test_what_was_trimmed_before_the_first_event_is_not_missing(parts):
    """V7: a stream that was created long ago has all its events, also after a restart."""
    room, streams = open_room()
    await create(streams, "s/1", NUMBERS)
    for _ in range(9):
        await room.say("s/other", qos=1)
    await streams.append("s/1", Append(parts), ANN)
    await create(streams, "s/fork", replace(NUMBERS, source="s/1"))
    assert 9 == room.store.trim(branch_of("s/1"), Keep(events=len(parts)), room.time, 100)
    for one in (streams, open_room(room.store)[1]):
        for name in ("s/1", "s/fork"):
            assert [*parts] == await content(room, one.get(name))
    await room.say("s/other", qos=1)
    assert 1 == room.store.trim(branch_of("s/1"), Keep(events=len(parts)), room.time, 100)
    with pytest.raises(Error, match="the log no longer has all of the stream"):
        await content(room, streams.get("s/1"))


async def test_a_stream_of_an_earlier_release_keeps_its_beginning():
    """V7: its stored form does not say which event is its first."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1", content=(b"a",))
    stream.first = 0
    await streams.append("s/1", Append((b"b",)), ANN)
    assert [b"a", b"b"] == await content(room, stream)
    assert [b"a", b"b"] == await content(room, open_room(room.store)[1].get("s/1"))


class Gate:
    """Holds the writes of streams until it is opened; they may fail then."""

    def __init__(self, streams):
        self.write, self.opened, self.error = streams._write, asyncio.Event(), None
        streams._write = self

    async def __call__(self, *what):
        await self.opened.wait()
        if self.error is not None:
            raise self.error
        await self.write(*what)


@pytest.mark.parametrize("fails", [False, True])
async def test_an_append_that_waited_takes_its_turn_at_the_stream_that_is_there(fails):
    """V7: it is not acknowledged in a stream that could not be created."""
    room, streams = open_room()
    old, _ = await create(streams, "s/1")
    await old.turn.acquire()
    append = asyncio.create_task(streams.append("s/1", Append((b"b",)), ANN))
    await turns(3)
    streams._drop(old)
    gate = Gate(streams)
    gate.error = Error(Code.BUSY, "the disk is full") if fails else None
    creation = asyncio.create_task(create(streams, "s/1", content=(b"a",)))
    await turns(3)
    old.turn.release()
    await turns(9)
    gate.opened.set()
    if fails:
        assert [Code.BUSY, Code.NOT_FOUND] == [await refused(creation), await refused(append)]
        return
    stream, _ = await creation
    assert stream is (await append).stream
    assert [b"a", b"b"] == await content(room, stream)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_is_there_for_another_who_creates_it_when_it_is_stored(fails):
    """V7: a kill before that would undo what was acknowledged."""
    _, streams = open_room()
    gate = Gate(streams)
    gate.error = Error(Code.BUSY, "the disk is full") if fails else None
    first = asyncio.create_task(create(streams, "s/1"))
    await turns(3)
    second = asyncio.create_task(create(streams, "s/1"))
    await turns(9)
    assert not second.done()
    gate.opened.set()
    if fails:
        assert [Code.BUSY] * 2 == [await refused(first), await refused(second)]
    else:
        assert [True, False] == [(await first)[1], (await second)[1]]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_is_forked_when_it_is_stored(fails):
    """V7: the fork of what is never stored would be acknowledged, and begin with nothing."""
    room, streams = open_room()
    gate = Gate(streams)
    gate.error = Error(Code.BUSY, "the disk is full") if fails else None
    source = asyncio.create_task(create(streams, "s/1", content=(b"x",)))
    await turns(3)
    fork = asyncio.create_task(create(streams, "s/2", replace(TEXT, source="s/1")))
    await turns(9)
    assert not fork.done()
    gate.opened.set()
    if fails:
        assert [Code.BUSY] * 2 == [await refused(source), await refused(fork)]
        assert Code.NOT_FOUND is code_of_get(streams, "s/2")
        return
    await source
    assert [b"x"] == await content(room, (await fork)[0])


def code_of_get(streams, topic):
    try:
        streams.get(topic)
    except Error as error:
        return error.code
    return None


async def test_a_fork_of_a_stream_that_ends_meanwhile_is_refused():
    """V7: it would begin with what is gone."""
    _, streams = open_room()
    await create(streams, "s/1", content=(b"x",))
    plan = streams._planned

    async def slow(what):
        found = await plan(what)
        await streams.delete("s/1", ANN)
        return found

    streams._planned = slow
    assert Code.NOT_FOUND == await refused(create(streams, "s/2", replace(TEXT, source="s/1")))
    assert 0 == len(streams)


async def test_sources_that_were_kept_go_with_their_last_fork():
    """V7: over restarts, in any order of deletions."""
    room, streams = open_room()
    await create(streams, "a")
    await create(streams, "b", replace(TEXT, source="a"))
    await create(streams, "c", replace(TEXT, source="b"))
    await create(streams, "d", replace(TEXT, source="b"))
    for topic in ("a", "b"):
        await streams.delete(topic, ANN)
        assert Code.GONE == code_of_get(streams, topic)
    await streams.delete("c", ANN)
    _, streams = open_room(room.store)
    assert 3 == len(streams)
    await streams.delete("d", ANN)
    assert 0 == len(streams)


async def test_a_fork_may_begin_after_more_messages_than_one_read_has():
    """V7: the sub-offset counts messages, however large they are."""
    room, streams = open_room()
    size = DURABLE_READ_BYTES // 4
    messages = [b'"%d%s"' % (n, b"x" * size) for n in range(9)]
    await create(streams, "s/1", NUMBERS)
    start = streams.offset(streams.get("s/1").tail)
    for message in messages:
        await streams.append("s/1", Append((message,)), ANN)
    options = replace(NUMBERS, source="s/1", fork_offset=start, fork_sub=7)
    fork, _ = await create(streams, "s/2", options)
    assert room.store.read(fork.tail - 1, 1)[0].payload == messages[6]
    beyond = create(streams, "s/3", replace(options, fork_sub=10))
    with pytest.raises(Error, match="beyond the 9 messages"):
        await beyond


async def test_the_producers_of_all_streams_are_bounded(monkeypatch):
    """V7: each stream remembers fewer where there are many."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1")
    stream.producers = {f"p{n}": (0, 0) for n in range(500)}
    many = DURABLE_PRODUCERS_ALL_MAX // 100
    monkeypatch.setattr(type(streams._streams), "__len__", lambda _: many)
    await streams.append("s/1", Append((b"x",), ProducerNumber("new", 0, 0)), ANN)
    assert 100 == len(stream.producers)
    monkeypatch.setattr(type(streams._streams), "__len__", lambda _: 10**9)
    await streams.append("s/1", Append((b"x",), ProducerNumber("newer", 0, 0)), ANN)
    assert [*stream.producers][-2:] == ["new", "newer"]
    assert DURABLE_PRODUCERS_LEAST == len(stream.producers)
    _, again = open_room(room.store)
    assert {"new", "newer"} == set(again.get("s/1").producers)


async def test_streams_that_end_at_a_time_let_others_run():
    """V7: the sweep is in slices, and its cost grows with their number."""
    room, streams = open_room(most=10_000, most_per_user=10_000)
    for n in range(1_000):
        await create(streams, f"s/{n}", replace(TEXT, ttl=1))
    room.time += 2
    sweep = asyncio.ensure_future(streams.expire_due())
    await turns(2)
    assert 0 < len(streams) < 1_000
    await sweep
    assert 0 == len(streams)
