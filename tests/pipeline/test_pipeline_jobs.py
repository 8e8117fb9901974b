"""Each job beside DuckDB on the same files: another engine, another language, the same rows."""

import math
import random
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from lake import EPOCH, Lake, event, weather_log

from app.core.errors import Error

pytestmark = pytest.mark.slow
pytest.importorskip("pyspark", reason="NO SPARK: the jobs are NOT tested here")

from app.pipeline.inputs import Snapshots  # noqa: E402
from app.pipeline.jobs import JOBS  # noqa: E402
from app.pipeline.jobs.job import Given, Reads  # noqa: E402

DOG = [("id", pa.string()), ("name", pa.string()), ("age", pa.int32())]
DOG_SCHEMA = "type Dog @table @export { id: ID @primaryKey, name: String!, age: Int }"


def at_time(seq):
    return (EPOCH + timedelta(minutes=seq)).isoformat()


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    """A year of real weather as a log."""
    return weather_log(tmp_path_factory.mktemp("lake") / "snapshots")


def compute(source, name, table=None, **options):
    """Run a job on what a source has; return its rows."""
    job = JOBS[name]
    read = job.read_options(options)
    at = read.get("at") if Reads.CHANGES in job.reads else None
    frames = {what: source.frame(what, at) for what in job.reads}
    return job.compute(Given(frames, read, source.until, table))


def rows(frame, *columns):
    """The rows of a frame, sorted, times in UTC."""
    found = (frame.select(*columns) if columns else frame).collect()
    return sorted((tuple(map(plain, row)) for row in found), key=repr)


def plain(value):
    """Spark gives times of this machine's zone."""
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


