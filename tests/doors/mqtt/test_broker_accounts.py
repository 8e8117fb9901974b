"""What was sent = what came + what is told missing, for every subscription (M4)."""

import pytest
from accounting import Yard

from rowcast.core.limits import GAP_MARKS_TOGETHER_MAX

SEEDS = range(8)
MORE_SEEDS = [pytest.param(seed, 5_000, marks=pytest.mark.slow) for seed in range(100, 102)]


@pytest.mark.heavy
@pytest.mark.interpreted
@pytest.mark.parametrize(("seed", "messages"), [*((seed, 1_500) for seed in SEEDS), *MORE_SEEDS])
async def test_what_was_sent_came_or_is_told_missing(seed, messages):
    """M4: exactly, with stopped, slow and flapping readers of every kind."""
    yard = Yard(seed)
    await yard.run(messages)
    assert [] == [str(ledger) for ledger in yard.checked() if not ledger.adds_up()]
    assert yard.deepest <= 2 * (50 + GAP_MARKS_TOGETHER_MAX)
    await yard.close()
