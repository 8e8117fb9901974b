"""Partitions of a table's files by hour, month and value, as each engine sees them (S7)."""

import json
import random
import shutil
from datetime import UTC, date, datetime, timedelta

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from exported import Exported
from http_clients import http_client
from rowcast.core.errors import Code, Error
from rowcast.core.partitions import NONE, Partition, Unit
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.delta_stats import stats_of
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.partitions import PartBounds, directory_of
from rowcast_lake.snapshots.reading import rows_of
from rowcast_lake.snapshots.verify import verify
from rowcast_lake.spark.remote import path_of
from serving import application

SCHEMA = """
type Hourly @table(partition: "hour(at)") @export { id: ID @primaryKey, at: Date }
type Monthly @table(partition: "month(at)") @export { id: ID @primaryKey, at: Date }
type Dog @table(partition: "breed") @export { id: ID @primaryKey, breed: String, good: Boolean }
type Good @table(partition: "good") @export { id: ID @primaryKey, good: Boolean }
type Age @table(partition: "age") @export { id: ID @primaryKey, age: Long }
"""
ODD = ["01", "1", "a/b", "a b", "é ü", "x=y", "100%", "?#&+;", "..", 'q"\'\\', "{}[]^|<>*:", "\t",
       "日本", "%2F", "true", "2026-01-02"]  # fmt: skip
BLANK = [None, "", "x" * 300]


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    yield made
    made.close()


def folders(facts):
    return {item.path.split("/", 1)[1].rpartition("/")[0] for item in facts.files}


@pytest.mark.heavy
def test_times_are_parted_by_hour_and_month(world):
    """S7: as DuckDB, Polars and pyarrow see them: the day is a date, the hour a number."""
    chance, rows = random.Random(11), {}
    for number in range(150):
        at = datetime(2025, 12, 30, tzinfo=UTC) + timedelta(minutes=chance.randrange(6_000))
        rows[f"r{number * 37 % 150:03d}"] = chance.choice([None, at, at])
    for key, at in rows.items():
        world.put("Hourly", key, {"at": at})
        world.put("Monthly", key, {"at": at})
    place = world.export(parting=PartBounds(16, 40, 2)).place
    verify(place, merge_rows=8)
    tables = read_manifest(place).tables
    assert (tables["Hourly"].partition, tables["Monthly"].partition) == ("day/hour", "month")
    months = {f"month={at:%Y-%m}" if at else f"month={NONE}" for at in rows.values()}
    assert folders(tables["Monthly"]) == months
    expected = {key: (at, at and at.date(), at and at.hour) for key, at in rows.items()}
    seen = duckdb.sql(
        f"SELECT id, \"at\", day, hour FROM read_parquet('{place}/Hourly/**/*.parquet', "
        "hive_partitioning=true)"
    ).to_arrow_table()
    assert found(seen, "at", "day", "hour") == expected
    frame = pl.scan_parquet(f"{place}/Hourly", hive_partitioning=True, try_parse_hive_dates=True)
    assert found(frame.collect().to_arrow(), "at", "day", "hour") == expected
    some = ds.dataset(f"{place}/Hourly", partitioning="hive").to_table()
    texts = {key: (at, at and str(day), hour) for key, (at, day, hour) in expected.items()}
    assert found(some, "at", "day", "hour") == texts


def found(table, *names):
    return {row["id"]: tuple(row[name] for name in names) for row in table.to_pylist()}


def odd_dogs(world):
    dogs = {f"d{at:02d}": breed for at, breed in enumerate([*ODD, *BLANK, *ODD])}
    for key, breed in dogs.items():
        world.put("Dog", key, {"breed": breed, "good": True})
    return dogs


