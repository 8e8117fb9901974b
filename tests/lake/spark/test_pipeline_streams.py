"""Jobs on a stream: late readings, a restart from the checkpoint, and the batch beside it."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import Exported
from lake import EPOCH, TIME
from rowcast.core.errors import Error
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.export import Order as Export
from serving import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="NO SPARK: streams are NOT tested here")

from beside import query  # noqa: E402

from rowcast_lake.spark.inputs import Files, Snapshots  # noqa: E402
from rowcast_lake.spark.jobs import JOBS  # noqa: E402
from rowcast_lake.spark.runner import Order, Target, follow, run  # noqa: E402

READING = pa.schema([("sensor", pa.string()), ("at", TIME), ("c", pa.float64())])


def feed(place, name, *readings):
    """Let readings arrive, as one file."""
    rows = [
        {"sensor": s, "at": EPOCH + timedelta(minutes=m), "c": float(c)} for s, m, c in readings
    ]
    place.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=READING), place / f".{name}")
    (place / f".{name}").rename(place / f"{name}.parquet")


def order(name, options, **target):
    return Order(JOBS[name], options, Target(**target), lambda _: None)


def test_a_stream_over_files_of_changes_has_each_event_once(spark, tmp_path):
    """S15: plain Spark with its checkpoint, restarted; merged pages are where it does not look."""
    world = Exported(tmp_path, "type Dog @table @export { id: ID @primaryKey, n: Int }")
    place, out = world.directory, str(tmp_path / "out")

    def page():
        for _ in range(3):
            world.put("Dog", "1", {"n": world.seq})
        export_changes(Export(world.path / "rowcast.db", place, world.schema))

    def read(stream):
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(out).awaitTermination()

    world.put("Dog", "0", {"n": 0})
    world.export()
    page()
    schema = spark.read.parquet(f"{place}/newest/Dog").schema
    read(spark.readStream.schema(schema).parquet(f"{place}/changes/*/Dog"))
    page()
    page()
    assert compact(place, together=2)
    page()
    read(Snapshots(spark, place, "Dog").stream().select(schema.names))
    compact(place, everything=True, covered_seconds=0)
    page()
    read(spark.readStream.schema(schema).parquet(f"{place}/changes/*/Dog"))
    world.close()
    found = query(f"select _seq from '{out}/*.parquet'")
    assert [*range(2, 17)] == sorted(seq for (seq,) in found)


def test_a_stream_of_rollups_takes_what_is_late_but_not_too_late(spark, tmp_path):
    """S9: stretches are told when the watermark passes them; a later batch has the rest too."""
    place, out = tmp_path / "in", tmp_path / "out"
    options = {"every": "10m,1h", "by": "sensor", "late": "30m"}
    streaming = order(
        "rollup", options, out=out, checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    feed(place, "1", *(("a", m, m) for m in range(0, 120, 5)))
    told = follow(streaming, Files(spark, str(place)))
    assert ["rollup: the stream is done; left out as too late: 0"] == told
    # The newest is 1:55 and the watermark 1:25: 1:02 is too late for 1:00-1:10, not for 1:00-2:00.
    feed(place, "2", ("a", 62, 1000), ("a", 100, 2000))
    feed(place, "3", *(("a", m, m) for m in range(120, 300, 5)))
    told = follow(streaming, Files(spark, str(place)))
    assert ["rollup: the stream is done; left out as too late: 1"] == told
    end = EPOCH + timedelta(hours=3)
    found = query(
        f"select every, start, count, max from '{out}/rollup/*.parquet' where \"end\" <= '{end}'"
    )
    parts = [
        f"select '{label}' l, time_bucket(interval '{length}', \"at\") t, count(*), max(c) from "
        f"'{place}/*.parquet' where (c != 1000 or '{label}' = '1h') and \"at\" < '{end}' "
        "group by all"
        for label, length in (("10m", "10 minutes"), ("1h", "1 hour"))
    ]
    assert found == query(" union all ".join(parts))
    assert 18 + 3 == len(found)
    # A batch is of all that is there.
    batch = run(order("rollup", options, show=100), Files(spark, str(place)))
    assert any("1000" in line.split() for line in batch)


def test_a_stream_of_anomalies_judges_by_what_was_there(spark, tmp_path):
    """S9, S14: the baseline is made of the past, each new reading is judged alone and once.

    Batches in a table are numbered within the stream that its checkpoint says.
    """
    place = tmp_path / "in"
    feed(place, "1", *(("a", m, 20 + m % 3) for m in range(60)))
    options = {"by": "sensor", "season": "none", "score": "8"}
    columns = "id: ID @primaryKey, sensor: String, at: Date, measure: String, value: Float"
    with Server(tmp_path, f"type Odd @table @export {{ {columns}, expected: Float }}") as server:
        at = {"to": "Odd", "server": {"url": server.url}}
        checkpoint = str(tmp_path / "checkpoint")
        streaming = order("anomalies", options, checkpoint=checkpoint, once=True, **at)
        follow(streaming, Files(spark, str(place)))
        feed(place, "2", ("a", 70, 21), ("a", 71, 95), ("b", 71, 95))
        follow(streaming, Files(spark, str(place)))
        follow(streaming, Files(spark, str(place)))
        identity = json.loads(Path(checkpoint, "metadata").read_text())["id"]
        with server.client() as client:
            (told,) = client.get("/Odd/?from=0").json()
    found = [told["value"][name] for name in ("sensor", "value", "expected")]
    assert ["a", 95.0, 21.0] == found
    assert f"{identity}#1" == told["_from_cut"]


def test_what_a_stream_needs_is_said(spark, tmp_path):
    """X: mistakes are told in a sentence, before anything runs."""
    feed(tmp_path / "in", "1", ("a", 1, 1))
    source = Files(spark, str(tmp_path / "in"))
    with pytest.raises(Error, match="gaps is of whole data: run it without --stream"):
        follow(order("gaps", {"by": "sensor"}, checkpoint="x"), source)
    with pytest.raises(Error, match="--stream needs --checkpoint DIR"):
        follow(order("rollup", {"by": "sensor"}), source)
