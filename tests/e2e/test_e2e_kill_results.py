"""A short round of `scripts/kill results`: M5, old or new whole, never a mix."""

import pytest
from kill_results import run
from kill_results_sites import run as run_sites


@pytest.mark.timeout(300)
def test_m5_a_killed_write_back_leaves_the_old_result_or_the_new_one(tmp_path):
    figures = run(tmp_path, kills=3, seed=3)
    assert figures["results"] == 6
    assert figures["reads"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_k3_killed_sites_end_with_the_same_after_large_results(tmp_path):
    """M5: each row and each removal once, and the newer one of a row and a write."""
    figures = run_sites(tmp_path, kills=2, seed=5)
    assert figures["results"] == 4
    assert min(figures["north job/"], figures["south remote"]) > 5_000
