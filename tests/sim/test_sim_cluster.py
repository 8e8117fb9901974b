"""Nodes that share a log: every promise holds on every seed (K1).

Acknowledged writes are there once, under the number that was told; refused ones are not; every node
announces the log in order and has equal tables at equal positions; a writer reads its own writes at
its node; conditions are met where the log has the write.
"""

from functools import partial

import pytest
from sim_checks import Violation
from sim_cluster import run
from sim_cluster_plants import CLUSTER_PLANTS, RESULT_PLANTS
from sim_search import expect_notice

from rowcast.core.errors import Error

QUICK = 10
ALL = 15
SEEDS_TO_NOTICE = 100
NOTICED_BY = {
    "send_again_before_the_log_was_followed": 6,
    "verify_no_record": 1,
    "begin_without_a_batch": 1,
    "answer_from_the_past": 4,
    "give_up_and_say_it_is_not_written": 5,
    "lose_facts_on_the_way": 1,
    "keep_records_of_before_a_switch": 2,
    "stage_beside_a_batch": 9,
    "sweep_at_the_start": 7,
}
"""The seeds that noticed a mistake when it was last looked for, tried first."""


@pytest.mark.parametrize("seed", range(QUICK))
def test_nodes_keep_every_promise(seed):
    events, acknowledged, *_ = run(seed)
    assert events >= acknowledged > 0


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(QUICK))
def test_nodes_show_all_of_a_large_result_or_nothing(seed):
    """M5: who numbers dies, is paused or replaced in the middle; who follows begins anew."""
    events, acknowledged, *_ = run(seed, results=True)
    assert events > acknowledged > 0


@pytest.mark.slow
@pytest.mark.parametrize("plant", RESULT_PLANTS, ids=lambda plant: plant.__name__)
def test_a_mistake_about_large_results_is_noticed(monkeypatch, plant):
    plant(monkeypatch)
    _expect_notice(plant, results=True)


def _expect_notice(plant, **options):
    named = (NOTICED_BY.get(plant.__name__, 0),)
    expect_notice(named, SEEDS_TO_NOTICE, partial(_fails, **options), "in NOTICED_BY")


def _fails(seed, **options):
    try:
        run(seed, **options)
    except (Violation, Error):
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_nodes_keep_every_promise_on_more_seeds(seed):
    run(seed)


@pytest.mark.slow
def test_a_run_of_nodes_is_a_replay():
    assert run(1) == run(1)


@pytest.mark.parametrize("plant", CLUSTER_PLANTS, ids=lambda plant: plant.__name__)
def test_a_mistake_planted_into_nodes_is_noticed(monkeypatch, plant):
    plant(monkeypatch)
    _expect_notice(plant)
