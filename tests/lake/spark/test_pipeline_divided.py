"""Streams of partitioned tables: events have the columns of directories, too (S7, S13)."""

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark", reason="NO SPARK: streams are NOT tested here")

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from exported import Exported
from rowcast.codecs import json_text
from rowcast.core.errors import Code, Error
from rowcast.core.partitions import Partition, Unit
from rowcast.core.snapshot_limits import SNAPSHOT_PARTITION_NAME_BYTES
from rowcast_lake.columns.directories import columns_of
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.export import Order
from rowcast_lake.spark.divided import with_directories
from rowcast_lake.spark.increments import Increments
from rowcast_lake.spark.inputs import Snapshots
from rowcast_lake.spark.jobs.job import Reads
from rowcast_lake.spark.log_rows import LogRows
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.places import Directory
from rowcast_lake.spark.source import Snapshot, read_part, spark_schema
from rowcast_lake.spark.tail import TailReader
from rowcast_lake.spark.unions import union
from rowcast_lake.stores.object_paths import ObjectPath

UNITS = {"Day": "day(at)", "Hour": "hour(at)", "Month": "month(at)", "Breed": "breed", "Log": "day"}
SCHEMA = "\n".join(
    f'type {name} @table(partition: "{unit}") @export '
    "{ id: ID @primaryKey, at: Date, breed: String }"
    for name, unit in UNITS.items()
)
BEGIN = datetime(2026, 1, 30, 22, tzinfo=UTC)
BREEDS = ["Poodle", "a/b", "", None]


CLERK = {"audience": "clerk", "roles": ("clerk",)}


def exported(path, **audience):
    """Return two snapshots, and increments with all writes between them."""
    made = Exported(path, SCHEMA)
    order = Order(made.path / "rowcast.db", made.directory, SCHEMA, **audience)

    def write(first, count):
        for name in UNITS:
            for n in range(first, first + count):
                at = BEGIN + timedelta(minutes=50 * n) if n % 5 else None
                value = {"at": at, "breed": BREEDS[n % 4]}
                made.put(name, f"k{n}", value, payload=json_text.encode(value))

    write(0, 3)
    made.export(**audience)
    for first in (2, 6):
        write(first, 7)
        assert export_changes(order)
    made.export(**audience)
    made.close()
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("divided"))


@pytest.fixture(scope="module", params=[{}, CLERK], ids=["all", "clerk"])
def either(request, tmp_path_factory):
    """What all, or a role, may see: the manifest of a role's export has no schema."""
    return exported(tmp_path_factory.mktemp("either"), **request.param)


def opened(world, name, snapshot="newest"):
    return Snapshot.of(Directory(str(world.directory)), snapshot, name)


def rows_of(snapshot):
    schema = spark_schema(snapshot.schema)
    read = [b for part in snapshot.parts(1) for b in read_part(snapshot, part, schema)]
    return {row["id"]: row for batch in read for row in batch.to_pylist()}


@pytest.mark.parametrize("columns", ["", "id,_seq,{}"])
@pytest.mark.parametrize("name", UNITS)
def test_events_of_increments_have_the_columns_of_directories(either, name, columns):
    """S7: those of the snapshot that has the same writes, also if no other column is read."""
    first, newest = sorted(path.name for path in either.directory.glob("0*"))
    old, new = opened(either, name, first), rows_of(opened(either, name, newest))
    divided = old.partition.columns
    names = [name for name in columns.format(",".join(divided)).split(",") if name]
    schema = spark_schema(old.chosen(names))
    reader = TailReader(Options({}), old, schema, Increments(old))
    start = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    told = {
        row["id"]: row
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    }
    assert told.keys() == new.keys() - {"k0", "k1"}
    for key, row in told.items():
        assert [row[name] for name in divided] == [new[key][name] for name in divided], key
    assert len({tuple(row[name] for name in divided) for row in told.values()}) > 1 or name == "Log"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "stored"), [("Hour", False), ("Log", False), ("Month", True), ("Breed", True)]
)
def test_a_job_reads_increments_with_the_columns_of_directories(
    spark, store, either, name, stored, tmp_path_factory
):
    """S7: a row has the same ones whether it is read in a snapshot or in an increment."""
    first, newest = sorted(path.name for path in either.directory.glob("0*"))
    new, place = rows_of(opened(either, name, newest)), either.directory
    if stored:
        place = ObjectPath.of(f"{store}/{tmp_path_factory.mktemp('place').name}")
        copied(either.directory, place)
    source = Snapshots(spark, place, name)
    state, changes = (source.frame(what, int(first)) for what in (Reads.STATE, Reads.CHANGES))
    divided = opened(either, name, newest).partition.columns
    assert {*divided} <= {*changes.columns}
    told = {row["id"]: row for row in changes.orderBy("_seq").collect()}
    assert told.keys() == new.keys() - {"k0", "k1"}
    for key, row in told.items():
        assert [row[name] for name in divided] == [new[key][name] for name in divided], key
    assert {*divided} <= {*union(state, changes).columns}