def test_values_are_parted_and_none_is_changed(world):
    """S7: whatever they are, each engine has the value of the file, and the directory's as text."""
    dogs = odd_dogs(world)
    place = world.export("Dog").place
    facts = verify(place).tables["Dog"]
    assert facts.partition == "by_breed"
    assert len(facts.files) == len(ODD) + 1
    home = f"{place}/Dog"
    plain = duckdb.sql(
        f"SELECT id, breed, by_breed FROM read_parquet('{home}/**/*.parquet', "
        "hive_partitioning=true, hive_types_autocast=false)"
    ).to_arrow_table()
    frame = pl.scan_parquet(home, hive_partitioning=True, hive_schema={"by_breed": pl.String})
    some = ds.dataset(home, partitioning=ds.partitioning(flavor="hive")).to_table()
    for seen in (plain, frame.collect().to_arrow(), some):
        assert {key: row[0] for key, row in found(seen, "breed").items()} == dogs
        for breed, by in found(seen, "breed", "by_breed").values():
            assert by == (None if breed in BLANK else breed)
    rows = [row for batch in rows_of(place, facts, merge_files=4) for row in batch.to_pylist()]
    assert [(row["id"], row["breed"]) for row in rows] == sorted(dogs.items())
    for item in facts.files:
        breeds = set(pq.ParquetFile(place / item.path).read()["breed"].to_pylist())
        assert len(breeds) == 1 or breeds == set(BLANK)


def test_numbers_and_truths_are_parted(world):
    """S7: Long and Boolean."""
    for key, age in (("a", -5), ("b", 2**60), ("c", None)):
        world.put("Age", key, {"age": age})
        world.put("Good", key, {"good": None if age is None else age > 0})
    tables = verify(world.export().place).tables
    assert folders(tables["Age"]) == {"by_age=-5", f"by_age={2**60}", f"by_age={NONE}"}
    assert folders(tables["Good"]) == {"by_good=false", "by_good=true", f"by_good={NONE}"}


@pytest.mark.heavy
def test_open_tables_have_the_rows_of_odd_directories(world):
    """S7, S20: their metadata names files whose paths have escapes."""
    dogs = odd_dogs(world)
    made = world.export("Dog", catalogs=("delta", "iceberg"))
    told = Catalogs.there(world.directory).addresses("Dog", made.manifest)
    delta = DeltaTable(told["delta"]).to_pyarrow_table()
    polars = pl.scan_delta(told["delta"]).collect().to_arrow()
    iceberg = StaticTable.from_metadata(told["iceberg"]).scan().to_arrow()
    for seen in (delta, polars, iceberg):
        assert {key: row[0] for key, row in found(seen, "breed").items()} == dogs


@pytest.mark.slow
def test_open_tables_tell_which_files_a_condition_needs(world):
    """S7, S20: their metadata has the bounds of each file, so engines open no other partition."""
    chance, first = random.Random(5), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(60):
        at = first + timedelta(days=number % 5, microseconds=chance.randrange(86_400_000_000))
        world.put("Hourly", f"r{number:02d}", {"at": at if number else None})
    made = world.export("Hourly", catalogs=("delta", "iceberg"))
    told = Catalogs.there(world.directory).addresses("Hourly", made.manifest)
    files = DeltaTable(told["delta"]).to_pyarrow_dataset()
    iceberg = StaticTable.from_metadata(told["iceberg"])
    times = {
        item.path: pq.ParquetFile(made.place / item.path).read()["at"].to_pylist()
        for item in made.manifest.tables["Hourly"].files
    }
    for day in range(-1, 6):
        since = first + timedelta(days=day)
        having = [path for path, at in times.items() if at[0] is not None and max(at) >= since]
        opened = [*files.get_fragments(filter=ds.field("at") >= since)]
        assert len(having) == len(opened)
        planned = iceberg.scan(row_filter=f"at >= '{since.isoformat()}'").plan_files()
        assert len(having) == len([*planned])
        counted = pl.scan_delta(told["delta"]).filter(pl.col("at") >= since).collect().height
        assert sum(len(times[path]) for path in having) == counted


