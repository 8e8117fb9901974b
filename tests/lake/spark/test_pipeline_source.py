"""Spark reads snapshots and the log by the format `rowcast`; S9, S13, M2."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from by_hand import SCHEMA, dog, write_snapshot
from pyspark.sql.types import StructType

from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.schema import parse_schema
from rowcast_lake.spark import inputs
from rowcast_lake.spark.jobs.job import Reads
from rowcast_lake.spark.log_rows import LogRows, explained
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.places import Directory
from rowcast_lake.spark.runner import session
from rowcast_lake.spark.source import Snapshot, read_part, spark_schema
from rowcast_lake.spark.tail import TailReader
from serving import Server, wait_until

EPOCH = "0123abcd"


@pytest.fixture
def two_days(tmp_path):
    first = [dog(1, age=3, born=datetime(2020, 1, 1, tzinfo=UTC), tags=["a", None]), dog(2)]
    files = {
        "Dog/day=2026-01-01/part-00000.parquet": first,
        "Dog/day=2026-01-02/part-00000.parquet": [dog(3, chip=b"\0\1", price="1.10")],
    }
    write_snapshot(tmp_path, EPOCH, 42, files)
    return tmp_path


def rows_of(place, wanted=None):
    snapshot = Snapshot.of(place, "newest", "Dog")
    schema = wanted or spark_schema(snapshot.schema)
    batches = [b for part in snapshot.parts(1) for b in read_part(snapshot, part, schema)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_s9_a_part_has_the_columns_asked_for_and_what_its_directory_says(two_days):
    rows = rows_of(Directory(str(two_days)))
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert [str(row["day"]) for row in rows] == ["2026-01-01", "2026-01-01", "2026-01-02"]
    assert {row["_op"] for row in rows} == {"snapshot"}
    assert (rows[0]["tags"], rows[2]["chip"], rows[2]["price"]) == (["a", None], b"\0\1", "1.10")


def test_s11_a_column_that_an_older_snapshot_has_not_is_null(two_days):
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    wanted = StructType([StructField("id", StringType()), StructField("new", IntegerType())])
    assert rows_of(Directory(str(two_days)), wanted)[0] == {"id": "1", "new": None}


def test_what_is_not_there_is_said_with_what_is(two_days, tmp_path):
    place = Directory(str(two_days))
    with pytest.raises(Error, match=r"no table 'dog'.*Dog"):
        Snapshot.of(place, "newest", "dog")
    with pytest.raises(Error, match="rowcast export"):
        Snapshot.of(Directory(str(tmp_path / "nowhere")), "newest", "Dog")
    with pytest.raises(Error, match="no option 'tabel'; did you mean"):
        Options.of({"tabel": "Dog"})
    with pytest.raises(Error, match="path: gs://bucket/x is a URL"):
        assert Options.of({"path": "gs://bucket/x"}).place
    with pytest.raises(Error, match="neither true nor false"):
        Options.of({"export": "yes"}).flag("export")


@pytest.mark.parametrize(
    ("url", "option", "told"),
    [
        ("http://a.example", {}, "Basic YW5uOnNlY3JldA=="),
        ("http://a.example", {"user": "ben"}, "Basic YmVuOnNlY3JldA=="),
        ("http://a.example", {"token": "t0"}, "Bearer t0"),
        ("http://cat:other@a.example", {}, "Basic Y2F0Om90aGVy"),
    ],
)
def test_options_and_the_url_come_before_the_environment(monkeypatch, url, option, told):
    monkeypatch.delenv("ROWCAST_TOKEN", raising=False)
    monkeypatch.setenv("ROWCAST_USER", "ann")
    monkeypatch.setenv("ROWCAST_PASSWORD", "secret")
    remote = Options.of({"url": url, **option}).remote
    assert (told, "http://a.example") == (remote.authorization, remote.url)


def test_an_authority_that_an_executor_does_not_have_is_named(monkeypatch, tmp_path):
    missing = str(tmp_path / "ca.pem")
    monkeypatch.setenv("ROWCAST_AUTHORITY", missing)
    with pytest.raises(Error, match=f"certificate {missing} cannot be read"):
        Options.of({"url": "https://a.example"}).remote.head("/")


@pytest.mark.slow
def test_an_exception_of_java_is_told_by_its_own_words(spark):
    with pytest.raises(Error) as told, session("one", "local"):
        spark._jvm.java.util.ArrayList().get(5)
    assert told.value.code is Code.INVALID
    assert told.value.message.startswith("Spark: java.lang.IndexOutOfBoundsException: Index 5")


def test_a_trimmed_log_says_what_to_do():
    error = explained(Error(Code.GONE, "the log begins at 100"))
    assert error.code is Code.GONE
    assert "checkpointLocation" in error.message


def test_events_have_the_cells_of_a_snapshot():
    """M2: the declared types, `_extra` for what is undeclared, and only the key of a delete."""
    place = "type Dog @table @export { id: ID @primaryKey name: String price: Decimal b: Bytes }"
    names = ("id", "name", "price", "_extra", "_topic", "_op")
    columns = [(name, pa.string()) for name in names]
    schema = pa.schema([*columns, ("b", pa.binary()), ("_seq", pa.int64())])
    rows = LogRows(parse_schema(place).tables[0], schema)
    put = {"name": "Rex", "price": "1.10", "b": "AAE=", "odd": {"z": 1}}
    told = [
        {"topic": "Dog/a/b", "value": put, "_seq": 7, "_op": "put"},
        {"topic": "Dog/a/b", "value": None, "_seq": 8, "_op": "delete"},
    ]
    (batch,) = rows.batches(iter(told))
    first, second = batch.to_pylist()
    assert first == {
        "id": "a/b", "name": "Rex", "price": "1.10", "_extra": '{"odd":{"z":1}}',
        "_topic": "Dog/a/b", "_op": "put", "b": b"\0\1", "_seq": 7,
    }  # fmt: skip
    assert {name for name, value in second.items() if value is not None} == {
        "id", "_topic", "_op", "_seq",
    }  # fmt: skip


def test_a_retained_message_that_is_removed_has_no_bytes():
    """M2: as in a snapshot, not the text of a null."""
    schema = pa.schema([("payload", pa.binary()), ("payload_text", pa.string())])
    facts = {"topic": "mqtt_home/7", "_seq": 7, "_op": "put"}
    told = [{**facts, "value": {"topic": "home/a", "payload": item}} for item in (5, "", None)]
    (batch,) = LogRows(None, schema).batches(iter(told))
    texts = [(row["payload"], row["payload_text"]) for row in batch.to_pylist()]
    assert texts == [(b"5", "5"), (b"", ""), (b"", "")]


def test_a_stream_that_ends_with_the_log_notices_that_it_is_another_one():
    """S13: not done without a word while a restored log is shorter than the one before."""

    class Restored:
        def head(self, epoch):
            if epoch != "new":
                raise Error(Code.CONFLICT, "another log")
            return 50

    snapshot = SimpleNamespace(cut=("new", 40))
    reader = TailReader(Options({"url": "http://a.example"}), snapshot, StructType(), Restored())
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    now = {"epoch": "new", "seq": 45, "snapshot": ""}
    assert reader.latestOffset(now, limit) == {**now, "seq": 50}
    with pytest.raises(Error, match="another log"):
        reader.latestOffset({**now, "epoch": "old", "seq": 100}, limit)


@pytest.mark.slow
def test_s9_the_format_is_found_by_name_and_files_are_ruled_out(spark, two_days):
    read = spark.read.format("rowcast").option("table", "Dog")
    frame = read.load(str(two_days))
    types = dict(frame.dtypes)
    assert (types["born"], types["age"], types["tags"]) == ("timestamp", "int", "array<string>")
    assert frame.count() == 3
    one = read.option("pushdown", "true").load(str(two_days)).where("day = '2026-01-02'")
    assert one.rdd.getNumPartitions() == 1
    assert [row.id for row in one.collect()] == ["3"]


def seen(frame):
    told = frame.orderBy("_seq").collect()
    return [(row.id, row["name"], row["_op"]) for row in told]


def end_of(answer):
    epoch, seq = answer.headers["rowcast-position"].split(":")
    return epoch, int(seq)


@pytest.mark.slow
def test_s13_a_snapshot_and_then_the_log_without_gap(spark, tmp_path):
    """S13, M2: the snapshot, then what came after it; a restart goes on from the checkpoint."""
    out = str(tmp_path / "out")

    def stream(**options):
        reader = spark.readStream.format("rowcast").options(table="Dog", url=server.url, **options)
        written = reader.load(str(root)).writeStream.format("parquet")
        return written.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run(**options):
        query = stream(**options).trigger(availableNow=True).start(out)
        assert query.awaitTermination(300)
        return seen(spark.read.parquet(out))

    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        client.put("/Dog/1", json={"name": "one"})
        epoch, seq = end_of(client.put("/Dog/2", json={"name": "two"}))
        root = tmp_path / "snapshots"
        files = {"Dog/part-00000.parquet": [dog(1, name="one", seq=1), dog(2, name="two", seq=2)]}
        write_snapshot(root, epoch, seq, files)
        client.patch("/Dog/2", json={"age": 7})
        client.delete("/Dog/1")
        expected = [
            ("1", "one", "snapshot"), ("2", "two", "snapshot"), ("2", "two", "patch"),
            ("1", None, "delete"),
        ]  # fmt: skip
        assert run() == expected
        client.post("/Dog/2?retain=false", json={"name": "wuff"})
        server.kill()
        server.start()
        expected.append(("2", "wuff", "message"))
        client.put("/Dog/3", json={"name": "three"})
        expected.append(("3", "three", "put"))
        assert run(maxEventsPerBatch=1, eventsPerTask=1) == expected
        assert run() == expected
        # A stream that runs waits for a server that is away.
        server.kill()
        running = stream(startingCursor="snapshot").trigger(processingTime="1 second").start(out)
        wait_until(lambda: running.status["isTriggerActive"], "it asks for events")
        server.start()
        client.put("/Dog/4", json={"name": "four"})
        expected.append(("4", "four", "put"))
        wait_until(lambda: len(seen(spark.read.parquet(out))) == len(expected), "it goes on")
        running.stop()
        assert run() == expected


@pytest.mark.slow
def test_s13_the_log_at_once_with_the_records_that_are_older_than_it(spark, tmp_path):
    """S13, M2: a batch of events between positions, read by tasks and staged nowhere."""
    root = tmp_path / "snapshots"

    def log(**options):
        reader = spark.read.format("rowcast").options(table="Dog", url=server.url, **options)
        return seen(reader.load(str(root)))

    def trimmed():
        return client.head("/Dog/?_from=0").headers.get("rowcast-trimmed")

    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        ends = [end_of(client.put(f"/Dog/{n}", json={"name": f"{n}"})) for n in (1, 2, 3)]
        (epoch, first), (_, second), (_, third) = ends
        rows = [dog(1, name="1", seq=first), dog(2, name="2", seq=second)]
        write_snapshot(root, epoch, second, {"Dog/part-00000.parquet": rows})
        # Events of the server itself may come between these two.
        patched = end_of(client.patch("/Dog/1", json={"age": 7}))[1]
        fourth = end_of(client.delete("/Dog/2"))[1]
        all_of_it = [(n, n, "put") for n in "123"] + [("1", "1", "patch"), ("2", None, "delete")]
        assert log(startingCursor="earliest", eventsPerTask=1) == all_of_it
        assert log(startingCursor=f"{epoch}:{second}") == all_of_it[2:]
        end = f"{epoch}:{third}"
        assert log(startingCursor="earliest", endingCursor=end) == all_of_it[:3]
        assert log(startingCursor="latest") == []
        server.kill()
        server.settings |= {"history.keep_events": 1, "history.sweep_seconds": 1}
        server.start()
        wait_until(lambda: trimmed() == f"{epoch}:{patched}", "one event is left")
        for start in ("earliest", f"{epoch}:{second}"):
            with pytest.raises(Exception, match="make a new snapshot with rowcast export"):
                log(startingCursor=start)
        rows = [dog(3, name="3", seq=third), dog(1, name="1", seq=patched)]
        write_snapshot(root, epoch, fourth, {"Dog/part-00000.parquet": rows})
        older = [("3", "3", "snapshot"), ("1", "1", "snapshot")]
        assert log(startingCursor="earliest") == [*older, ("2", None, "delete")]
        end = f"{epoch}:{patched}"
        assert log(startingCursor="earliest", endingCursor=end) == older
        # A job by --url: what is newer than the snapshot belongs to its cut, so it is no repeat.
        source = inputs.Server(spark, {"url": server.url, "export": "true"}, "Dog")
        before = source.cut
        newer = end_of(client.put("/Dog/5", json={"name": "5"}))
        assert seen(source.frame(Reads.CHANGES)) == [("5", "5", "put")]
        wait_until(lambda: trimmed() == f"{epoch}:{fourth}", "again one event is left")
        events = seen(source.frame(Reads.EVENTS))
        assert events == [*older, ("5", "5", "put")]
        assert parse_cursor(before) < Cursor(*newer) <= parse_cursor(source.cut)
