"""A short round of `scripts/kill derived`: W4, M5, old or new whole, never a mix."""

import pytest
from kill_derived import ROWS, STAGED_ROWS, run

from serving import PATIENCE_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
@pytest.mark.parametrize("size", [ROWS, STAGED_ROWS], ids=["one batch", "staged"])
def test_w4_a_killed_job_leaves_the_old_result_or_the_new_one(tmp_path, size):
    figures = run(tmp_path, kills=3, seed=3, size=size)
    assert figures["results"] >= 2
    assert all(figures[f"{name} looks"] for name in ("Reader", "Stream", "Session"))
