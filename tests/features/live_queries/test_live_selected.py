"""Live queries of selected attributes: what is a change of them (M3)."""

import pytest
from query_readers import Mqtt, Sse, Ws
from related_dogs import put, related, some_dogs, watch

from rowcast.core.callers import ALL, Caller

SELECTED = ["select(id,age,size)", "select(id,age,size,owner(name,city))"]
WRITES = ({"colour": 1}, {"colour": 2}, {"age": 9}, {"size": 1}, {"size": True}, {"size": True})
"""Of which three change the age or the size."""


@pytest.fixture
async def dogs():
    async with related() as opened:
        await some_dogs(opened)
        yield opened


@pytest.mark.parametrize("text", SELECTED)
@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("door", [Sse, Ws, Mqtt])
async def test_m3_a_write_that_changes_nothing_that_is_told_is_no_change(dogs, door, away, text):
    """M3: live, and for a reader that comes back; 1 and true differ."""
    await dogs.open(text, [door])
    (reader,) = dogs.readers
    reader.heard.clear()
    if away:
        await reader.cut()
    for value in WRITES:
        await dogs.write(put("Dog/1", **{"age": 1, "owner_id": "ann"} | value))
        if not away:
            await dogs.settle()
    if away:
        await reader.ask(text)
    await dogs.check()
    assert ["change"] * 3 == [kind for kind in reader.heard if kind == "change"]
    assert reader.records["Dog/1"]["size"] is True


async def test_m3_what_is_written_while_records_are_read_is_told_though_it_is_the_same(dogs):
    """M3: who lacks the record is not told that nothing of it has changed."""
    kernel = dogs.server.kernel
    reader, heard = await watch(kernel, "$query/Dog/select(id,age)", Caller("ann", ALL))
    query = reader.interests["$query/Dog/select(id,age)"].query
    await heard()
    query.lack(["Dog/1"])
    for _ in range(2):
        await dogs.write(put("Dog/1", age=1, owner_id="ann"))
    assert [("enter", "Dog/1")] == await heard()
