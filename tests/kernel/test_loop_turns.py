"""Long work in parts: others have their turn between them, and the order stays."""

import asyncio

from build import ANN, Server
from rowcast.core.events import PUT, Event
from rowcast.kernel.loop_turns import LOOP_TURN_ITEMS, in_turns


async def test_the_parts_are_all_items_in_order():
    assert [[0, 1], [2, 3], [4]] == [list(some) async for some in in_turns(range(5), 2)]
    assert [] == [some async for some in in_turns(())]


async def test_many_writes_leave_turns_to_others():
    """Somebody who writes once, when a bulk write has begun, does not wait for all of it."""
    room = Server()
    many = [
        Event(f"Dog/{n}", PUT, b'{"name":"a"}', None, 1, True) for n in range(5 * LOOP_TURN_ITEMS)
    ]
    bulk = asyncio.ensure_future(room.kernel.write_all(many, ANN, atomic=False))
    await asyncio.sleep(0)
    other = room.kernel.write(Event("Dog/other", PUT, b'{"name":"b"}', None, 1, True), ANN)
    receipt, outcomes = await asyncio.gather(other, bulk)
    seqs = [outcome.event.seq for outcome in outcomes]
    assert sorted(seqs) == seqs
    assert seqs[0] < receipt.event.seq < seqs[-1]
