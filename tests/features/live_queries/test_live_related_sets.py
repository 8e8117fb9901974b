"""Queries on related records: readers hold what REST answers, after every write (M3, A9)."""

import random
from unittest import mock

import pytest
from query_world import DOORS, FEW, Sse, Ws, world, write_and_check
from related_queries import (
    KEYS,
    TABLES,
    random_parts,
    random_related,
    random_write_of_any,
    ruled,
)

from rowcast.core.callers import Caller, Grants
from rowcast.features.live_queries import related_past, related_plan, related_pool
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.related_past import Limits
from rowcast.store.sqlite import SqlStore

READS = Grants(read=True)
PEOPLE = {
    "ann": Caller("ann", READS),
    "vet": Caller("vi", READS, roles=frozenset({"vet"})),
    "both": Caller("ben", READS, roles=frozenset({"vet"})),
}


async def ask_any(opened, chance, name, doors, *, select):
    """Open readers of conditions on related records that REST answers, and maybe parts of them."""
    while True:
        asked = random_related(chance, name)
        if select:
            parts = random_parts(chance, name)
            asked = parts if chance.random() < 0.2 else f"{asked}&{parts}"
        answer = await opened.rest.get(f"/{opened.path}/?{asked}") if "." in asked else None
        if answer is not None and answer.status == 200:
            await opened.open(asked, doors)
            return


async def run_case(seed, writes, cuts, tables=TABLES, doors=DOORS, select=False, **options):
    """Run one random case; return what the readers heard. Raises AssertionError."""
    chance = random.Random(seed)
    name = chance.choices(list(KEYS), (5, 3, 1))[0]
    others = [table for table in tables.values() if table.name != name]
    async with world(tables[name], others=others, **options) as opened:
        for _ in range(chance.randrange(30)):
            await opened.write(random_write_of_any(chance))
        await ask_any(opened, chance, name, doors, select=select)
        await opened.check()
        await write_and_check(opened, chance, writes, cuts, FEW, random_write_of_any)
        heard = [kind for reader in opened.readers for kind in reader.heard]
    assert 0 == len(opened.server.live_queries)
    assert 0 == len(opened.server.live_queries.views)
    return heard


@pytest.mark.parametrize("seed", range(24))
async def test_m3_a9_each_door_holds_what_rest_answers(seed):
    """M3, A9: after each write of any table, and after cuts; nobody has to begin anew."""
    assert "reset" not in await run_case(seed, writes=40, cuts=8)


@pytest.mark.parametrize("seed", range(24))
async def test_m3_a9_selected_parts_are_those_of_the_position(seed):
    """M3, A9: of the record and of related ones, also when only these change."""
    heard = await run_case(seed, writes=40, cuts=8, select=True, doors=[Sse, Ws])
    assert "reset" not in heard


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(6))
async def test_m3_m9_selected_parts_within_the_rights_of_the_caller(name, seed):
    """M3, M9: related records that the caller may not read are not told."""
    rights = {"tables": ruled(), "caller": PEOPLE[name]}
    await run_case(seed, writes=40, cuts=4, select=True, doors=[Sse, Ws], **rights)


@pytest.mark.parametrize("seed", range(4))
async def test_m3_a9_with_tables_on_disk(seed, tmp_path):
    """M3, A9: they are behind the log, and are waited for."""
    store = SqlStore(f"sqlite:///{tmp_path / 'log.db'}")
    assert "reset" not in await run_case(seed, writes=30, cuts=6, store=store)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(6))
async def test_m3_m9_within_the_rights_of_the_caller(name, seed):
    """M3, M9: related records that the caller may not read are as absent."""
    await run_case(seed, writes=40, cuts=4, tables=ruled(), caller=PEOPLE[name])


@pytest.mark.parametrize("seed", range(4))
async def test_m3_beyond_the_bounds_readers_begin_anew(seed):
    """M3: then they hold what REST answers, too."""
    live = LiveQueriesOfTables(related_limits=Limits(events=3, records=1))
    heard = await run_case(seed, writes=40, cuts=4, features=[live], doors=[Sse, Ws])
    assert "reset" in heard


def _stays(_plan, _event, counts, _positions=()):
    return set()


@pytest.mark.parametrize("name", ["value", "record"])
async def test_a_planted_mistake_of_what_is_told_is_noticed(name):
    """Changes of related records alone, and parts of records, are in the cases."""
    mistake = {"value": lambda _telling, _record: None, "record": lambda _telling, record: record}
    with (
        mock.patch.object(related_pool.Telling, name, mistake[name]),
        pytest.raises(AssertionError),
    ):
        for seed in range(8):
            await run_case(seed, writes=40, cuts=0, select=True, doors=[Sse, Ws])


@pytest.mark.parametrize(
    ("of", "name", "mistake"),
    [
        (related_plan.Plan, "count", _stays),
        (related_past.Past, "_put_back", lambda _past, _found, _events: None),
        (related_past.Past, "_counted_at_start", lambda _past, _events, counts: counts),
    ],
)
async def test_a_planted_mistake_is_noticed(of, name, mistake):
    """Keys that change, records as they were, and keys as they were are in the cases."""
    with mock.patch.object(of, name, mistake), pytest.raises(AssertionError):
        for seed in range(8):
            await run_case(seed, writes=40, cuts=8)
