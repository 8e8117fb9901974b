"""kill -9 under retained publishes and wildcard reads (E3, E21, E29); `scripts/kill retained`."""

import pytest
from kill_retained import Ledger, run

from serving import PATIENCE_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_e29_three_kills_lose_no_retained_message_and_bring_none_back(tmp_path):
    assert run(tmp_path, rounds=3, seed=1) > 0


@pytest.mark.parametrize("found", [{}, {"a": b"1"}, {"a": b"9"}, {"a": b"2", "b": b"1"}])
def test_a_fault_is_noticed(found):
    """Lost, older than what was acknowledged, invented, at a topic that nobody wrote to."""
    ledger = Ledger()
    ledger.send("a", b"1")
    ledger.acknowledge("a", ledger.send("a", b"2"))
    ledger.send("a", b"3")
    ledger.check({"a": b"2"})
    ledger.acknowledge("a", ledger.send("a", b"2"))
    with pytest.raises(AssertionError):
        ledger.check(found)
