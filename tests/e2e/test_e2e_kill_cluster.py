"""Faults of a cluster under load: a few rounds; ``scripts/kill cluster`` has many (K12, K14)."""

import pytest
from kill_cluster import run

from serving import PATIENCE_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_nothing_is_lost_or_doubled_by_the_faults_of_a_cluster(tmp_path):
    work, pairs = run(tmp_path, 3, 12, lambda line: None)
    assert len(work.ledger.acknowledged) > 50
    assert all(pair.arrived > 100 for pair in pairs)
