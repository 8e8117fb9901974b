"""Queries on related records: readers hold what REST answers, after every write (M3, A9)."""

from contextlib import closing
from unittest import mock

import pytest
from query_readers import Sse, Ws
from related_queries import ruled
from related_readers import run_related

from rowcast.core.callers import Caller, Grants
from rowcast.features.live_queries import related_past, related_plan, related_pool, related_window
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.related_past import Limits
from rowcast.store.sqlite import SqlStore

READS = Grants(read=True)
PEOPLE = {
    "ann": Caller("ann", READS),
    "vet": Caller("vi", READS, roles=frozenset({"vet"})),
    "both": Caller("ben", READS, roles=frozenset({"vet"})),
}


@pytest.mark.parametrize("seed", range(8))
async def test_m3_a9_each_door_holds_what_rest_answers(seed):
    """M3, A9: after each write of any table, and after cuts; nobody has to begin anew."""
    assert "reset" not in await run_related(seed, writes=40, cuts=8)


@pytest.mark.parametrize("seed", range(8))
async def test_m3_a9_selected_parts_are_those_of_the_position(seed):
    """M3, A9: of the record and of related ones, also when only these change."""
    heard = await run_related(seed, writes=40, cuts=8, select=True)
    assert "reset" not in heard


@pytest.mark.parametrize("seed", range(8))
async def test_m3_a9_the_window_is_that_of_rest_on_each_door(seed):
    """M3, A9: the first records of an order by conditions on related records, after each write."""
    assert "reset" not in await run_related(seed, writes=40, cuts=8, window=True)


@pytest.mark.parametrize("seed", range(8))
async def test_m3_a9_selected_parts_in_a_window_are_those_of_the_position(seed):
    """M3, A9: of its records and of related ones, after each write and after cuts."""
    heard = await run_related(seed, writes=40, cuts=8, window=True, select=True)
    assert "reset" not in heard


@pytest.mark.slow
async def test_m3_a9_a_window_of_the_past_of_which_too_little_is_known_is_read_again():
    """M3, A9: two dogs that came ahead of the only other one are taken back together."""
    await run_related(20233, writes=100, cuts=20, window=True)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(2))
async def test_m3_m9_a_window_within_the_rights_of_the_caller(name, seed):
    """M3, M9: records of any of its tables that the caller may not read are as absent."""
    rights = {"tables": ruled(), "caller": PEOPLE[name]}
    await run_related(seed, writes=40, cuts=4, window=True, **rights)


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(2))
async def test_m3_m9_selected_parts_within_the_rights_of_the_caller(name, seed, window, caplog):
    """M3, M9: related records that the caller may not read are not told; no deletion is damaged."""
    rights = {"tables": ruled(), "caller": PEOPLE[name]}
    await run_related(seed, writes=40, cuts=4, select=True, window=window, **rights)
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("seed", range(2))
async def test_m3_a9_with_tables_on_disk(seed, window, tmp_path):
    """M3, A9: they are behind the log, and are waited for."""
    with closing(SqlStore(f"sqlite:///{tmp_path / 'log.db'}")) as store:
        heard = await run_related(seed, writes=30, cuts=6, window=window, store=store)
    assert "reset" not in heard


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(2))
async def test_m3_m9_within_the_rights_of_the_caller(name, seed):
    """M3, M9: related records that the caller may not read are as absent."""
    await run_related(seed, writes=40, cuts=4, tables=ruled(), caller=PEOPLE[name])


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_m3_beyond_the_bounds_readers_begin_anew(seed, window):
    """M3: then they hold what REST answers, too."""
    live = LiveQueriesOfTables(related_limits=Limits(events=3, records=1))
    options = {"features": [live], "doors": [Sse, Ws], "window": window}
    heard = await run_related(seed, writes=40, cuts=4, **options)
    assert "reset" in heard


def _stays(_plan, _event, counts, _positions=()):
    return set()


@pytest.mark.parametrize(
    ("name", "window"), [("value", False), ("record", False), ("record", True)]
)
async def test_a_planted_mistake_of_what_is_told_is_noticed(name, window):
    """Changes of related records alone, and parts of records, are in the cases."""
    mistake = {"value": lambda _telling, _record: None, "record": lambda _telling, record: record}
    with (
        mock.patch.object(related_pool.SelectedRecords, name, mistake[name]),
        pytest.raises(AssertionError),
    ):
        for seed in range(8):
            options = {"select": True, "window": window, "doors": [Sse, Ws]}
            await run_related(seed, writes=40, cuts=0, **options)


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
            await run_related(seed, writes=40, cuts=8)


async def _nothing(*_parts):
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake"),
    [("_take_back", _nothing), ("_entry_of", lambda view, step: view._entry(step))],
)
async def test_a_planted_mistake_of_a_window_is_noticed(name, mistake):
    """Windows as they were, and records that leave them, are in the cases."""
    with (
        mock.patch.object(related_window.RelatedWindow, name, mistake),
        pytest.raises(AssertionError),
    ):
        for seed in range(8):
            await run_related(seed, writes=40, cuts=8, window=True)
