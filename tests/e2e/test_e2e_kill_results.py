"""A short round of `scripts/kill results`: M5, old or new whole, never a mix."""

import pytest
from kill_results import run


@pytest.mark.timeout(300)
def test_m5_a_killed_write_back_leaves_the_old_result_or_the_new_one(tmp_path):
    figures = run(tmp_path, kills=4, seed=3)
    assert figures["results"] == 7
    assert figures["reads"] > 0
