"""Series: numbers by stretches of time (B13, F27)."""

import random
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from statistics import fmean

import pytest

from build import Code, code_of
from rowcast.core.clock import version_of
from rowcast.features.history.series import FUNCTIONS, Series

HOUR = 3_600_000


def rows(values, every=HOUR, functions=tuple(FUNCTIONS), paths=None, **bounds):
    """Return the rows of (milliseconds, topic, value)."""
    series = Series(every, functions, paths, **bounds)
    for milliseconds, topic, value in values:
        series.add(topic, version_of(milliseconds), value)
    return list(series.rows())


@pytest.mark.parametrize("seed", range(20))
def test_b13_buckets_are_those_of_the_model(seed):
    """B13: aligned to UTC, each number in one of them, whatever the order of events."""
    chance = random.Random(seed)
    every = chance.choice([1_000, 60_000, HOUR, 86_400_000])
    values = [
        (chance.randrange(10**12, 10**12 + 50 * every), chance.choice("ab"), chance.randrange(99))
        for _ in range(chance.choice([1, 20, 200]))
    ]
    model = defaultdict(list)
    for milliseconds, topic, number in values:
        model[milliseconds // every * every, topic].append(number)
    found = rows([(at, topic, {"n": number}) for at, topic, number in values], every)
    assert [key[1] for key in sorted(model)] == [row["topic"] for row in found]
    for (start, _), row in zip(sorted(model), found, strict=True):
        numbers = model[start, row["topic"]]
        assert datetime.fromtimestamp(start / 1000, UTC) == datetime.fromisoformat(row["from"])
        assert (
            every
            == (
                datetime.fromisoformat(row["to"]) - datetime.fromisoformat(row["from"])
            ).total_seconds()
            * 1000
        )
        told = row["values"]["n"]
        assert len(numbers) == row["events"] == told["count"]
        assert pytest.approx(fmean(numbers)) == told["avg"]
        expected = (max(numbers), min(numbers), sum(numbers), numbers[0], numbers[-1])
        assert expected == tuple(told[name] for name in ("max", "min", "sum", "first", "last"))


def test_weeks_begin_on_monday():
    (row,) = rows([(1_767_323_045_000, "a", 1)], 7 * 86_400_000)
    assert "2025-12-29T00:00:00.000Z" == row["from"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, {"value": 5}),
        ("17", {"value": 17}),
        (" -2.5e1 ", {"value": -25.0}),
        ("seventeen", {}),
        ("1_000", {}),
        ("9" * 81, {}),
        (True, {}),
        (None, {}),
        (b"7", {}),
        (float("nan"), {}),
        (float("inf"), {}),
        ([1, 2], {}),
        ({"a": 1, "b": "2", "c": True, "d": None, "e": {"f": 2}}, {"a": 1}),
        ({"a": Decimal("1.25")}, {"a": 1.25}),
        ({"a": 2**70}, {"a": float(2**70)}),
    ],
    ids=repr,
)
def test_f27_what_is_a_number_is_counted(value, found):
    """F27: attributes that are numbers, and plain text that is one, as metrics are published."""
    (row,) = rows([(0, "a", value)], functions=("last",))
    assert found == {name: told["last"] for name, told in row["values"].items()}
    assert 1 == row["events"]


def test_chosen_attributes_may_be_within_others():
    value = {"a": 1, "b": 2, "c": {"d": 3}}
    (row,) = rows([(0, "a", value)], functions=("max",), paths=[("b",), ("c", "d"), ("x", "y")])
    assert {"b": {"max": 2}, "c.d": {"max": 3}} == row["values"]
    (row,) = rows([(0, "a", "4")], functions=("max",), paths=[("value",)])
    assert {"value": {"max": 4}} == row["values"]


def test_kinds_of_numbers_mix():
    (row,) = rows([(0, "a", v) for v in (1, 2.5, Decimal("0.5"), 4)], functions=("sum", "avg"))
    assert {"sum": 8.0, "avg": 2.0} == row["values"]["value"]


def test_buckets_have_an_end():
    assert 3 == len(rows([(n * HOUR, "a", n) for n in range(3)], buckets_max=6))
    for values in (
        [(n * HOUR, "a", n) for n in range(4)],
        [(0, "a", {str(n): n for n in range(9)})],
    ):
        assert Code.INVALID == code_of(rows, values, buckets_max=6)
