"""Jobs over an object store: snapshots, increments, results; Spark has no jar for it (S3, S9)."""

import json
import pickle
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset as ds
from pyspark.errors import StreamingQueryException
from typer.testing import CliRunner

from exported import Exported
from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import RESULT_SECONDS_MAX, RESULTS_KEPT
from rowcast.program.cli import command
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.snapshot_stores import store_of
from rowcast_lake.spark import inputs
from rowcast_lake.spark.object_publication import NAME, _tidy
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.places import Stored
from rowcast_lake.spark.publication import publish
from rowcast_lake.stores.object_paths import ObjectPath

SCHEMA = "type Dog @table @export { id: ID @primaryKey, name: String }"


@pytest.fixture
def lake(store, tmp_path):
    """A place with a snapshot of two records, then an increment with one more and one less."""
    world = Exported(tmp_path, SCHEMA)
    place = ObjectPath.of(f"{store}/{tmp_path.name}")
    order = Order(world.path / "rowcast.db", place, SCHEMA)

    def put(key, name):
        text = json.dumps({"name": name}).encode()
        world.put("Dog", key, {"name": name}, payload=text, content_type="application/json")

    put("1", "Rex")
    put("2", "Ace")
    export(order)
    put("3", "Fly")
    world.store.commit([world.event("Dog", "1", kind="delete")])
    export_changes(order)
    world.close()
    return place


@pytest.mark.slow
def test_a_place_of_a_url_is_read_by_each_process_itself(lake):
    """S9: what is sent to Spark's workers has the URL only."""
    place = Options.of({"path": str(lake)}).place
    assert place == Stored(str(lake))
    assert place.manifest(place.resolve("newest"))["seq"] == 2
    again = pickle.loads(pickle.dumps(place))
    assert again.resolve("newest") == "000000000000000002"
    with pytest.raises(Error, match=r"there is no snapshot 7 at s3://.*rowcast export --out s3://"):
        again.manifest("7")
    with pytest.raises(Error, match="there is no snapshot newest") as error:
        Stored(f"{lake}/nothing").manifest(Stored(f"{lake}/nothing").resolve("newest"))
    assert error.value.code is Code.NOT_FOUND


@pytest.mark.heavy
def test_old_results_go_and_new_leftovers_stay(store, tmp_path):
    """S3: a result without a manifest may still be written, until it is too old."""
    out = ObjectPath.of(f"{store}/{tmp_path.name}")
    now = datetime(2026, 1, 10, tzinfo=UTC)
    names = [(now + timedelta(hours=hour)).strftime(NAME) for hour in range(RESULTS_KEPT + 2)]
    for name in names:
        (out / name / "manifest.json").write_bytes(b"{}")
    young = (now - timedelta(seconds=1)).strftime(NAME)
    old = (now - timedelta(seconds=RESULT_SECONDS_MAX + 1)).strftime(NAME)
    for name in (young, old):
        (out / name / "numbers/part-00000.parquet").write_bytes(b"half")
    _tidy(out, now)
    assert sorted(path.name for path in out.iterdir()) == sorted([young, *names[2:]])


@pytest.mark.slow
def test_a_job_reads_and_writes_the_store(spark, lake):
    """S9: the current records from a snapshot and an increment, published as a result."""
    words = ["pipeline", "run", "compact", "--table", "Dog", "--snapshots", str(lake)]
    done = CliRunner().invoke(command, [*words, "--out", f"{lake}-results"])
    assert done.exit_code == 0, (done.output, done.exception)
    out = ObjectPath.of(f"{lake}-results")
    name = (out / "newest").read_text()
    told = json.loads((out / name / "manifest.json").read_bytes())
    assert (told["rows"], told["job"]) == (2, "compact")
    rows = ds.dataset(f"{(out / name).key}/compact", filesystem=out.files).to_table().to_pylist()
    assert {(row["id"], row["name"]) for row in rows} == {("2", "Ace"), ("3", "Fly")}
    assert sorted(told["files"]) == sorted(
        str(path)[len(f"{out / name}/") :] for path in (out / name / "compact").rglob()
    )
    dogs = spark.read.format("rowcast").option("table", "Dog").load(str(lake))
    assert sorted(row["name"] for row in dogs.collect()) == ["Ace", "Rex"]


@pytest.mark.slow
def test_a_result_without_rows_has_columns(spark, store, tmp_path):
    """S3: and a place with other things is left alone."""
    out = ObjectPath.of(f"{store}/{tmp_path.name}")
    made = publish(spark.range(0), out, "numbers", {"cut": "log:1"})
    assert (made.rows, made.files) == (0, 1)
    found = ds.dataset(str(made.place).removeprefix("s3://"), filesystem=out.files)
    assert found.schema.names == ["id"]
    (out / "thesis.txt").write_bytes(b"")
    with pytest.raises(Error, match=r"holds other things \(thesis.txt\)"):
        publish(spark.range(1), out, "numbers", {})


class Killed(BaseException):
    """The end of a publisher."""


@pytest.mark.slow
def test_a_stream_over_increments_in_a_store(spark, store, tmp_path, monkeypatch):
    """S15: each event once, without a server, over kills of the publisher, merges and restarts."""
    world = Exported(tmp_path, SCHEMA)
    place = ObjectPath.of(f"{store}/{tmp_path.name}")
    order = Order(world.path / "rowcast.db", place, SCHEMA)
    out = str(tmp_path / "out")

    def put(key):
        world.put("Dog", key, {"name": key})

    def run(name="first", **options):
        reader = spark.readStream.format("rowcast").options(table="Dog", increments="true")
        written = reader.options(**options).load(str(place)).writeStream.format("parquet")
        written = written.option("checkpointLocation", str(tmp_path / name))
        query = written.trigger(availableNow=True).start(f"{out}-{name}")
        assert query.awaitTermination(300)
        told = spark.read.parquet(f"{out}-{name}").orderBy("_seq").collect()
        return [(row._seq, row.id, row._op) for row in told]

    def kill(*_):
        raise Killed

    put("1")
    export(order)
    assert run() == [(1, "1", "snapshot")]
    put("2")
    export_changes(order)
    put("3")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(ObjectPath, "copy", kill)
        export_changes(order)
    put("4")
    export_changes(order)
    expected = [(1, "1", "snapshot"), (2, "2", "put"), (3, "3", "put"), (4, "4", "put")]
    assert run(maxEventsPerBatch=2) == expected
    put("5")
    export_changes(order)
    compact(place, everything=True, covered_seconds=0)
    put("6")
    export_changes(order)
    expected += [(5, "5", "put"), (6, "6", "put")]
    assert run() == expected
    assert run() == expected
    assert run("second", startingCursor="earliest") == expected[1:]
    put("7")
    export_changes(order)
    put("8")
    export_changes(order)
    store_of(place).remove_page(f"changes/seq={7:018d}-{7:018d}")
    with pytest.raises(StreamingQueryException, match="increments after 6 are gone: they begin"):
        run()
    world.close()


@pytest.mark.slow
def test_increments_are_for_streams(spark, lake):
    """S15: a read of the log has a start; a job's stream of a store is one of increments."""
    assert inputs.Snapshots(spark, lake, "Dog").stream().isStreaming
    reader = spark.read.format("rowcast").options(table="Dog", increments="true")
    with pytest.raises(Exception, match="increments=true is for readStream"):
        reader.load(str(lake)).collect()
