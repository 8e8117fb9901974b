"""Which cases a short run takes of the tests that are repeated with many seeds."""

import pytest

from amounts import SEEDS, few_seeds, spread


@pytest.mark.parametrize("most", [1, 2, 5, 100])
@pytest.mark.parametrize("count", [0, 1, 4, 99])
def test_what_is_spread_is_a_part_in_the_same_order(count, most):
    part = spread(range(count), most)
    assert len(part) == min(count, most)
    assert part == sorted(set(part))


def test_one_group_has_as_many_seeds_as_are_taken():
    assert spread(range(20), SEEDS) == few_seeds(range(20), [""] * 20)


def test_every_value_of_the_other_parameters_stays():
    cases = [(seed, name) for seed in range(10) for name in "abcdefgh"]
    taken = few_seeds(cases, [name for _, name in cases])
    assert {name for _, name in taken} == set("abcdefgh")
    assert len(taken) == 8, "one of each, where there are more of them than seeds"
    assert len({seed for seed, _ in taken}) == 8, "with other seeds"


def test_a_test_without_many_seeds_keeps_them():
    assert few_seeds([1, 2], ["", ""]) == [1, 2]
    assert few_seeds([], []) == []
