"""Nodes that share an archive: every reader gets every event, on every seed (M2, K12)."""

from functools import partial

import pytest
from sim_archive import KEPT_SECONDS, run
from sim_archive_plants import (
    ARCHIVE_PLANTS,
    remove_what_is_old_in_part,
    stop_at_a_file_that_is_gone,
    take_back_what_was_told,
)
from sim_checks import Violation
from sim_search import expect_notice

QUICK = 8
ALL = 15
SEEDS_TO_NOTICE = 150
AGED = (8, 11, 14, 17)
"""Seeds on which files are removed while there are readers, with an age limit."""
AGED_PLANTS = (
    (remove_what_is_old_in_part, 8),
    (stop_at_a_file_that_is_gone, 104),
    (take_back_what_was_told, 116),
)
"""Mistakes with what is too old, each with a seed that notices it."""
NOTICED_BY = {
    "refuse_files_that_overlap": 2,
    "name_files_alike": 20,
    "trim_what_could_not_be_written": 14,
    "merge_what_overlaps": 12,
    "believe_every_list": 8,
}
"""The seeds that noticed a mistake when it was last looked for, tried first."""


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(QUICK))
def test_readers_of_a_shared_archive_get_every_event(seed):
    events, trims, read, _files, gone = run(seed)
    assert min(events, trims, read) > 0
    assert not gone


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_readers_of_a_shared_archive_get_every_event_on_more_seeds(seed):
    run(seed)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", AGED)
def test_readers_are_told_of_what_was_too_old_for_a_shared_archive(seed):
    """Whichever node removed it, and nothing else is gone."""
    assert run(seed, keep_seconds=KEPT_SECONDS)[4] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ALL))
def test_readers_are_told_of_what_was_too_old_on_more_seeds(seed):
    run(seed, keep_seconds=KEPT_SECONDS)


@pytest.mark.heavy
def test_a_run_of_an_archive_is_a_replay():
    assert run(1) == run(1)


@pytest.mark.parametrize(("plant", "seed"), AGED_PLANTS, ids=lambda it: getattr(it, "__name__", it))
def test_a_mistake_with_what_is_too_old_is_noticed(monkeypatch, plant, seed):
    plant(monkeypatch)
    noticed = partial(_fails, keep_seconds=KEPT_SECONDS)
    expect_notice((seed,), SEEDS_TO_NOTICE, noticed, "in AGED_PLANTS")


def _fails(seed, **options):
    try:
        run(seed, **options)
    except Violation:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("plant", ARCHIVE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_mistake_planted_into_a_shared_archive_is_noticed(monkeypatch, plant):
    plant(monkeypatch)
    named = (NOTICED_BY.get(plant.__name__, 0),)
    expect_notice(named, SEEDS_TO_NOTICE, _fails, "in NOTICED_BY")
