"""What readers of a live query hold is what REST answers, after every write (M3)."""

from contextlib import closing
from unittest import mock

import pytest
from query_readers import run_case

from rowcast.core.callers import Caller, Grants
from rowcast.features.live_queries import table_queries, window_order, window_replay
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from rowcast.subscriptions.live_query import Step

READS = Grants(read=True)
RULED = parse_schema("""
type T @table @export
  @auth(read: "owner == $user")
  @auth(roles: ["vet"], read: "a1 != 3", mask: {phone: "last4"}) {
  id: ID @primaryKey
  owner: String
  phone: String
  a1: Int
  a2: Float @auth(roles: ["vet"])
}
""").tables[0]
PEOPLE = {
    "ann": Caller("ann", READS),
    "vet": Caller("vi", READS, roles=frozenset({"vet"})),
    "both": Caller("ben", READS, roles=frozenset({"vet"})),
}


@pytest.mark.parametrize("seed", range(10))
async def test_m3_each_door_holds_what_rest_answers(seed):
    """M3: after each write, and after cuts in which more was written."""
    await run_case(seed, writes=40, cuts=8)


@pytest.mark.parametrize("seed", range(10))
async def test_m3_a_window_is_the_first_records_of_rest(seed):
    """M3: with an order and a limit, after each write and after cuts, on each door."""
    await run_case(seed, writes=40, cuts=8, window=True)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(10))
async def test_m3_a_window_of_selected_parts_is_that_of_rest(seed):
    """M3: the order may be by what is not selected."""
    await run_case(seed, writes=40, cuts=8, window=True, select=True)


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_m3_who_comes_back_after_another_query_has_what_rest_answers(seed, window):
    """M3: what was found out for another reader's query is not taken for this one's."""
    await run_case(seed, writes=40, cuts=20, window=window, alone=True)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(2))
async def test_m3_m9_a_window_of_selected_parts_within_the_rights_of_the_caller(name, seed):
    """M3, M9: masks hold in what is selected."""
    who = PEOPLE[name]
    await run_case(seed, writes=40, cuts=4, table=RULED, caller=who, window=True, select=True)


@pytest.mark.parametrize("seed", range(2))
async def test_m3_a_window_of_tables_on_disk(seed, tmp_path):
    """M3: they are behind the log, and are waited for."""
    with closing(SqlStore(f"sqlite:///{tmp_path / 'log.db'}")) as store:
        await run_case(seed, writes=30, cuts=6, window=True, store=store)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(4))
async def test_m3_a_window_within_the_rights_of_the_caller(name, seed):
    """M3, M9: where a record becomes forbidden, the next one moves up."""
    await run_case(seed, writes=40, cuts=4, table=RULED, caller=PEOPLE[name], window=True)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("seed", range(4))
async def test_m3_within_the_rights_of_the_caller(name, seed):
    """M3, M9: a record that becomes forbidden leaves, and masks hold."""
    await run_case(seed, writes=40, cuts=4, table=RULED, caller=PEOPLE[name])


async def test_a_planted_mistake_is_noticed():
    """An index that forgets the record before an event would leave records behind."""

    def forgets(self, event):
        found = matches(self, event)
        return {name: match for name, match in found.items() if match[1]}

    matches = table_queries.TableQueries.matches
    with (
        mock.patch.object(table_queries.TableQueries, "matches", forgets),
        pytest.raises(AssertionError),
    ):
        for seed in range(3):
            await run_case(seed, writes=40, cuts=0)


async def _nothing(*_asked):
    return {}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("of", "name", "mistake"),
    [
        (window_order.WindowOrder, "is_enough", property(lambda _self: True)),
        (window_replay, "_touched", _nothing),
    ],
)
async def test_a_window_that_guesses_is_noticed(of, name, mistake):
    """Spare records that are used up, and what was written meanwhile, are in the cases."""
    with mock.patch.object(of, name, mistake), pytest.raises(AssertionError):
        for seed in range(8):
            await run_case(seed, writes=40, cuts=8, window=True)


async def test_a_planted_mistake_of_windows_is_noticed():
    """A window that forgets who is next would lack the record that moves up."""

    def forgets(old, new):
        return [step for step in difference(old, new) if step.step is not Step.ENTER]

    difference = window_order._difference
    with (
        mock.patch.object(window_order, "_difference", forgets),
        pytest.raises(AssertionError),
    ):
        for seed in range(3):
            await run_case(seed, writes=40, cuts=0, window=True)
