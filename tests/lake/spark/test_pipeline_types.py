"""A stream of every declared type, from a snapshot and then live (S13, M2)."""

from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from math import isnan

import duckdb
import pyarrow as pa
import pytest

from exported import Exported
from serving import Server

pytestmark = pytest.mark.slow
pytest.importorskip("pyspark", reason="NO SPARK: streams are NOT tested here")

SCHEMA = """
type Part { name: String!, at: Date, cost: Decimal, raw: Bytes, count: Long, note: Any }
type Shut @sealed { x: Float!, label: String }
type Thing @table @export {
  id: ID @primaryKey, text: String, int: Int, long: Long, real: Float, decimal: Decimal,
  money: Decimal @decimal(precision: 12, scale: 2), flag: Boolean, at: Date, raw: Bytes, any: Any,
  part: Part, shut: Shut, parts: [Part], texts: [String], ints: [Int], longs: [Long],
  reals: [Float], decimals: [Decimal], flags: [Boolean], times: [Date], raws: [Bytes], anys: [Any],
  nested: [[Int]]
}
type Loose @table @export
"""
FULL = {
    "text": "ü\n", "int": -(2**31), "long": 2**63 - 1, "real": 0.1, "decimal": "1E+3",
    "money": "12.5", "flag": True, "at": "2026-01-02T03:04:05.678901Z", "raw": "AAE=",
    "any": {"a": [1, None]}, "shut": {"x": 1.5, "label": None},
    "part": {"name": "p", "at": "1969-12-31T23:59:59.9Z", "cost": "1.10", "raw": "/w==",
             "count": -(2**63), "note": [None], "odd": {"z": None}},
    "parts": [{"name": "q"}, None, {"name": "r", "note": None}], "texts": ["a", None], "ints": [],
    "longs": [2**53 + 1], "reals": [1e300, None], "decimals": ["0.10"], "flags": [False, None],
    "times": ["2026-01-02T00:00:00Z"], "raws": ["AA=="], "anys": [1, "t", {"b": None}],
    "nested": [[1, None], []], "odd": {"un": ["declared"]},
}  # fmt: skip
NAMES = [name for name in FULL if name != "odd"]
ROWS = {
    "full": FULL,
    "empty": {},
    "null": dict.fromkeys(NAMES),
    "some": {"money": None, "text": "", "part": {"name": "n"}, "real": {"$float": "NaN"}},
}


@pytest.fixture(scope="module")
def streamed(spark, tmp_path_factory):
    """Return rows of a stream by id, and the newest snapshot: each row old and live."""
    place = tmp_path_factory.mktemp("types")
    with Server(place, SCHEMA) as server, server.client() as client:
        options = {"url": server.url, "export": "true"}
        for name, value in ROWS.items():
            client.put(f"/Thing/old-{name}", json=value).raise_for_status()
        client.put("/Loose/old", content=b"hi", headers={"content-type": "text/plain"})
        spark.read.format("rowcast").options(**options, table="Thing").load()
        for name, value in ROWS.items():
            client.put(f"/Thing/live-{name}", json=value).raise_for_status()
        client.put("/Loose/live", content=b"hi", headers={"content-type": "text/plain"})
        found = {}
        for table in ("Thing", "Loose"):
            stream = spark.readStream.format("rowcast").options(url=server.url, table=table)
            out = str(place / table)
            query = (
                stream.load().writeStream.format("parquet").trigger(availableNow=True)
                .option("checkpointLocation", f"{out}-checkpoint").start(out)
            )  # fmt: skip
            assert query.awaitTermination(300)
            found[table] = spark.read.parquet(out).collect()
        spark.read.format("rowcast").options(**options, table="Thing").load()
        yield found, place / "data" / "snapshots" / "newest"


OF_THE_WRITE = {"id", "_id", "_topic", "_seq", "_ts", "_version", "_op"}


def contents(rows, key="id"):
    """Return the content of each row by its key, NaN as text: it is not equal to itself."""
    return {
        row[key]: {
            name: "NaN" if isinstance(value, float) and isnan(value) else value
            for name, value in row.asDict(recursive=True).items()
            if name not in OF_THE_WRITE
        }
        for row in rows
    }


@pytest.mark.parametrize("name", ROWS)
def test_every_type_is_the_same_live_and_of_a_snapshot(streamed, name):
    """S13, M2: scalars, 64-bit integers, decimals, bytes, times, nested types, lists, nulls."""
    rows = contents(streamed[0]["Thing"])
    assert rows[f"live-{name}"] == rows[f"old-{name}"]
    assert len(rows) == 2 * len(ROWS)


