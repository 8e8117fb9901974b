"""Each job beside DuckDB on the same files: another engine, another language, the same rows."""

import math
import random

import pyarrow as pa
import pytest

from lake import TIME, Lake, at, event, weather_log
from rowcast.core.errors import Error
from rowcast.schema import parse_schema

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("compiled_plans"),  # as everybody has them
]
pytest.importorskip("pyspark", reason="NO SPARK: the jobs are NOT tested here")

from beside import compute, query, rows, same  # noqa: E402

from rowcast_lake.spark.inputs import Snapshots  # noqa: E402

DOG = [("id", pa.string()), ("name", pa.string()), ("age", pa.int32())]
DOG_SCHEMA = "type Dog @table @export { id: ID @primaryKey, name: String!, age: Int }"


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    """A year of real weather as a log."""
    return weather_log(tmp_path_factory.mktemp("lake") / "snapshots")


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
    wanted = query(FOLD.format(place=fleet.place, base=300, upto=600))
    same(rows(compute(source, "compact")), wanted)
    between = at(299.5).isoformat()
    exactly = at(299).isoformat()  # what was written at that time is included, as by ?asof=
    times = ((between, 100, 299), (exactly, 100, 299))
    for moment, base, upto in (("log:350", 300, 350), *times, ("", 300, 600)):
        wanted = query(FOLD.format(place=fleet.place, base=base, upto=upto))
        same(rows(compute(source, "asof", at=moment)), wanted)
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


def test_gaps_anomalies_and_retention_are_those_of_duckdb(spark, lake):
    """S9 gaps, anomalies (robust, seasonal) and retention over the same real readings."""
    source = Snapshots(spark, lake.place, "Weather")
    series = {"by": "origin", "time": "time_hour"}
    log = f"'{lake.place}/changes/*/Weather/*.parquet'"
    found = compute(source, "gaps", longer="1h", **series)
    wanted = query(
        "select origin, time_hour s, e, epoch(e)::bigint - epoch(s)::bigint d, n is null from "
        "(select *, coalesce(n, max(time_hour) over ()) e from (select *, lead(time_hour) over "
        f"(partition by origin order by time_hour) n from {log})) where d > 3600"
    )
    assert 10 < len(wanted) < 100
    same(rows(found, "origin", "from", "to", "seconds", "open"), wanted)

    found = compute(source, "anomalies", values="temp,precip", score="5", span="30d", **series)
    parts = [
        f"select origin, '{name}' m, time_hour t, {name}::double v, "
        f"hour(time_hour) h, floor(epoch(time_hour) / 2592000) k from {log} "
        f"where {name} is not null"
        for name in ("temp", "precip")
    ]
    wanted = query(
        f"with l as ({' union all '.join(parts)}), "
        "c as (select *, median(v) over w e, count(v) over w n from l "
        "window w as (partition by origin, m, h, k)), "
        "d as (select *, median(abs(v - e)) over w a, avg(abs(v - e)) over w b from c "
        "window w as (partition by origin, m, h, k)), "
        "r as (select *, (v - e) / case when a > 0 then a / 0.6745 when b > 0 then b / 0.7979 end "
        "z from d where n >= 10) "
        "select origin, m, t, v, e, z from r where abs(z) >= 5"
    )
    assert {"temp", "precip"} == {row[1] for row in wanted}
    same(rows(found, "origin", "measure", "at", "value", "expected", "score"), wanted)

    options = {"keep": "7d", "at": "2013-12-30T00:00:00Z", "last": "50"}
    found = compute(source, "retention", **options, **series)
    wanted = query(
        f"select origin, _seq from {log} where time_hour >= '2013-12-23 00:00:00+00' "
        "qualify row_number() over (partition by origin order by time_hour desc) <= 50"
    )
    same(rows(found, "origin", "_seq"), wanted)


def test_quality_finds_what_was_planted(spark, tmp_path):
    """S9 data quality: each rule of schema.graphql finds exactly the rows that break it."""
    fields = [
        ("id", pa.string()), ("name", pa.string()), ("weight", pa.float64()), ("age", pa.int64()),
        ("price", pa.string()), ("any", pa.string()), ("tags", pa.list_(pa.string())),
        ("made", TIME), ("changed", TIME), ("_extra", pa.string()),
    ]  # fmt: skip
    schema = parse_schema(
        "type Item @table @export { id: ID @primaryKey, name: String!, weight: Float, age: Int, "
        "price: Decimal, any: Any, tags: [String!], late: String, made: Date @createdTime, "
        "changed: Date @updatedTime }"
    )
    good = {
        "name": "a", "weight": 1.0, "price": "1.50", "any": '{"a": 1}', "tags": ["x"],
        "made": at(1), "changed": at(2),
    }  # fmt: skip
    bad = {
        "1": {"name": None}, "2": {"weight": math.inf}, "3": {"weight": math.nan},
        "4": {"price": "cheap"}, "5": {"any": "{"}, "6": {"tags": ["x", None]},
        "7": {"changed": at(0)}, "8": {"_extra": '{"colour": 1, "size": 2}'},
        "9": {"_extra": '{"colour": 2}'},
    }  # fmt: skip
    lines = [event(n, f"Item/{n}", **good) for n in range(10, 20)]
    lines += [event(int(key), f"Item/{key}", **{**good, **fault}) for key, fault in bad.items()]
    lines += [event(20, "Item/10", **good) | {"_topic": "Item/20"}]
    lake = Lake(tmp_path, "Item", fields)
    lake.snapshot(20, lines)
    source = Snapshots(spark, tmp_path, "Item")
    report = compute(source, "quality", schema.tables[0]).cache()
    found = rows(report.where("not good"), "attribute", "rule", "failed", "rows")
    same(found, sorted([
        ("name", "required", 1, 20), ("weight", "finite", 2, 20), ("age", "type", 20, 20),
        ("price", "a number", 1, 20), ("any", "JSON", 1, 20), ("tags", "no null inside", 1, 20),
        ("changed", "not before made", 1, 20), ("late", "present", 20, 20),
        ("colour", "declared", 2, 20), ("size", "declared", 1, 20), ("id", "unique", 2, 20),
        ("id", "is the topic's", 1, 20),
    ], key=repr))  # fmt: skip
    kept = {(row[0], row[1]) for row in rows(report.where("good"), "attribute", "rule")}
    assert {("id", "not empty"), ("name", "type"), ("made", "present")} <= kept
    with pytest.raises(Error, match="no declared table"):
        compute(source, "quality")
