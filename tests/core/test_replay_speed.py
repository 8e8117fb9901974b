"""The speed of a replay: a number or text, within bounds (M6)."""

import pytest

from rowcast.core.errors import Error
from rowcast.core.replays import speed_of


@pytest.mark.parametrize(
    ("value", "speed"), [(0, 0), (1, 1), ("10x", 10), (" 0.5 ", 0.5), (1e3, 1e3)]
)
def test_m6_a_speed_is_a_number_or_text(value, speed):
    assert speed_of(value) == speed


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), "1e400", "nan", -1, True, None, [1], "x", 0.05]
)
def test_m6_other_speeds_are_refused(value):
    with pytest.raises(Error, match="speed is a number from"):
        speed_of(value)
