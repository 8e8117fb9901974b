"""kill -9 loses no acknowledged write (FEATURES E29, D15); `scripts/kill` does more of it."""

import pytest
from kill_rounds import run

from serving import PATIENCE_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_five_kills_lose_nothing(tmp_path):
    assert run(tmp_path, rounds=5, seed=1) > 0
