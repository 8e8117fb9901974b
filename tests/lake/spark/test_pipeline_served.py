"""What Spark's tasks read of a server, without Spark: files in parts, and the log; M2."""

import random

import pyarrow as pa
import pytest

from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.spark.log_rows import LogRows, events, history_path
from rowcast_lake.spark.places import Directory, Served
from rowcast_lake.spark.remote import Remote
from rowcast_lake.spark.source import Snapshot, read_part, spark_schema
from serving import Server

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
  born: Date
  weight: Float
  price: Decimal
  cost: Decimal @decimal(precision: 8, scale: 2)
  chip: Bytes
  tags: [String]
  home: Home
  more: Any
  secret: String @hidden
}
type Home { street: String number: Int }
type Quiet @table @export { id: ID @primaryKey n: Int }
"""


def a_dog(dice):
    every = {
        "age": dice.randrange(20),
        "born": f"2020-01-{dice.randrange(1, 28):02d}T00:00:00.{dice.randrange(1000):03d}Z",
        "weight": dice.choice([1, 2.5, 1e300]),
        "price": dice.choice(["1.10", "0.001"]),
        "chip": "AAE=",
        "tags": dice.choice([[], ["a", None], ["ü"]]),
        "home": dice.choice([{"street": "x"}, {"number": 3, "odd": True}, {"street": None}, None]),
        "cost": dice.choice(["1.5", None]),
        "more": dice.choice([1, "text", {"a": [1, None]}, [True]]),
        "secret": "hidden",
        "odd": {"z": dice.random()},
    }
    kept = dice.sample(sorted(every), dice.randrange(len(every) + 1))
    return {"name": dice.choice(["Rex", "Ida"])} | {name: every[name] for name in kept}


def write_some(client, dice, count):
    for _ in range(count):
        topic = f"/Dog/{dice.randrange(12)}"
        action = dice.random()
        if action < 0.6:
            client.put(topic, json=a_dog(dice)).raise_for_status()
        elif action < 0.8:
            client.patch(topic, json={"name": "new", "age": None})
        elif action < 0.9:
            client.delete(topic)
        else:
            client.post(f"{topic}?retain=false", json={"name": "wuff"})


def rows_of(snapshot):
    schema = spark_schema(snapshot.schema)
    return [
        row
        for part in snapshot.parts(1)
        for batch in read_part(snapshot, part, schema)
        for row in batch.to_pylist()
    ]


def digest_of(rows, snapshot):
    facts = snapshot.manifest["tables"][snapshot.name]
    digest = Digest(tuple(facts["content"]))
    schema = pa.schema([snapshot.schema.field(name) for name in facts["content"]])
    ordered = sorted(rows.values(), key=lambda row: row["id"].encode())
    digest.update(pa.RecordBatch.from_pylist(ordered, schema))
    return str(digest)


def fold(rows, told):
    """What the stream's reader does: the last word of each key counts, messages do not."""
    for row in told:
        if row["_op"] == "delete":
            rows.pop(row["id"], None)
        elif row["_op"] != "message":
            rows[row["id"]] = row
    return rows


@pytest.mark.slow
def test_m2_a_snapshot_and_the_log_after_it_are_the_next_snapshot(tmp_path):
    """M2, S13: digest(snapshot N + events of N+1..M) = digest(snapshot M), over HTTP alone."""
    dice = random.Random(5)
    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        place = Served(Remote(server.url), export=True)
        local = Directory(str(tmp_path / "data" / "snapshots"))
        write_some(client, dice, 40)
        first = Snapshot.of(place, "newest", "Dog")
        rows = fold({}, rows_of(first))
        assert digest_of(rows, first) == first.manifest["tables"]["Dog"]["digest"]
        epoch, seq = first.cut
        for _ in range(2):
            write_some(client, dice, 60)
            later = Snapshot.of(place, "newest", "Dog")
            makes = LogRows(later.table, later.schema)
            told = events(place.remote, history_path(later.table, "Dog"), epoch, seq, later.cut[1])
            fold(rows, [row for batch in makes.batches(told) for row in batch.to_pylist()])
            assert digest_of(rows, later) == later.manifest["tables"]["Dog"]["digest"]
            assert rows_of(later) == rows_of(Snapshot.of(local, later.folder, "Dog"))
            seq = later.cut[1]
        quiet = Snapshot.of(place, "newest", "Quiet")
        assert rows_of(quiet) == []
        assert "n" in quiet.schema.names


@pytest.mark.slow
def test_s4_s9_spark_reads_an_export_with_the_declared_types(spark, tmp_path):
    """S4, S9: plain `spark.read.parquet`, and the format `rowcast` from a server, give the same."""
    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        client.put("/Dog/1", json=a_dog(random.Random(1)) | {"home": {"number": 3}})
        read = spark.read.format("rowcast").options(url=server.url, table="Dog", export="true")
        served = read.load()
        place = tmp_path / "data" / "snapshots" / "newest" / "Dog"
        plain = spark.read.parquet(str(place))
        types = dict(plain.dtypes)
        assert {name: types[name] for name in ("id", "age", "born", "weight", "price", "chip")} == {
            "id": "string", "age": "int", "born": "timestamp", "weight": "double",
            "price": "string", "chip": "binary",
        }  # fmt: skip
        assert types["tags"] == "array<string>"
        assert types["home"].startswith("struct<street:string,number:int")
        assert "secret" not in types
        assert served.drop("_op").collect() == plain.drop("_op").collect()
