"""Plain Spark reads snapshots without anything of ours (S4, S5, S7, S11)."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812

from exported import Exported

OLD = """
type Point @sealed { x: Float!, y: Float! }
type Dog @table @export {
  id: ID! @primaryKey, name: String, age: Int, chip: Long, weight: Float, price: Decimal,
  cost: Decimal @decimal(precision: 12, scale: 2), good: Boolean, born: Date, photo: Bytes,
  any: Any, at: Point, nums: [Int], secret: String @hidden
}
type Log @table(partition: "day(at)") @export @sealed { id: ID @primaryKey, at: Date, n: Int }
type Hour @table(partition: "hour(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Month @table(partition: "month(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Breed @table(partition: "breed") @export @sealed { id: ID @primaryKey, breed: String }
type Age @table(partition: "age") @export @sealed { id: ID @primaryKey, age: Long }
"""
BREEDS = ["01", "a/b", "a b", "é", "x=y", "100%", "%2F", "日本", None, "", "x" * 300]
NEW = OLD.replace("name: String,", "name: String, size: Float,")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOURS = {"a": NOON, "b": NOON.replace(hour=7), "c": NOON.replace(month=3), "d": None}
TYPES = {
    "id": "string", "name": "string", "age": "int", "chip": "bigint", "weight": "double",
    "price": "string", "cost": "decimal(12,2)", "good": "boolean", "born": "timestamp",
    "photo": "binary", "any": "string", "at": "struct<x:double,y:double>", "nums": "array<int>",
    "_extra": "string", "_topic": "string", "_seq": "bigint", "_ts": "timestamp",
    "_op": "string", "_origin": "string", "_client": "string",
}  # fmt: skip
REX = {
    "name": "Rex", "age": 3, "cost": Decimal("1.5"), "born": NOON, "photo": b"\0",
    "at": {"x": 1.0, "y": 2.0}, "nums": [1, None], "colour": "red", "weight": float("nan"),
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two snapshots, an attribute apart."""
    world = Exported(tmp_path_factory.mktemp("data"), OLD)
    try:
        world.put("Dog", "1", REX)
        for day in range(1, 5):
            world.put("Log", f"l{day}", {"at": NOON.replace(day=day), "n": day})
        for key, at in HOURS.items():
            world.put("Hour", key, {"at": at})
            world.put("Month", key, {"at": at})
        for number, breed in enumerate(BREEDS):
            world.put("Breed", f"b{number:02d}", {"breed": breed})
            world.put("Age", f"a{number:02d}", {"age": number})
        world.put(None, "home/x", payload=b"\xff")
        first = world.export().place
        world.open(NEW)
        world.put("Dog", "2", {"name": "Mo", "size": 2.5})
        return first, world.export().place
    finally:
        world.close()


@pytest.mark.slow
def test_spark_shows_the_declared_types_and_values(spark, places):
    """S4, S5: from the path alone; what begins with an underscore too."""
    read = spark.read.parquet(f"{places[0]}/Dog")
    assert dict(read.dtypes) == TYPES
    (row,) = read.collect()
    assert (row.name, row.age, row.cost, bytes(row.photo)) == ("Rex", 3, Decimal("1.50"), b"\0")
    assert (row["at"].x, row.nums, row._extra) == (1.0, [1, None], '{"colour":"red"}')
    assert read.where("born = timestamp'2026-01-02 12:00:00' AND isnan(weight)").count() == 1
    (kept,) = spark.read.parquet(f"{places[0]}/_retained").collect()
    assert (kept.topic, bytes(kept.payload)) == ("home/x", b"\xff")


@pytest.mark.slow
def test_spark_reads_only_the_days_it_needs(spark, places):
    """S7: the day is a column of dates, and others are not looked at."""
    read = spark.read.parquet(f"{places[0]}/Log")
    assert dict(read.dtypes)["day"] == "date"
    asked = read.where("day >= date'2026-01-03'")
    assert sorted(row.n for row in asked.collect()) == [3, 4]
    assert len(asked.inputFiles()) == 4
    plan = asked._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(day" in plan


def reads(spark, place, table):
    """The readers of a table: of Parquet files, and ours with the conditions it is given."""
    ours = spark.read.format("rowcast").options(table=table, pushdown="true", minPartitions=99)
    return spark.read.parquet(f"{place}/{table}"), ours.load(str(place.parent))


@pytest.mark.slow
def test_spark_sees_hours_and_months(spark, places):
    """S7: with the same types by either way; rows without a time have none."""
    for read in reads(spark, places[1], "Hour"):
        assert [dict(read.dtypes)[name] for name in ("day", "hour")] == ["date", "int"]
        rows = {row.id: (row.day, row.hour) for row in read.collect()}
        assert rows == {key: (at and at.date(), at and at.hour) for key, at in HOURS.items()}
        early = read.where("day = date'2026-01-02' AND hour < 9")
        assert [row.id for row in early.collect()] == ["b"]
        by_time = read.where("at < timestamp'2026-01-02 08:00:00 UTC'")
        assert [row.id for row in by_time.collect()] == ["b"]
    assert [early.rdd.getNumPartitions(), by_time.rdd.getNumPartitions()] == [1, 1]
    for read in reads(spark, places[1], "Month"):
        rows = {row.id: row.month for row in read.collect()}
        assert rows == {key: at and f"{at:%Y-%m}" for key, at in HOURS.items()}
        assert [row.id for row in read.where("month = '2026-03'").collect()] == ["c"]


@pytest.mark.slow
def test_spark_sees_values_as_they_are(spark, places):
    """S7: a condition about a value excludes the files of others, and no row that has it."""
    blank = {None, "", "x" * 300}
    for read in reads(spark, places[1], "Breed"):
        rows = {row.id: (row.breed, row.by_breed) for row in read.collect()}
        expected = {f"b{number:02d}": breed for number, breed in enumerate(BREEDS)}
        assert {key: breed for key, (breed, _) in rows.items()} == expected
        assert all(by == (None if breed in blank else breed) for breed, by in rows.values())
        for breed in BREEDS:
            asked = read.where(F.col("breed").eqNullSafe(breed))
            assert [row.breed for row in asked.collect()] == [breed]
    assert read.where("breed = 'a/b'").rdd.getNumPartitions() == 2  # and those without a name
    for read in reads(spark, places[1], "Age"):
        assert dict(read.dtypes)["age"] == "bigint"
        assert sorted(row.age for row in read.where("age > 8").collect()) == [9, 10]
    assert read.where("age > 8").rdd.getNumPartitions() == 2


@pytest.mark.slow
def test_spark_reads_two_schemas_together(spark, places):
    """S11: an attribute that came later is null before."""
    both = spark.read.option("mergeSchema", True).parquet(*(f"{place}/Dog" for place in places))
    rows = sorted((row.id, row.size) for row in both.collect() if row.size or row.id == "1")
    assert rows == [("1", None), ("1", None), ("2", 2.5)]
