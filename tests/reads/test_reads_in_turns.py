"""Long work in parts: others have their turn between them, and the order stays."""

import asyncio

import pytest

from build import ANN, Server
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.rights.rule_syntax import rule_of
from rowcast.reads.loop_turns import LOOP_TURN_ITEMS, in_turns


def dog(name):
    return Event(f"Dog/{name}", PUT, b'{"name":"a"}', None, 1, True)


def many():
    return [dog(number) for number in range(5 * LOOP_TURN_ITEMS)]


async def test_the_parts_are_all_items_in_order():
    assert [[0, 1], [2, 3], [4]] == [list(some) async for some in in_turns(range(5), 2)]
    assert [] == [some async for some in in_turns(())]


async def test_many_writes_leave_turns_to_others():
    """Somebody who writes once, when a bulk write has begun, does not wait for all of it."""
    room = Server()
    bulk = asyncio.ensure_future(room.kernel.write_all(many(), ANN, atomic=False))
    await asyncio.sleep(0)
    other = room.kernel.write(dog("other"), ANN)
    receipt, outcomes = await asyncio.gather(other, bulk)
    seqs = [outcome.event.seq for outcome in outcomes]
    assert sorted(seqs) == seqs
    assert seqs[0] < receipt.event.seq < seqs[-1]


async def test_an_atomic_batch_leaves_turns_to_others_and_stays_whole():
    room = Server()
    bulk = asyncio.ensure_future(room.kernel.write_all(many(), ANN, atomic=True))
    await asyncio.sleep(0)
    receipt = await room.kernel.write(dog("other"), ANN)
    seqs = [outcome.event.seq for outcome in await bulk]
    assert list(range(receipt.event.seq + 1, receipt.event.seq + 1 + len(seqs))) == seqs


async def test_an_atomic_batch_is_judged_by_one_set_of_rules():
    room = Server()
    bulk = asyncio.ensure_future(room.kernel.write_all(many(), ANN, atomic=True))
    await asyncio.sleep(0)
    room.kernel.rights.replace(
        [rule_of("1", {"filter": "Dog/0", "effect": "deny", "actions": ["write"]})]
    )
    with pytest.raises(Error) as refused:
        await bulk
    await room.kernel.committer.settle()
    assert (Code.BUSY, 0) == (refused.value.code, room.store.head())


async def test_an_atomic_batch_that_is_given_up_leaves_nothing():
    room = Server()
    bulk = asyncio.ensure_future(room.kernel.write_all(many(), ANN, atomic=True))
    await asyncio.sleep(0)
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk
    await room.kernel.committer.settle()
    assert 0 == room.store.head()
