"""Columns of directories (S7): rows in none get what a directory of theirs would say."""

import random
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pyarrow as pa
import pytest

from rowcast.core.partitions import NONE, Partition, Unit
from rowcast_lake.columns.directories import columns_of
from rowcast_lake.columns.joining import MOMENT
from rowcast_lake.snapshots.partitions import directory_of

KINDS = {"day": pa.date32(), "hour": pa.int32(), "month": pa.string()}
TEXTS = ["Poodle", "", "a/b c", "Ä%=", "x" * 300, "1", None]


def said(partition, value, kind):
    """Return what a reader takes from the name of the directory of a value."""
    parts = [part.split("=", 1) for part in directory_of(partition, value).split("/")]
    texts = {name: None if text == NONE else unquote(text) for name, text in parts}
    return {
        name: pa.scalar(text, pa.string()).cast(KINDS.get(name, kind)).as_py()
        for name, text in texts.items()
    }


@pytest.mark.parametrize("unit", [Unit.DAY, Unit.HOUR, Unit.MONTH])
def test_a_row_has_the_times_of_its_directory(unit):
    """S7: at random, at the edges, before 1970, and none."""
    chance, partition = random.Random(unit), Partition(unit, "at")
    times = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in (-1, 0, 86_399)]
    times += [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC), None]
    times += [times[0] + timedelta(seconds=chance.randrange(-(10**10), 10**10)) for _ in range(50)]
    made = columns_of(partition, pa.array(times, MOMENT))
    assert tuple(made) == partition.columns
    rows = [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]
    for time, row in zip(times, rows, strict=True):
        found = {name: value.as_py() for name, value in row.items()}
        assert found == said(partition, time, None), time


@pytest.mark.parametrize("values", [TEXTS, [1, -5, None], [True, False, None]])
def test_a_row_has_the_value_of_its_directory(values):
    """S7: none where the value is no name."""
    partition, given = Partition(Unit.VALUE, "breed"), pa.array(values)
    (made,) = columns_of(partition, given).values()
    expected = [said(partition, value, given.type)["by_breed"] for value in values]
    assert made.to_pylist() == expected


def test_what_was_no_time_has_none():
    """S11: an attribute that became a Date later."""
    made = columns_of(Partition(Unit.HOUR, "at"), pa.array(["noon", None]))
    assert {name: column.to_pylist() for name, column in made.items()} == {
        "day": [None, None], "hour": [None, None],
    }  # fmt: skip
