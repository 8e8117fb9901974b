"""A short round of `scripts/kill results`: M5, old or new whole, never a mix."""

import pytest
from kill_results import run
from kill_results_often import run_often
from kill_results_sites import run as run_sites

from amounts import amount


@pytest.mark.timeout(300)
def test_m5_a_killed_write_back_leaves_the_old_result_or_the_new_one(tmp_path):
    kills = amount(long=3, short=2)
    figures = run(tmp_path, kills=kills, seed=3)
    assert figures["results"] == kills + 3
    assert figures["reads"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_k3_killed_sites_end_with_the_same_after_large_results(tmp_path):
    """M5: each row and each removal once, and the newer one of a row and a write."""
    figures = run_sites(tmp_path, kills=2, seed=5)
    assert figures["results"] == 4
    assert min(figures["north job/"], figures["south remote"]) > 5_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_m5_one_job_ends_its_result_whatever_happens_to_its_server(tmp_path):
    """M5: it is never begun anew, while its server is killed in each phase of the result."""
    figures = run_often(tmp_path, kills=10, seed=7, rows=6_000, strikes=10)
    kills = {name: count for name, count in figures.items() if name.startswith("killed")}
    assert 10 == sum(kills.values()), kills
    assert kills["killed, upload"] > 1, kills
