"""Which files a condition about a Date leaves of a table that is divided by it (S7)."""

import math
import operator
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from exported import Exported

pytest.importorskip("pyspark", reason="NO SPARK: pruning is NOT tested here")

from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType

from rowcast_lake.spark.filters import expression_of
from rowcast_lake.spark.places import Directory
from rowcast_lake.spark.source import FilteredReader, Snapshot

UNITS = {
    "hour": lambda time: time.replace(minute=0, second=0, microsecond=0),
    "day": lambda time: time.replace(hour=0, minute=0, second=0, microsecond=0),
    "month": lambda time: time.replace(day=1, hour=0, minute=0, second=0, microsecond=0),
}
SCHEMA = "\n".join(
    f'type {unit.title()} @table(partition: "{unit}(at)") @export '
    "{ id: ID @primaryKey, at: Date }"
    for unit in UNITS
)
COMPARED = {
    spark.EqualTo: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
}
BEGIN = datetime(2025, 12, 30, tzinfo=UTC)
AT = ("at",)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    chance, made = random.Random(3), Exported(tmp_path_factory.mktemp("dates"), SCHEMA)
    for unit in UNITS:
        for number in range(40):
            at = BEGIN + timedelta(seconds=chance.randrange(40 * 86_400))
            made.put(unit.title(), str(number), {"at": at if number % 7 else None})
        made.put(unit.title(), "first", {"at": BEGIN})
    made.export()
    yield made
    made.close()


def left(world, unit, *filters):
    """Return the files that a read with these filters opens, and all, with the times in them."""
    snapshot = Snapshot.of(Directory(str(world.directory)), "newest", unit.title())
    reader = FilteredReader(snapshot, StructType(), 1)
    assert [*filters] == list(reader.pushFilters([*filters]))
    opened = {piece.path for part in reader.partitions() for piece in part.pieces}
    return opened, times_of(world.directory / "newest", unit.title())


@cache
def times_of(place, table):
    """Return the times in each file of a table."""
    return {
        str(path.relative_to(place)): pq.ParquetFile(path).read(["at"]).column("at").to_pylist()
        for path in (place / table).rglob("*.parquet")
    }


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_a_condition_about_a_date_leaves_the_files_that_may_have_it(world, unit):
    """S7: at random and at the edges; each file with a row for it, and only its partitions."""
    chance, floor = random.Random(unit), UNITS[unit]
    edges = [floor(BEGIN + timedelta(days=day)) for day in range(0, 40, 13)]
    edges += [edge - timedelta(microseconds=1) for edge in edges]
    fewer = 0
    for time in [*edges, *(BEGIN + timedelta(hours=chance.randrange(960)) for _ in range(6))]:
        for kind, holds in COMPARED.items():
            opened, every = left(world, unit, kind(AT, time))
            for path, times in every.items():
                if any(at is not None and holds(at, time) for at in times):
                    assert path in opened, (path, kind, time)
                if times[0] is None or (kind is spark.EqualTo and floor(times[0]) != floor(time)):
                    assert path not in opened, (path, kind, time)
            fewer += len(opened) < len(every) // 2
    assert fewer > 5


def test_conditions_are_joined_and_what_is_no_comparison_excludes_nothing(world):
    """S7: a range, a list of times, nulls; a text, a time without a zone, and a negation."""
    day = datetime(2026, 1, 10, tzinfo=UTC)
    within = spark.GreaterThanOrEqual(AT, day), spark.LessThan(AT, day + timedelta(days=1))
    opened, every = left(world, "hour", *within)
    assert opened
    assert {"Hour/day=2026-01-10"} == {path.rsplit("/", 2)[0] for path in opened}
    (first,) = left(world, "hour", spark.In(AT, (None, BEGIN)))[0]
    assert first.startswith("Hour/day=2025-12-30/hour=0/")
    (absent,) = left(world, "day", spark.IsNull(AT))[0]
    assert "__HIVE_DEFAULT_PARTITION__" in absent
    opened, every = left(world, "day", spark.IsNotNull(AT))
    assert every.keys() - {absent} == opened
    naive = day.replace(tzinfo=None)
    for item in (spark.Not(within[0]), spark.EqualTo(("id",), "1")):
        opened, every = left(world, "day", item)
        assert every.keys() == opened
    opened, every = left(world, "day", spark.LessThan(AT, naive))
    assert every.keys() - {absent} == opened


def _order(number):
    return math.isnan(number), 0 if math.isnan(number) else number


@pytest.mark.parametrize("kind", COMPARED)
@pytest.mark.parametrize("value", [-math.inf, 0.5, 2.0, math.inf, math.nan])
def test_a_comparison_leaves_what_spark_takes_nan_for(tmp_path, kind, value):
    """S7: equal to itself and greater than any other number, also alone in a row group."""
    numbers = [1.0, 2.0, math.nan, math.inf, math.nan, math.nan, -1.0, None]
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"f": pa.array(numbers, pa.float64())}), path, row_group_size=2)
    wanted = expression_of([kind(("f",), value)], ["f"])
    found = ds.dataset(path).to_table(filter=wanted).column("f").to_pylist()
    holds = [x for x in numbers if x is not None and COMPARED[kind](_order(x), _order(value))]
    assert Counter(map(str, holds)) <= Counter(map(str, found))
    assert len(found) == (len(numbers) if wanted is None else len(holds))
    assert (wanted is None) == (math.isnan(value) or kind.__name__.startswith("Greater"))
