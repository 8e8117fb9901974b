"""Events that the server's log has no more, by `--url`: from increments; S9, S13, M2."""

import json
import random
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from beside import compute, query, rows, same
from typer.testing import CliRunner

from rowcast.core.errors import Code, Error
from rowcast.journal.log_replay import replay_log
from rowcast.program.cli import command
from rowcast.schema import parse_schema
from rowcast.store.sqlite import SqlStore
from rowcast.store.store import Keep
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.spark.inputs import Server as Input
from rowcast_lake.spark.log_positions import EARLIEST, LogPositions
from rowcast_lake.spark.log_rows import history_path
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.parts import CUT
from rowcast_lake.spark.past import base_of, log_schema
from rowcast_lake.spark.places import NEWEST, Served
from rowcast_lake.spark.remote import Remote
from rowcast_lake.spark.source import Snapshot, read_part, spark_schema
from rowcast_lake.spark.tail import LogReader
from serving import Server

SCHEMA = "type Reading @table @export { id: ID @primaryKey, at: Date, v: Int }"
WIDER = "type Reading @table @export { id: ID @primaryKey, at: Date, v: Float, unit: String }"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A server, and all that was ever written there."""

    def __init__(self, server):
        self.server, self.dice, self.events = server, random.Random(3), []

    @property
    def client(self):
        return self.server.client()

    def write(self, count, **more):
        """Write readings of five series, and delete some."""
        with self.client as client:
            for _ in range(count):
                key = str(self.dice.randrange(5))
                if self.dice.random() < 0.1:
                    answer, value = client.delete(f"/Reading/{key}"), {}
                    if answer.status_code == 404:
                        continue
                else:
                    at = BEGIN + timedelta(minutes=self.dice.randrange(600))
                    value = {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "v": self.dice.randrange(9)} | more
                    answer = client.put(f"/Reading/{key}", json=value)
                assert answer.is_success, answer.text
                self.events.append((self.position(answer), key, value))

    @staticmethod
    def position(answer):
        return int(answer.headers["rowcast-position"].partition(":")[2])

    def export(self, *, changes=False):
        """Export as the server's own process does, into its directory."""
        data = self.server.folder / "data"
        schema = self.server.schema_file.read_text()
        make = export_changes if changes else export
        assert make(Order(data / "rowcast.db", data / "snapshots", schema)) is not None

    def trim(self, schema=SCHEMA):
        """Let the log have the last event only, as retention does."""
        self.server.kill()
        database = self.server.folder / "data" / "rowcast.db"
        tables = parse_schema(self.server.schema_file.read_text()).tables
        replay_log(database, tables)
        store = SqlStore(database)
        store.open(tables)
        assert store.trim(tables[0], Keep(events=1), time.time(), len(self.events))
        store.close()
        self.server.schema_file.write_text(schema)
        self.server.start()

    def read(self, **options):
        """Return what Spark's tasks read, without Spark."""
        given = {"url": self.server.url, "table": "Reading", "startingcursor": "earliest"}
        chosen = Options.of({**given, **options})
        snapshot = Snapshot.of(chosen.place, NEWEST, "Reading")
        reader = LogReader(chosen, snapshot, spark_schema(log_schema(chosen, snapshot)))
        rows = []
        for part in reader.partitions():
            for batch in reader.read(part):
                rows += batch.to_pylist()
        return rows


def plain(row):
    at = row["at"] and f"{row['at']:%Y-%m-%dT%H:%M:%SZ}"
    found = {"at": at, "v": row["v"], "unit": row.get("unit")}
    return row["_seq"], row["id"], {name: item for name, item in found.items() if item is not None}


