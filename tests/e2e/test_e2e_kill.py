"""kill -9 loses no acknowledged write (E29, D15); `scripts/kill` does more of it."""

import pytest
from kill_rounds import (
    History,
    Ledger,
    Logged,
    Write,
    check_acknowledged,
    check_order,
    check_sent,
    check_together,
    run,
)

from serving import PATIENCE_SECONDS

ONE = Logged(5, "a", "put", 1)


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_five_kills_lose_nothing(tmp_path):
    assert run(tmp_path, rounds=5, seed=1) > 0


@pytest.mark.parametrize(
    "fault",
    [
        lambda: check_acknowledged(Write("a", 1), "e:6", {5: ONE}, {1}),
        lambda: check_acknowledged(Write("a", 2), "e:5", {5: ONE}, {1}),
        lambda: check_acknowledged(Write("a", 2), "", {5: ONE}, {1}),
        lambda: check_order([ONE], History("e:5")),
        lambda: check_order([ONE, Logged(6, "a", "put", 1)], History("e:1")),
        lambda: check_sent([ONE], Ledger()),
        lambda: check_together([ONE], Ledger({Write("a", 1, 9), Write("b", 2, 9)})),
    ],
    ids=["lost", "replaced", "lost, unnumbered", "reused", "doubled", "invented", "half"],
)
def test_a_fault_is_noticed(fault):
    with pytest.raises(AssertionError):
        fault()