def test_statistics_are_exact_or_absent(tmp_path):
    """S20: least and greatest values, nulls; no floats, whose NaN they lack, and no long text."""
    place = tmp_path / "a.parquet"
    at = datetime(2026, 1, 1, 5, 6, 7, 891234, tzinfo=UTC)
    columns = {
        "n": [3, None, -1], "x": [1.5, float("nan"), 2.0], "text": ["b", "ä", None],
        "long": ["a", "b", "c" * 65], "none": pa.array([None] * 3, pa.string()),
        "at": pa.array([at, at, None], pa.timestamp("us", "UTC")), "raw": [b"\xff", b"", b"a"],
        "good": [True, False, None], "inner": [{"n": 1}] * 3,
    }  # fmt: skip
    pq.write_table(pa.table(columns), place, row_group_size=2)
    assert json.loads(stats_of(place, 3)) == {
        "numRecords": 3,
        "minValues": {"n": -1, "text": "b", "at": "2026-01-01T05:06:07.891234Z"},
        "maxValues": {"n": 3, "text": "ä", "at": "2026-01-01T05:06:07.891234Z"},
        "nullCount": {"n": 1, "text": 1, "long": 0, "none": 3, "at": 1},
    }


@pytest.mark.heavy
async def test_files_of_odd_directories_are_served(world, tmp_path):
    """S1, S7: an escape of a path is escaped again in a URL, as Spark's format does."""
    odd_dogs(world)
    made = world.export("Dog")
    place = tmp_path / "server"
    shutil.copytree(world.directory, place / "data/snapshots", symlinks=True)
    async with application(place) as served:
        base = f"http://127.0.0.1:{served.http_port}"
        async with http_client(base_url=base) as client:
            for item in made.manifest.tables["Dog"].files:
                got = await client.get(path_of("$SYS/snapshots/newest", item.path))
                assert (got.status_code, len(got.content)) == (200, item.bytes), item.path


def test_too_many_partitions_are_told(world):
    """S7: with what to do; nothing is left of the export."""
    for number in range(5):
        world.put("Age", str(number), {"age": number})
    with pytest.raises(Error, match=r"Age has more than 4 partitions; .* fewer values") as error:
        world.export("Age", parting=PartBounds(partitions=4))
    assert error.value.code is Code.TOO_LARGE
    assert world.export("Age", parting=PartBounds(partitions=5)).manifest.rows == 5


def test_a_directory_has_a_name_that_a_disk_can_have():
    """S7: at most 255 bytes, with the column and the escapes."""
    short = Partition(Unit.VALUE, "breed")
    assert directory_of(short, "x" * 246) == f"by_breed={'x' * 246}"
    assert directory_of(short, "x" * 247) == f"by_breed={NONE}"
    assert directory_of(short, "/" * 83) == f"by_breed={NONE}"
    assert (
        directory_of(Partition(Unit.MONTH, "at"), datetime(33, 4, 1, tzinfo=UTC)) == "month=0033-04"
    )
    assert directory_of(Partition(Unit.HOUR, "at"), None) == f"day={NONE}/hour={NONE}"
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert directory_of(Partition(Unit.DAY, "at"), noon) == f"day={date(2026, 1, 2)}"


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        ("week", '"week" is no ID, String, Int, Long or Boolean'),
        ("hours", "hour"),
        ("day(n)", '"n" is no Date'),
        ("day(ta)", "at"),
        ("weight", '"weight" is no ID'),
        ("id", '"id" is no ID, String, Int, Long or Boolean that is stored and shown and no key'),
        ("secret", '"secret" is no ID'),
        ("n(at)", 'must be "hour", "day" or "month"'),
        ("day month", 'must be "hour", "day" or "month"'),
        ("hour", 'rename the attribute "Hour"'),
        ("taken", 'rename the attribute "by_taken"'),
    ],
)
def test_a_partition_that_cannot_be_is_told(partition, said):
    """S7: with the nearest right word."""
    with pytest.raises(Error, match=said):
        parse_schema(
            f'type Log @table(partition: "{partition}") {{ id: ID @primaryKey, at: Date, n: Int, '
            "weight: Float, secret: String @hidden, Hour: Int, taken: Int, by_taken: Int }"
        )