@pytest.fixture
def world(tmp_path):
    """A snapshot, three increments, two of them merged, and a log that has only what is newer."""
    with Server(tmp_path, SCHEMA) as server:
        made = World(server)
        made.write(1)
        made.export()
        for _ in range(3):
            made.write(12)
            made.export(changes=True)
        made.write(1)
        made.trim()
        made.export(changes=True)
        made.write(5)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_each_event_is_read_once_although_the_log_is_trimmed(world, tmp_path, shared):
    """S13, M2: snapshot, increments and log, over HTTP alone or in a directory."""
    more = {"path": str(tmp_path / "data" / "snapshots")} if shared else {}
    assert list(map(plain, world.read(**more))) == world.events
    epoch = Snapshot.of(Options.of({"url": world.server.url}).place, NEWEST, "Reading").cut[0]
    for number in (5, 20, len(world.events) - 2):
        start = f"{epoch}:{world.events[number][0]}"
        after = list(map(plain, world.read(startingcursor=start, **more)))
        assert after == world.events[number + 1 :]
        before = list(map(plain, world.read(endingcursor=start, **more)))
        assert before == world.events[: number + 1]


@pytest.mark.slow
def test_what_neither_the_log_nor_increments_have_is_refused(world):
    """S13: from a cursor; the beginning has the records that are older than the increments."""
    world.export()
    with world.client as client:
        names = [row["id"] for row in client.get("/$SYS/snapshots/").json()]
        pages = sorted(name for name in names if name.startswith("changes/"))
        oldest = min(name for name in names if CUT.fullmatch(name))
        epoch = client.get("/$SYS/snapshots/newest").json()["cut"].partition(":")[0]
        for gone in (pages[0], oldest):
            assert client.delete(f"/$SYS/snapshots/{gone}").is_success
    with pytest.raises(Error, match=r"the increments after \d+, and .* was asked for") as error:
        world.read(startingcursor=f"{epoch}:2")
    assert error.value.code is Code.GONE
    first = int(pages[1].partition("=")[2][:18])
    later = [event for event in world.events if event[0] >= first]
    found = world.read()
    assert list(map(plain, found))[-len(later) :] == later
    assert all(row["_op"] == "snapshot" for row in found[: -len(later)])


@pytest.mark.slow
def test_columns_of_older_increments_are_there(world):
    """S11: what is widened has the wider type, what is new is null before."""
    world.export(changes=True)
    world.trim(WIDER)
    world.write(3, unit="K")
    world.export()
    found = world.read()
    assert list(map(plain, found)) == world.events
    assert {type(row["v"]) for row in found if row["v"] is not None} == {float}


def test_a_list_that_loses_rows_meanwhile_is_asked_for_again(monkeypatch):
    """S13: no increment is overlooked because an older one was removed between two pages."""
    rows = [{"id": f"changes/seq={n:018d}-{n:018d}", "cut": f"ab:{n}"} for n in range(2500)]
    asked = []

    def get(_, path):
        begin, end = map(int, path.rpartition("limit(")[2].rstrip(")").split(","))
        asked.append(begin)
        if len(asked) == 2:
            del rows[:3]
        return rows[begin:end]

    monkeypatch.setattr(Remote, "get", get)
    found = Served(Remote("http://a.example")).known("ab")
    assert found == [row["id"] for row in rows]
    assert asked[:3] == [0, 999, 0]


