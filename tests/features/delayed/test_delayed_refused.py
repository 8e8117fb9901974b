"""The rows of what waits: ids, and a disk that refuses a change of one (D52, M11)."""

import pytest
import pytest_asyncio
from test_delayed_publish import Delays, patch

from rowcast.core.errors import Code, Error
from rowcast.features.delayed.feature import DelayedPublish
from rowcast.features.delayed.ids import Ids

LATER = {"due": "2023-11-15T00:00:00Z"}


@pytest_asyncio.fixture
async def room():
    made = Delays(features=[DelayedPublish()])
    yield made
    made.delayed.stop()


async def refused(room, what):
    """Have a disk that refuses something; return the refusal."""

    def fault(*_):
        raise Error(Code.BUSY, "the disk is full")

    room.store.fault = fault
    with pytest.raises(Error) as found:
        await what
    room.store.fault = None
    return found.value.code


async def test_what_could_not_be_cancelled_waits_and_can_be_cancelled_again(room):
    """It was gone from the list, so that nobody could cancel it, and came after a restart."""
    await room.send("$delayed/60/a", b"1")
    rows = await room.rows()
    path = f"$SYS/delayed/{rows[0]['id']}"
    assert Code.BUSY == await refused(room, room.delete(path))
    assert rows == await room.rows()
    await room.delete(path)
    assert ([], []) == (await room.rows(), room.facts())


async def test_what_could_not_be_cancelled_comes_once(room):
    await room.send("$delayed/60/a", b"1")
    [row] = await room.rows()
    await refused(room, room.delete(f"$SYS/delayed/{row['id']}"))
    await room.forward(60)
    assert ([b"1"], []) == ([event.payload for event in room.listener.events], room.facts())


async def test_what_could_not_be_given_another_time_keeps_its_own(room):
    """It came at the new time, and at the former one again after a restart."""
    await room.send("$delayed/60/a", b"1")
    rows = await room.rows()
    assert Code.BUSY == await refused(room, patch(room, rows[0]["id"], LATER))
    assert rows == await room.rows()
    await room.forward(60)
    assert ([b"1"], []) == ([event.payload for event in room.listener.events], room.facts())


async def test_ids_whose_reservation_was_refused_are_reserved_with_the_next_one(room):
    """D52: else they would be used again after a restart."""
    assert Code.BUSY == await refused(room, room.send("$delayed/60/a", b"1"))
    await room.send("$delayed/60/a", b"2")
    [row] = await room.rows()
    [(_, _, until)] = room.store.states("numbers")
    assert int(until) >= int(row["id"])


async def test_no_id_is_used_again_after_a_restart_or_at_another_node(room):
    """D52, M11: who cancels what was published long ago would cancel what another one has sent."""
    known = set()
    for _ in range(3):
        await room.send("$delayed/60/a", b"1")
        [row] = await room.rows()
        known.add(row["id"])
        await room.delete(f"$SYS/delayed/{row['id']}")
        room.delayed.ids = Ids()  # a new life, with what is stored
        room.delayed.ids.restore(room.store.states("numbers"))
    assert len(known) == 3
