"""The order of tests in several processes."""

import pytest

from house import ROOT
from turns import LONG, long_ones_first


@pytest.mark.parametrize("processes", [1, 2, 3, 6, 50])
@pytest.mark.parametrize("count", [0, 1, 7, 100])
@pytest.mark.parametrize("every", [1, 3, 10, 1000])
def test_each_test_has_one_turn(count, every, processes):
    ordered = long_ones_first(range(count), lambda item: item % every == 0, processes)
    assert [*range(count)] == sorted(ordered)


def test_each_process_begins_with_its_share_of_the_long_ones():
    ordered = long_ones_first(range(60), lambda item: 50 <= item < 56, 3)
    assert [[50, 53], [51, 54], [52, 55]] == [ordered[at : at + 2] for at in (0, 20, 40)]
    assert [*range(18)] == ordered[2:20], "others stay beside those that they share a server with"


def test_one_process_has_them_at_its_beginning():
    assert [3, 0, 1, 2, 4] == long_ones_first(range(5), lambda item: item == 3, 1)


def test_the_long_ones_are_there():
    assert LONG <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}
