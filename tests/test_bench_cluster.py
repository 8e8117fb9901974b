"""The benchmark of clusters: its table, and that each phase runs. No time is asserted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.case import Target
from bench.cluster.cli import PHASES, Compared, Plan, lines, measure
from bench.proc import Placement
from serving import PATIENCE_SECONDS

SMALLEST = Plan(rounds=1, seconds=0.5, readers=3, samples=5, place=Placement())
SAYS = {
    "lag": ["at the sequencer", "at a follower", "p50", "p99"],
    "workers-tls": ["connects/s", "one process", "2 workers", "goal 1.5x"],
}
"""One phase with nodes and one with workers, each a dozen processes, and what its table says."""


def figures(rate):
    return {"rate": rate, "generator_share": 0.25}


def test_cases_take_turns_and_each_begins_once():
    order = []

    def run(name):
        order.append(name)
        return figures(float(len(order)))

    found = measure({name: lambda name=name: run(name) for name in "abc"}, 3)
    assert "".join(order) == "abcbcacab"
    assert [one["rate"] for one in found["a"]] == [1.0, 6.0, 8.0]


@pytest.mark.parametrize(("rate", "says"), [(40.0, "0.40x of base (goal 0.5x: NO)"),
                                            (50.0, "0.50x of base (goal 0.5x: yes)")])  # fmt: skip
def test_a_line_tells_ratio_goal_and_the_share_of_the_generator(rate, says):
    found = {"base": [figures(100.0)] * 3, "other": [figures(rate)] * 3}
    title, base, other = lines(
        "title", "unit/s", found, {"other": Compared("base", Target(at_least=0.5))}
    )
    assert title == "title (unit/s)"
    assert "x of" not in base
    assert "generator  25% of a core" in other
    assert other.endswith(says)


@pytest.mark.slow
@pytest.mark.timeout(5 * PATIENCE_SECONDS)
@pytest.mark.parametrize("phase", SAYS)
def test_a_phase_runs_and_prints(tmp_path, phase):
    """With real servers, in its smallest form."""
    told = "\n".join(PHASES[phase](SMALLEST, tmp_path / phase))
    for words in SAYS[phase]:
        assert words in told, told
