"""Exports that are killed (S2, S3); `scripts/kill export` does more of them."""

import pytest
from kill_export import run

from serving import PATIENCE_SECONDS

PACE = 0.3
"""Seconds between two windows of moves; ``scripts/kill export`` has writers at full rate."""


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_killed_exports_leave_the_newest_snapshot_whole(tmp_path):
    """S2, S3, S6, M2: under writers, and a reader that never stops."""
    killed, reads = run(tmp_path, exports=4, kills=2, rows=5_000, seed=3, pace=PACE)
    assert killed > 0
    assert reads > 0
