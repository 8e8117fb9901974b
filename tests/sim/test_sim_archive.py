"""Nodes that share an archive: every reader gets every event, on every seed (M2, K12)."""

import pytest
from sim_archive import run
from sim_archive_plants import ARCHIVE_PLANTS
from sim_checks import Violation

QUICK = 8
ALL = 150
SEEDS_TO_NOTICE = 150
NOTICED_BY = {
    "refuse_files_that_overlap": 2,
    "name_files_alike": 1,
    "remove_before_the_merged_file_is_there": 1,
    "trim_what_could_not_be_written": 3,
    "merge_what_overlaps": 12,
    "believe_every_list": 8,
}
"""The seeds that noticed a mistake when it was last looked for, tried first."""


@pytest.mark.parametrize("seed", range(QUICK))
def test_readers_of_a_shared_archive_get_every_event(seed):
    events, trims, read, _files = run(seed)
    assert min(events, trims, read) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_readers_of_a_shared_archive_get_every_event_on_more_seeds(seed):
    run(seed)


def test_a_run_of_an_archive_is_a_replay():
    assert run(1) == run(1)


@pytest.mark.parametrize("plant", ARCHIVE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_mistake_planted_into_a_shared_archive_is_noticed(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(Violation):
        for seed in (NOTICED_BY.get(plant.__name__, 0), *range(SEEDS_TO_NOTICE)):
            run(seed)