def copied(directory, place):
    """Copy snapshots and increments to a store."""
    for path in directory.rglob("*"):
        if path.is_file() and "newest" not in path.parts:
            (place / str(path.relative_to(directory))).write_bytes(path.read_bytes())


def test_a_text_that_is_no_name_of_a_directory_is_null_in_an_increment_too(spark):
    """S7: the same texts are names for Spark and for the export."""
    by, most = Partition(Unit.VALUE, "breed"), SNAPSHOT_PARTITION_NAME_BYTES - len("by_breed=")
    texts = [*map(chr, range(1, 128)), "[^]", "a&&b", "é" * (most // 2), "é" * (most // 2 + 1)]
    texts += [
        "a" * most,
        "a" * (most + 1),
        "/" * (most // 3),
        "/" * (most // 3 + 1),
        "",
        None,
        "🐕",
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "breed string")
    expected = columns_of(by, pa.array(texts, pa.string()))["by_breed"].to_pylist()
    assert expected == [row["by_breed"] for row in with_directories(frame, by).collect()]


@pytest.mark.heavy
@pytest.mark.parametrize("name", UNITS)
def test_events_of_the_log_have_the_columns_of_directories(world, name):
    """S7: of their own values, and of a delete those of its time, if any."""
    snapshot = opened(world, name)
    columns = to_arrow_schema(spark_schema(snapshot.schema), timezone="UTC")
    divided, known = snapshot.partition.columns, rows_of(snapshot)
    told = [
        {
            "topic": f"{name}/{key}", "_seq": row["_seq"], "_op": "put",
            "_version": round(row["_ts"].timestamp() * 1_000_000),
            "value": {
                "at": row["at"] and row["at"].isoformat(), "breed": row["breed"],
            },
        }
        for key, row in known.items()
    ]  # fmt: skip
    told.append({**told[0], "topic": f"{name}/gone", "value": None, "_op": "delete"})
    (batch,) = LogRows(snapshot.table, columns, snapshot.partition).batches(iter(told))
    *rows, gone = batch.to_pylist()
    for row in rows:
        expected = known[row["id"]]
        assert [row[name] for name in divided] == [expected[name] for name in divided]
    by_time = [gone["_ts"].date()] if name == "Log" else [None for _ in divided]
    assert [gone[name] for name in divided] == by_time


def test_the_log_is_not_read_by_an_export_for_a_role(tmp_path):
    """S13: it has no schema, so values would be lost without a word."""
    made = Exported(tmp_path, "type Dog @table @export { id: ID @primaryKey, n: Int }")
    made.put("Dog", "1", {"n": 1})
    made.export(audience="clerk", roles=("clerk",))
    made.close()
    snapshot = opened(made, "Dog")
    assert [row["n"] for row in rows_of(snapshot).values()] == [1]
    with pytest.raises(Error, match="is an export for a role, without the schema") as refused:
        TailReader(Options({"url": "http://a.example"}), snapshot, spark_schema(snapshot.schema))
    assert refused.value.code is Code.UNSUPPORTED
