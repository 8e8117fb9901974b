"""Live queries whose readers leave, or whose records change, while the records are read (M3)."""

import pytest
from hasty_readers import HastyMqtt, HastySse, HastyWs, run_hasty
from query_readers import WRITER
from related_dogs import BONN, put, related, watch

from build import turns
from rowcast.features.live_queries.related_past import Past

TOWNS = """
type Dog @table @export {
  id: ID @primaryKey
  owner_id: ID @indexed
  owner: Owner @relationship(from: "owner_id")
}
type Owner @table @export {
  id: ID @primaryKey
  city_id: ID @indexed
  city: City @relationship(from: "city_id")
}
type City @table @export { id: ID @primaryKey age: Int }
"""


@pytest.mark.parametrize("seed", [4, 184, *range(4)])
async def test_m3_who_leaves_too_early_is_told_no_change_of_what_it_lacks(seed):
    """M3, C11: on each door, of conditions, related ones and windows; in the end as REST."""
    await run_hasty(seed, writes=12, cuts=6)


@pytest.mark.parametrize("conditions", [BONN, f"{BONN}&sort(age)&limit(9)", "age=ge=0&limit(9)"])
async def test_m3_a_session_that_got_no_record_yet_is_told_that_it_enters(conditions):
    """M3: not that it has changed, as it is to readers that have it."""
    async with related() as opened:
        await opened.write(put("Owner/ann", city="Bonn"))
        await opened.write(put("Dog/1", age=1, owner_id="ann"))
        reader = HastyMqtt(opened)
        opened.server.readers.hold()
        await reader.ask(conditions)
        await reader.cut()
        assert [] == reader.heard
        opened.server.readers.release()
        await opened.write(put("Dog/1", age=2, owner_id="ann"))
        opened.readers, opened.conditions = [reader], conditions
        await reader.ask(conditions)
        await opened.check()
        await opened.write(put("Dog/1", age=3, owner_id="ann"))
        await opened.check()
        assert ("enter", "Dog/1") == reader.heard[0]
        assert ("change", "Dog/1") == reader.heard[-1]


@pytest.mark.parametrize("door", [HastySse, HastyWs, HastyMqtt])
@pytest.mark.parametrize("conditions", [BONN, "age=ge=0"])
async def test_m3_a_record_that_is_written_before_its_page_is_read_enters(door, conditions):
    """M3, C11: the current records leave it out, so its event brings it."""
    async with related() as opened:
        await opened.write(put("Owner/ann", city="Bonn"))
        for number in (1, 2):
            await opened.write(put(f"Dog/{number}", age=1, owner_id="ann"))
        reader, opened.conditions = door(opened), conditions
        opened.readers = [reader]
        reads = opened.server.readers
        reads.hold()
        await reader.ask(conditions)
        await turns(20)
        while reads.waiting and conditions == BONN:  # the keys first
            reads.step()
            await turns(20)
            if reads.waiting and len(opened.server.live_queries.views):
                break
        for age in (2, 3):
            await opened.write(put("Dog/2", age=age, owner_id="ann"))
        reads.release()
        await opened.settle()
        await opened.check()
        told = [item for item in reader.heard if item[0] != "current"]
        assert [("snapshot", "Dog/1"), ("enter", "Dog/2"), ("change", "Dog/2")] == told


@pytest.mark.parametrize("other", ["age=lt=2", "age=gt=1&sort(age)&limit(1)"])
async def test_m3_who_resumes_after_all_others_left_has_the_steps_of_its_own_query(other):
    """M3: with events was kept which queries of earlier readers they concern."""
    async with related() as opened:
        kernel = opened.server.kernel
        await opened.write(put("Dog/1", age=1))
        since = kernel.reader.announced()
        await opened.write(put("Dog/1", age=2))
        first, heard = await watch(kernel, f"$query/Dog/{other}", WRITER, since)
        await heard()
        kernel.close(first)
        second, heard = await watch(kernel, "$query/Dog/age=gt=1", WRITER, since)
        assert [("enter", "Dog/1")] == await heard()
        kernel.close(second)


async def test_m3_a_related_record_that_moves_on_before_it_is_read_is_followed(monkeypatch):
    """M3, A9: who resumes hears that a record left, although nothing leads to it any more."""
    async with related(TOWNS) as opened:
        for event in (
            put("City/x", age=3),
            put("City/y", age=4),
            put("Owner/ben", city_id="x"),
            put("Dog/1", owner_id="ben"),
        ):
            await opened.write(event)
        kernel = opened.server.kernel
        since, read = kernel.reader.announced(), Past._read
        await opened.write(put("City/x", age=2))

        async def late(past, node, where):
            if node.table.name == "Owner":
                monkeypatch.setattr(Past, "_read", read)
                await opened.write(put("Owner/ben", city_id="y"))
            return await read(past, node, where)

        monkeypatch.setattr(Past, "_read", late)
        reader, heard = await watch(kernel, "$query/Dog/owner.city.age!=2", WRITER, since)
        assert [("leave", "Dog/1"), ("enter", "Dog/1")] == await heard() + await heard()
        kernel.close(reader)
