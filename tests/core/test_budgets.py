"""The budget: what is let through at once, the rate after that, and what is given back (L11)."""

from rowcast.core.budgets import Budget


def test_so_many_at_once_and_then_at_a_rate():
    budget = Budget(2, 10, now=0)
    for _ in range(2):
        assert 0 == budget.wait(0)
        budget.take(0)
    assert [5, 2.5, 0] == [budget.wait(now) for now in (0, 2.5, 5)]


def test_what_is_given_back_was_never_taken():
    budget = Budget(1, 10, now=0)
    budget.take(0)
    budget.give_back()
    budget.give_back()
    assert 0 == budget.wait(0)
    budget.take(0)
    assert 10 == budget.wait(0)


def test_debt_is_bounded():
    budget = Budget(1, 1, now=0)
    for _ in range(9):
        budget.take(0, debt=2)
    assert 3 == budget.wait(0)


def test_a_clock_that_goes_back_gives_nothing():
    budget = Budget(1, 1, now=10)
    budget.take(10)
    assert [1, 1] == [budget.wait(5), budget.wait(5)]