def test_live_values_are_what_was_written(streamed):
    """S13: exactly."""
    full = contents(streamed[0]["Thing"])["live-full"]
    assert (full["long"], full["money"], full["decimal"]) == (2**63 - 1, Decimal("12.50"), "1E+3")
    assert full["at"].astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert (bytes(full["raw"]), full["part"]["count"]) == (b"\0\1", -(2**63))
    assert (full["nested"], full["longs"]) == ([[1, None], []], [2**53 + 1])
    assert full["shut"] == {"x": 1.5, "label": None, "_extra": '{"label":null}'}
    assert full["_extra"] == '{"odd":{"un":["declared"]}}'


def test_a_later_snapshot_says_of_live_rows_what_the_stream_said(streamed):
    """M2: read by another engine; null and absent are told apart."""
    found, newest = streamed
    columns = ", ".join(f'"{name}"' for name in ("id", "money", "long", "_extra", "_client"))
    asked = f"SELECT {columns} FROM '{newest}/Thing/*.parquet' WHERE id LIKE 'live-%' ORDER BY id"
    rows = [row for row in found["Thing"] if row["_op"] == "put"]
    assert duckdb.sql(asked).fetchall() == sorted(
        (row.id, row.money, row["long"], row["_extra"], row["_client"]) for row in rows
    )
    assert '"money":null' in contents(rows)["live-null"]["_extra"]
    assert contents(rows)["live-empty"]["_extra"] is None


def test_text_of_a_table_without_types_is_text_live_too(streamed):
    """S13: beside its bytes."""
    rows = {row["_id"]: row for row in streamed[0]["Loose"]}
    assert {key: (bytes(row["_payload"]), row["_payload_text"]) for key, row in rows.items()} == {
        "old": (b"hi", "hi"), "live": (b"hi", "hi"),
    }  # fmt: skip


def test_a_job_reads_files_of_two_ages(spark, tmp_path):
    """S11: a column whose type has changed has the type of both, by the table of all readers."""
    from beside import compute

    from lake import Lake, event
    from rowcast_lake.spark.inputs import Snapshots

    def lake(price, shut, n):
        fields = [("id", pa.string()), ("price", price), ("shut", pa.struct(shut)), ("n", n)]
        return Lake(tmp_path, "Dog", pa.schema(fields))

    old = lake(pa.string(), [("x", pa.int32())], pa.int32())
    new = lake(pa.decimal128(8, 2), [("x", pa.float64()), ("_extra", pa.string())], pa.int64())
    row = event(1, "Dog/1", price="1.5", shut={"x": 1}, n=1)
    old.snapshot(1, [{name: row[name] for name in old.state.names}])
    old.changes(2, 2, [event(2, "Dog/2", price="0.123", n=2)])
    new.changes(3, 3, [event(3, "Dog/3", price=Decimal("2.50"), shut={"x": 2.5}, n=2**40)])
    found = compute(Snapshots(spark, tmp_path, "Dog"), "compact")
    types = dict(found.dtypes)
    assert (types["price"], types["n"]) == ("string", "bigint")
    assert types["shut"] == "struct<x:double,_extra:string>"
    rows = {row.id: (row.price, row.shut and row.shut.x, row.n) for row in found.collect()}
    assert rows == {"1": ("1.5", 1.0, 1), "2": ("0.123", None, 2), "3": ("2.50", 2.5, 2**40)}


BEFORE = """type Cat @table @export {
  id: ID @primaryKey, age: Int, gone: String, mass: Float, kind: Int
}"""
AFTER = """type Cat @table @export {
  id: ID @primaryKey, age: Long, weight: Float, kind: Float, new: Date
}"""


def test_snapshots_of_two_schemas_are_one_frame(spark, tmp_path):
    """S11: added, dropped, renamed (which is both) and widened, with each value as it was."""
    from pyspark.sql import functions as F  # noqa: N812

    from rowcast_lake.spark.unions import union

    world = Exported(tmp_path, BEFORE)
    world.put("Cat", "1", {"age": 3, "gone": "x", "mass": 2.5, "kind": 7})
    names = [world.export().place.name]
    world.open(AFTER)
    new = datetime(2026, 1, 2, tzinfo=UTC)
    world.put("Cat", "2", {"age": 2**40, "weight": 4.5, "kind": 1.5, "new": new})
    names.append(world.export().place.name)
    world.close()
    read = spark.read.format("rowcast").option("table", "Cat")
    ages = [read.option("snapshot", name).load(str(world.directory)) for name in names]
    both = reduce(union, ages)
    assert {"age": "bigint", "kind": "double", "gone": "string", "new": "timestamp"} == {
        name: kind for name, kind in both.dtypes if name in {"age", "kind", "gone", "new"}
    }
    mass = F.coalesce("weight", "mass").alias("mass")
    rows = both.select("_seq", "id", "age", "gone", mass, "kind").orderBy("_seq", "gone").collect()
    assert [tuple(row)[1:] for row in rows if row.gone or row.id == "2"] == [
        ("1", 3, "x", 2.5, 7.0), ("2", 2**40, None, 4.5, 1.5),
    ]  # fmt: skip
    assert 3 == len(rows)