def query(sql):
    """The rows that DuckDB finds, sorted; it hands out times without a zone, which are UTC here."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"create view asked as {sql}")
        told = "select column_name, column_type from (describe asked)"
        names = [
            ('"' + name.replace('"', '""') + '"', kind)
            for name, kind in connection.execute(told).fetchall()
        ]
        chosen = [
            f"timezone('UTC', {name})" if kind.endswith("TIME ZONE") else name
            for name, kind in names
        ]
        found = connection.execute(f"select {', '.join(chosen)} from asked").fetchall()
    return sorted(found, key=repr)


def same(found, wanted):
    """Both engines say the same, but for the order in which they add numbers up."""
    assert len(found) == len(wanted)
    pairs = zip(found, wanted, strict=True)
    assert [] == [(left, right) for left, right in pairs if not all(map(close, left, right))]


def close(found, wanted):
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted


def changes_of(events, first, last):
    return [event for event in events if first <= event["_seq"] <= last]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """600 random writes, deletions and messages at 20 topics: snapshots at 100 and 300, pages."""
    chance = random.Random(9)
    lake = Lake(tmp_path_factory.mktemp("fleet") / "snapshots", "Dog", DOG, DOG_SCHEMA)
    events, state = [], {}
    for seq in range(1, 601):
        topic = f"Dog/{chance.randrange(20)}"
        op = chance.choice(["put", "put", "patch", "delete", "message"])
        values = {} if op == "delete" else {"name": f"n{seq}", "age": chance.randrange(15)}
        events.append(event(seq, topic, op, **values))
        if op in {"put", "patch"}:
            state[topic] = events[-1]
        elif op == "delete":
            state.pop(topic, None)
        if seq in {100, 300}:
            lake.snapshot(seq, list(state.values()))
    for first, last in ((51, 200), (201, 400), (401, 450), (451, 600)):
        lake.changes(first, last, changes_of(events, first, last))
    return lake


FOLD = """
select * exclude (n, _op, _origin, _client) from (
  select *, row_number() over (partition by _topic order by _seq desc) n from (
    select *, 'put' _op, null _origin, null _client from '{place}/{base:018d}/Dog/*.parquet'
    union all by name
    select * from '{place}/changes/*/Dog/*.parquet' where _seq > {base} and _op != 'message'
  ) where _seq <= {upto}
) where n = 1 and _op != 'delete'
"""


def test_the_fold_and_the_past_are_those_of_duckdb(spark, fleet):
    """S9 compaction and as-of table: tombstones hide, messages do not count, pages overlap cuts."""
    source = Snapshots(spark, fleet.place, "Dog")
    same(
        rows(compute(source, "compact")), query(FOLD.format(place=fleet.place, base=300, upto=600))
    )
    for at, base, upto in (("log:350", 300, 350), (at_time(299.5), 100, 299), ("", 300, 600)):
        wanted = query(FOLD.format(place=fleet.place, base=base, upto=upto))
        same(rows(compute(source, "asof", at=at)), wanted)
    with pytest.raises(Error, match="the oldest snapshot is of 100"):
        compute(source, "asof", at="99")
    # What was deleted in the last hour is kept as a tombstone, and nothing else is different.
    kept = rows(compute(source, "compact", tombstones="1h"), "_topic", "_seq", "_op")
    gone = query(
        "select _topic, max(_seq), max_by(_op, _seq) o "
        f"from '{fleet.place}/changes/*/Dog/*.parquet' "
        "where _op != 'message' group by all having o = 'delete' and max(_seq) >= 540"
    )
    assert gone
    assert [row for row in kept if row[2] == "delete"] == gone
    assert len(kept) == len(gone) + compute(source, "compact").count()


def test_history_is_intervals_without_gap_or_overlap(spark, fleet):
    """S8: each value of a record, from when to when; what is older than the pages begins there."""
    source = Snapshots(spark, fleet.place, "Dog")
    columns = ("_topic", "_seq", "name", "_valid_from", "_valid_to")
    place = fleet.place
    wanted = query(
        "select _topic, _seq, name, _ts, ends from (select *, lead(_ts) over "
        "(partition by _topic order by _seq) ends from ("
        f"select *, 'put' _op from '{place}/{100:018d}/Dog/*.parquet' where _seq < 51 union all "
        f"by name select * from '{place}/changes/*/Dog/*.parquet') where _op != 'message') "
        "where _op != 'delete'"
    )
    same(rows(compute(source, "history"), *columns), wanted)


def test_a_hole_in_the_log_is_said(spark, tmp_path):
    """S6: pages that do not follow the snapshot are refused, not folded."""
    lake = Lake(tmp_path, "Dog", DOG)
    lake.snapshot(10, [event(3, "Dog/1", name="Rex")])
    lake.changes(20, 30, [event(20, "Dog/1", "delete")])
    with pytest.raises(Error, match="ends at 10 and the pages of the log begin at 20"):
        compute(Snapshots(spark, tmp_path, "Dog"), "compact")
    with pytest.raises(Error, match='has no table dog; did you mean "Dog"'):
        Snapshots(spark, tmp_path, "dog")
    with pytest.raises(Error, match="there is no snapshot in"):
        Snapshots(spark, tmp_path / "none", "Dog")


def test_rollups_are_those_of_duckdb(spark, lake):
    """S9 rollups: 26,115 real readings with gaps, by hour and day; percentiles by their rank."""
    source = Snapshots(spark, lake.place, "Weather")
    options = {"every": "1h,1d", "by": "origin", "time": "time_hour", "values": "temp,wind_gust"}
    result = compute(source, "rollup", **options).cache()
    log = f"'{lake.place}/changes/*/Weather/*.parquet'"
    parts = [
        f"select origin, '{measure}' m, '{every}' e, date_trunc('{unit}', time_hour) s, "
        f"count({measure}), min({measure}), max({measure}), avg({measure}) "
        f"from {log} where {measure} is not null group by all"
        for every, unit in (("1h", "hour"), ("1d", "day"))
        for measure in ("temp", "wind_gust")
    ]
    fields = ("origin", "measure", "every", "start", "count", "min", "max", "mean")
    same(rows(result, *fields), query(" union all ".join(parts)))
    # At most a share of the readings is below what was told, at least that share is up to it.
    shares = {}
    daily = result.where("every = '1d' and measure = 'temp'")
    for share, name in ((0.5, "p50"), (0.95, "p95")):
        for origin, start, value in rows(daily, "origin", "start", name):
            shares.setdefault((origin, start), []).append((share, value))
    days = query(
        f"select origin, date_trunc('day', time_hour) d, list(temp) from {log} "
        "where temp is not null group by all"
    )
    assert len(days) == len(shares)
    for origin, day, temps in days:
        for share, value in shares[origin, day]:
            rank = math.ceil(share * len(temps))
            assert sum(x < value for x in temps) < rank <= sum(x <= value for x in temps)
    again = compute(source, "rollup", **options)
    assert again.exceptAll(result).isEmpty()
    result.unpersist()