@pytest.mark.slow
def test_a_job_by_url_equals_duckdb_over_everything(spark, world, tmp_path):
    """S9: a rollup of a log that is trimmed beyond its beginning, and the records that remain."""
    rows = [
        {"at": datetime.fromisoformat(value["at"]), "v": value["v"], "_seq": seq, "id": key}
        for seq, key, value in world.events
        if value
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet")
    asked = (
        "SELECT id, date_trunc('hour', \"at\") s, count(v), min(v), max(v), round(avg(v), 9) "
        f"FROM '{tmp_path}/all.parquet' GROUP BY ALL"
    )
    words = ["pipeline", "run", "rollup", "--table", "Reading", "--url", world.server.url]
    words += ["--time", "at", "--every", "1h", "--values", "v", "--out", str(tmp_path / "results")]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, (done.output, done.exception)
    files = f"'{tmp_path}/results/newest/rollup/*.parquet'"
    told = f"SELECT by_id, start, count, min, max, round(mean, 9) FROM {files}"
    same(query(told), query(asked))
    told = json.loads((tmp_path / "results" / "newest" / "manifest.json").read_bytes())
    assert int(told["cut"].partition(":")[2]) >= world.events[-1][0]
    words = ["pipeline", "run", "compact", "--table", "Reading", "--url", world.server.url]
    done = CliRunner().invoke(command, [*words, "--out", str(tmp_path / "current")])
    assert done.exit_code == 0, (done.output, done.exception)
    last = {key: seq for seq, key, value in world.events if value}
    last = {key: seq for key, seq in last.items() if (seq, key) in newest_of(world.events)}
    got = pq.read_table(tmp_path / "current" / "newest" / "compact").to_pylist()
    assert {row["id"]: row["_seq"] for row in got} == last


def known_at(events, at):
    """Return the same by brute force."""
    found = {}
    for seq, key, value in events:
        if seq <= at:
            found |= {key: seq if value else 0}
    return {key: seq for key, seq in found.items() if seq}


def base_at(world, at):
    """Return the snapshot that `--at` begins with, and what it and the log after it have."""
    options = {"url": world.server.url, "table": "Reading"}
    newest = Snapshot.of(Options.of(options).place, NEWEST, "Reading")
    log = LogPositions(Options.of(options).remote, history_path(newest.table, "Reading"))
    base = base_of(newest, at, log.trimmed())
    found = {}
    for part in base.parts(1) if base is not None else ():
        for batch in read_part(base, part, spark_schema(base.schema)):
            found |= {row["id"]: row["_seq"] for row in batch.to_pylist()}
    begin = EARLIEST if base is None else base.manifest["cut"]
    for row in sorted(world.read(startingcursor=begin), key=lambda row: row["_seq"]):
        if not isinstance(at, int) or row["_seq"] <= at:
            found |= {row["id"]: row["_seq"] if row["_op"] != "delete" else 0}
    return base, {key: seq for key, seq in found.items() if seq}


@pytest.mark.slow
def test_records_as_of_a_position_follow_from_an_old_snapshot_by_url(world):
    """S9: from the newest one that is so old, and the increments after it."""
    positions = [seq for seq, *_ in world.events]
    world.export()  # a newer snapshot is of no use for what was before it
    for at in (positions[7], positions[20], positions[-3]):
        base, found = base_at(world, at)
        assert base.cut[1] <= at
        assert found == known_at(world.events, at)
    assert base_at(world, datetime.now(UTC))[0].cut[1] >= positions[-1]
    first, *_ = sorted((world.server.folder / "data" / "snapshots").glob("0*"))
    shutil.rmtree(first)
    for early in (positions[20], BEGIN):
        with pytest.raises(Error, match=r"--at .*: no snapshot of Reading is so old") as refused:
            base_at(world, early)
        assert refused.value.code is Code.GONE


@pytest.mark.slow
def test_records_as_of_a_position_follow_from_a_log_that_is_whole(tmp_path):
    """S9: also before the only snapshot there is."""
    with Server(tmp_path, SCHEMA) as server:
        world = World(server)
        world.write(24)
        world.export()
        positions = [seq for seq, *_ in world.events]
        base, found = base_at(world, positions[5])
        assert (base, found) == (None, known_at(world.events, positions[5]))


@pytest.mark.slow
def test_a_job_by_url_takes_a_position(spark, world):
    """S9."""
    at = world.events[20][0]
    found = Input(spark, {"url": world.server.url}, "Reading")
    assert dict(rows(compute(found, "asof", at=str(at)), "id", "_seq")) == known_at(
        world.events, at
    )


def newest_of(events):
    """The last event of each key."""
    return {(seq, key) for key, seq in {key: seq for seq, key, _ in events}.items()}
