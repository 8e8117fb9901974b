"""Writes in hand are bounded in bytes, in sum and for each caller (P2)."""

import asyncio
from dataclasses import replace

import pytest

from build import ANN, BEN, Code, Listener, Server, turns
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.store.store import Change
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import Write

SMALL = WriteBounds(client_high=2_000, client_max=4_000, high=6_000, most=8_000, batch=1_000)


def put(size, caller=ANN, topic="u/1"):
    return Write(Event(topic, PUT, bytes(size - WRITE_BYTES), None, 1, True), caller, _unheard)


def _unheard(_outcome):
    """Wait for nothing."""


@pytest.fixture
async def room():
    room = Server(bounds=SMALL)
    room.writer.held = True
    yield room
    room.writer.release()
    await room.committer.settle()


async def test_each_callers_bytes_are_counted_until_they_are_answered(room):
    """P2."""
    for _ in range(2):
        room.committer.submit([put(900)])
    room.committer.submit([put(600, BEN)])
    await turns()
    pending = room.committer.pending
    assert ({ANN.connection: 1_800, BEN.connection: 600}, 2_400) == (pending, pending.size)
    room.writer.release()
    await room.committer.settle()
    assert ({}, 0) == (pending, pending.size)


async def test_a_caller_that_has_much_in_hand_is_slowed_and_others_are_not(room):
    """P2."""
    for _ in range(2):
        room.committer.submit([put(1_000)])
    room.committer.submit([put(600, BEN)])
    assert [True, False] == [room.committer.slows(caller) for caller in (ANN, BEN)]


async def test_a_connection_is_the_same_after_a_change_of_its_rights(room):
    """Its caller is another one: what it had in hand counted for nobody, and was overtaken."""
    kernel, heard = room.kernel, Listener(room, "open/#")
    room.committer.submit([put(1_000, topic="open/1")])
    same = replace(ANN)
    room.committer.submit([put(1_000, same, "open/1")])
    assert [True, True] == [room.committer.slows(caller) for caller in (ANN, same)]
    kernel.submit(Event("open/1", MESSAGE, b"last"), replace(ANN))
    kernel.submit(Event("open/1", MESSAGE, b"other"), BEN)
    assert kernel.has_pending_writes(replace(ANN))
    room.writer.release()
    await room.committer.settle()
    assert [b"other", b"last"] == [it.payload for it in heard.events if it.kind == MESSAGE]
    assert {} == room.committer.pending


async def test_when_all_have_too_much_those_above_the_mean_are_slowed(room):
    """P2."""
    names = [type(ANN)(str(number)) for number in range(4)]
    for caller in names:
        room.committer.submit([put(1_500, caller)])
    room.committer.submit([put(600, BEN)])
    assert room.committer.crowded
    assert [True] * 4 == [room.committer.slows(caller) for caller in names]
    assert [False] * 2 == [room.committer.slows(caller) for caller in (ANN, BEN)]


async def test_who_is_slowed_may_go_on_when_half_is_answered(room):
    """P2."""
    heard = []
    for _ in range(4):
        room.committer.submit([put(1_000)])
    room.committer.pending.when_room(ANN, lambda: 1 / 0)
    room.committer.pending.when_room(
        ANN, lambda: heard.append(room.committer.pending[ANN.connection])
    )
    waits = asyncio.ensure_future(room.committer.room(ANN))
    await turns()
    for _ in range(2):
        assert [] == heard
        room.writer.step()
        await turns()
    room.writer.step()
    await turns()
    assert ([1_000], True) == (heard, waits.done())


@pytest.mark.parametrize("caller", [ANN, BEN])
async def test_what_cannot_wait_is_refused(room, caller):
    """P2: a caller at its own bound, and everybody at that of all."""
    for _ in range(4):
        room.committer.submit([put(1_000)])
    if caller is BEN:
        for number in range(4):
            room.committer.submit([put(1_000, type(ANN)(str(number)))])
    with pytest.raises(Error) as raised:
        room.committer.submit([put(700, caller)])
    assert (Code.BUSY, 1) == (raised.value.code, raised.value.detail["retry_after_seconds"])


async def test_a_single_write_may_be_as_large_as_it_may_be(room):
    room.committer.submit([put(9_000)])
    assert 9_000 == room.committer.pending.size


async def test_a_transaction_is_bounded_in_bytes(room):
    """P2."""
    for _ in range(5):
        room.committer.submit([put(600)])
    room.writer.release()
    await room.committer.settle()
    assert 5 == room.committer.commits


async def test_facts_that_wait_are_bounded_in_bytes(room):
    """P2."""
    told = []
    for _ in range(3):
        room.committer.keep([Change("s", "x", bytes(4_000))], told.append)
    assert [Code.BUSY] == [error.code for error in told]


async def test_messages_behind_a_write_are_counted_too(room):
    """C22: they keep their order with it."""
    message = Event("u/2", MESSAGE, bytes(1_000))
    room.committer.submit([put(600)])
    room.committer.submit([Write(message, ANN, _unheard, logged=False)])
    assert 600 + 1_000 + WRITE_BYTES == room.committer.pending[ANN.connection]
