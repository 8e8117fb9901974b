"""Faults of a cluster under load (K12, K13, K14); ``scripts/kill cluster`` has many rounds."""

import os
import subprocess
import sys

import pytest
from kill_cluster import CUTS, FAULTS, FILLS, Plan, run
from test_e2e_full_disk import may_mount

from house import ROOT
from networks import Network, may_cut
from postgres_server import running_postgres
from serving import PATIENCE_SECONDS

PACE = 0.04
"""Seconds between two writes of a writer: at full rate, which scripts/kill has, writers take all
that the machine has, and prove the same."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(10 * PATIENCE_SECONDS)]


def check(folder, plan):
    plan.pace = PACE
    work, pairs = run(folder, plan, lambda line: None)
    assert len(work.ledger.acknowledged) > 50
    assert all(pair.arrived > 100 for pair in pairs)


def test_nothing_is_lost_or_doubled_by_the_faults_of_a_cluster(tmp_path):
    check(tmp_path, Plan(3, 12, FAULTS))


def test_nothing_is_lost_or_doubled_by_the_faults_of_a_database(tmp_path):
    with running_postgres() as database:
        check(tmp_path, Plan(1, 5, ("kill engine",), database=database))


def test_nothing_is_lost_or_doubled_when_disks_are_full(tmp_path):
    """Limits (EFBIG), which need no rights: of a node with its NATS server, and of that alone."""
    check(tmp_path, Plan(2, 7, FILLS))


def test_nothing_is_lost_or_doubled_when_the_disk_of_the_database_is_full(tmp_path):
    with running_postgres() as database:
        check(tmp_path, Plan(1, 5, FILLS[-1:], database=database))


def test_nothing_is_lost_or_doubled_when_file_systems_are_full(tmp_path):
    """ENOSPC, in a program of its own, which alone sees the mounts."""
    if not may_mount():
        pytest.skip("this user may not mount a file system")
    program = [sys.executable, ROOT / "tests/e2e/kill_cluster.py", "2", "--seed", "8"]
    options = ["--only", "fill", "--disks", "mounts", "--pace", str(PACE)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [*program, *options], capture_output=True, check=False, text=True, env=env
    )
    assert "nothing is lost" in ended.stdout, ended.stderr


def test_nothing_is_lost_or_doubled_when_links_are_cut(tmp_path):
    """The sequencer: then a minority, which refuses writes, and follows later."""
    if not may_cut():
        pytest.skip("this user may not make networks (ip netns)")
    with Network(3) as network:
        check(tmp_path, Plan(1, 1, CUTS[:1], network=network))
