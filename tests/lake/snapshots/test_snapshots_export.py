"""Export: what is in a snapshot, and that nobody sees half of one (S1-S5, S18)."""

import json
import os
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import SCHEMA, Exported
from rowcast.core.errors import Code, Error
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.verify import verify


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path)
    yield made
    made.close()


NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, UTC)
REX = {
    "id": "1",
    "name": "Rex",
    "age": 3,
    "weight": 1.5,
    "price": Decimal("12.30"),
    "chip": 2**53 + 1,
    "good": True,
    "born": NOON,
    "photo": b"\x00\x01",
    "any": {"at": NOON, "list": [1, None]},
    "owner": {"name": "Ann", "born": NOON, "balance": Decimal("1.10"), "tags": ["x"], "zip": 5},
    "at": {"x": 1.0, "y": 2.0},
    "path": [{"x": 1.0, "y": 2.0}, None],
    "nums": [1, None, 3],
    "days": [NOON],
    "secret": "s3cret",
    "colour": "red",
}
META = ("_topic", "_seq", "_ts", "_op", "_origin", "_client")


def test_a_record_is_a_row_of_its_types(world):
    """S4, S5: each declared type, nested ones too, comes back as it was written."""
    world.put("Dog", "1", REX)
    world.export()
    (row,) = world.rows("Dog")
    meta = {name: row.pop(name) for name in META}
    assert row == {
        **{name: value for name, value in REX.items() if name not in {"secret", "colour"}},
        "price": "12.30",
        "any": '{"at":{"$date":"2026-01-02T12:00:00.123456Z"},"list":[1,null]}',
        "owner": {
            "name": "Ann", "born": NOON, "balance": "1.10", "tags": ["x"], "note": None,
            "_extra": '{"zip":5}',
        },
        "_extra": '{"colour":"red"}',
    }  # fmt: skip
    assert meta == {
        "_topic": "Dog/1",
        "_seq": 1,
        "_ts": datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=1),
        "_op": "put",
        "_origin": world.store.epoch,
        "_client": "ann",
    }
    assert b"s3cret" not in (world.directory / "newest/Dog/part-00000.parquet").read_bytes()


def test_the_types_are_those_of_the_schema(world):
    """S4: microseconds in UTC, no nanoseconds, for an empty table too; DuckDB reads the same."""
    world.export()
    path = world.directory / "newest/Dog/part-00000.parquet"
    schema = pq.read_schema(path)
    assert schema.field("born").type == pa.timestamp("us", "UTC")
    assert schema.field("age").type == pa.int32()
    described = duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
    types = {name: kind for name, kind, *_ in described}
    assert types["born"] == types["_ts"] == "TIMESTAMP WITH TIME ZONE"
    assert (types["age"], types["chip"], types["weight"]) == ("INTEGER", "BIGINT", "DOUBLE")
    assert (types["good"], types["photo"], types["any"]) == ("BOOLEAN", "BLOB", "VARCHAR")
    assert types["nums"] == "INTEGER[]"
    assert types["at"] == "STRUCT(x DOUBLE, y DOUBLE)"
    assert "secret" not in types


def test_what_sql_cannot_say_is_said(world):
    """S5: NaN is NaN, an explicit null is null, and what nobody declared stays."""
    world.put("Dog", "1", {"name": None, "weight": float("nan"), "any": float("nan"), "x": [1]})
    world.put("Dog", "2", {"name": "a", "x": {"name": 1}})
    world.export()
    one, two = world.rows("Dog")
    assert one["weight"] != one["weight"]
    assert (one["name"], one["any"], one["_extra"]) == (
        None,
        '{"$float":"NaN"}',
        '{"x":[1],"name":null}',
    )
    assert two["_extra"] == '{"x":{"name":1}}'


def test_content_without_a_type_is_whole(world):
    """S5: of an open table the JSON, or the bytes and what they are."""
    world.put("Free", "j", {"a": 1}, payload=b'{"a": 1}', content_type="application/json")
    world.put("Free", "b", payload=b"\xff", content_type="image/png")
    world.export()
    png, json_row = world.rows("Free")
    assert (png["_id"], png["_payload"], png["_content_type"]) == ("b", b"\xff", "image/png")
    assert (json_row["_extra"], json_row["_payload"]) == ('{"a": 1}', None)


def test_null_and_absent_are_told_apart(world):
    """S5: at any depth, and by the digest; what is hidden is not told even so."""
    digests = []
    for dog, rest, inner in (
        ({}, None, None),
        ({"age": None}, '{"age":null}', None),
        ({"any": None}, '{"any":null}', None),
        ({"owner": {}}, None, None),
        ({"owner": {"note": None}}, None, '{"note":null}'),
        ({"beside": None}, '{"beside":null}', None),
    ):
        world.put("Dog", "1", dog | {"secret": None})
        digests.append(world.export("Dog").manifest.tables["Dog"].digest)
        (row,) = world.rows("Dog")
        assert (row["_extra"], (row["owner"] or {}).get("_extra")) == (rest, inner)
    assert len(set(digests)) == len(digests)


def test_null_in_a_sealed_nested_type_is_told_from_absent(tmp_path):
    """S5: such a type has a rest of its own; one whose fields are all required has none."""
    schema = """
    type Home @sealed { street: String, no: Int! }
    type Dog @table @export @sealed { id: ID @primaryKey, home: Home, all: [Home] }
    """
    made = Exported(tmp_path, schema)
    try:
        made.put("Dog", "1", {"home": {"street": None, "no": 1}, "all": [{"no": 2}, None]})
        made.put("Dog", "2", {"home": None})
        made.export()
        one, two = made.rows("Dog")
    finally:
        made.close()
    assert one["home"] == {"street": None, "no": 1, "_extra": '{"street":null}'}
    assert one["all"] == [{"street": None, "no": 2, "_extra": None}, None]
    assert (two["home"], two["_extra"]) == (None, '{"home":null}')


def test_a_payload_that_is_text_is_so_for_sql(world):
    """S5: beside the bytes, for DuckDB to look into; null where it is none."""
    said = [
        (b'{"c": 21.5}', None), (b"\xff", None), (b"\x01", "image/png"), (b"<a/>", "image/svg+xml"),
        ("ü".encode(), "text/plain; charset=utf-8"), (b'{"c": 20}', "application/x+json"),
    ]  # fmt: skip
    world.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    for number, (payload, media_type) in enumerate(said):
        world.put(None, f"home/{number}", payload=payload, content_type=media_type)
        world.put("Free", f"{number}", payload=payload, content_type=media_type)
    world.export()
    newest = world.directory / "newest"
    texts = ['{"c": 21.5}', None, None, "<a/>", "ü", '{"c": 20}']
    for table, column, order in (
        ("mqtt_home", "payload_text", "_seq"), ("_retained", "payload_text", "topic"),
        ("Free", "_payload_text", "_id"),
    ):  # fmt: skip
        asked = f"SELECT {column} FROM '{newest}/{table}/*.parquet' ORDER BY {order}"
        assert [row[0] for row in duckdb.sql(asked).fetchall()] == texts
    heat = f"SELECT sum((payload_text->>'$.c')::DOUBLE) FROM '{newest}/mqtt_home/*.parquet'"
    heat += " WHERE json_valid(payload_text)"
    assert duckdb.sql(heat).fetchall() == [(41.5,)]


def test_every_row_says_which_write_made_it(world):
    """A17: number, time, origin, client and kind, of records, topics and topic tables."""
    world.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    world.put("Dog", "1", REX)
    world.put("Dog", "2", REX, client="", properties={"origin": "other"})
    world.put(None, "home/x", payload=b"1", properties={"origin": "far"})
    world.put(None, "home/y", payload=b"1", kind="message")
    world.export()

    def of(table):
        names = ("_seq", "_op", "_origin", "_client")
        assert all(row["_ts"].year == 2023 for row in world.rows(table))
        return [tuple(row[name] for name in names) for row in world.rows(table)]

    own = world.store.epoch
    assert of("Dog") == [(1, "put", own, "ann"), (2, "put", "other", None)]
    assert of("_retained") == [(3, "put", "far", "ann")]
    assert of("mqtt_home") == [(3, "put", "far", "ann"), (4, "message", own, "ann")]


def test_a_snapshot_of_the_format_before_is_read_and_replaced(world):
    """S11: it is verified and proved by its own words; the same cut is exported anew."""
    world.put("Dog", "1", {"age": None})
    first = world.export()
    path = first.place / "manifest.json"
    path.write_text(path.read_text().replace('"format": 3', '"format": 1', 1))
    assert verify(first.place).format == 1
    again = world.export()
    assert (again.new, again.place == first.place, again.manifest.format) == (True, False, 3)
    world.put("Dog", "1", {"age": 1})
    last = world.export().place.name
    with pytest.raises(Error, match="there are no changes from 2 on"):
        differences(world.directory, [], first.place.name, last)
    path.write_text(path.read_text().replace('"format": 1', '"format": 4', 1))
    with pytest.raises(Error, match="is of format 4; this version reads formats 1 and 2 and 3"):
        read_manifest(first.place)


def test_a_sealed_table_has_its_columns_only(world):
    """S5: and integer keys are integers, in their order."""
    world.put("Strict", 10, {"v": 1})
    world.put("Strict", 9, {"v": 2})
    world.export()
    assert [row["n"] for row in world.rows("Strict")] == [9, 10]
    assert list(world.rows("Strict")[0]) == ["n", "v", *META]


def test_the_manifest_tells_what_is_there(world):
    """S10: rows, numbers, sums; the cut is the last number in it."""
    world.put("Dog", "1", REX)
    world.put("Strict", 1, {"v": 1})
    made = world.export()
    known = read_manifest(made.place)
    assert known == made.manifest
    assert known.cut == f"{world.store.epoch}:2"
    assert made.place.name == "000000000000000002"
    assert (world.directory / "newest").readlink().name == made.place.name
    dog = known.tables["Dog"]
    assert (dog.rows, dog.seq_min, dog.seq_max) == (1, 1, 1)
    assert known.tables["Free"].rows == 0
    assert known.tables["Free"].seq_min is None
    assert json.loads((made.place / "manifest.json").read_text())["schema"] == SCHEMA


def test_nothing_new_makes_nothing_new(world):
    """S3: the same cut is the same snapshot; other tables of it stand beside it."""
    world.put("Dog", "1", REX)
    first = world.export()
    again = world.export()
    assert first.new
    assert not again.new
    assert again.place == first.place
    part = world.export("Dog")
    assert part.place.name == "000000000000000001-1"
    assert list(part.manifest.tables) == ["Dog"]
    assert SnapshotDirectory(world.directory).newest() == first.place.name


def test_a_part_is_the_newest_only_among_parts(world):
    """S3: who reads the newest snapshot finds the tables that it had."""
    snapshots = SnapshotDirectory(world.directory)
    for number, tables in enumerate((("Dog",), ("Dog", "Free"), ("Dog",), ()), 1):
        world.put("Dog", str(number), REX)
        world.export(*tables)
        assert snapshots.newest() == f"{(1, 2, 2, 4)[number - 1]:018d}"


def test_a_restored_log_has_the_newest_snapshot_although_its_numbers_are_less(world, tmp_path):
    """S3, S12: where snapshots are outside of the data directory, those of before stay there."""
    for number in range(3):
        world.put("Dog", str(number), REX)
        world.export()
    (tmp_path / "restored").mkdir()
    other = Exported(tmp_path / "restored")
    other.directory, snapshots = world.directory, SnapshotDirectory(world.directory)
    before = snapshots.names()
    other.put("Dog", "0", REX)
    made = other.export().place.name
    assert (before[0] + "-1", made) == (made, snapshots.newest())
    other.put("Dog", "1", REX)
    again = other.export().place.name
    assert [*before[2:], *before[:1], made] == snapshots.keep(2)
    assert (again, [before[1], again]) == (snapshots.newest(), snapshots.names())
    other.close()


def test_snapshots_grow_old(world):
    """S12: retention by age leaves the newest, however old it is."""
    snapshots, names = SnapshotDirectory(world.directory), []
    for number in range(3):
        world.put("Dog", str(number), REX)
        place = world.export().place
        names.append(place.name)
        os.utime(place, (number * 100, number * 100))
    assert snapshots.keep(0, 100) == names[:1]
    assert snapshots.keep(0, 1_000) == names[1:2]
    assert (snapshots.names(), snapshots.newest()) == (names[2:], names[2])


def test_what_is_not_there_is_told(world):
    """S1: a table that is not declared, data that is not there, a schema that is ahead."""
    with pytest.raises(Error, match=r"no table Dgo.*Dog"):
        world.export("Dgo")
    schema, world.schema = world.schema, world.schema + "type Cat @table @export { a: Int }"
    with pytest.raises(Error, match=r"the table Cat is not in .*start the server once"):
        world.export()
    world.schema = schema.replace("age: Int", "age: Int, size: Int")
    with pytest.raises(Error, match=r"Dog\.size is not in"):
        world.export()
    world.close()
    (world.path / "rowcast.db").unlink()
    with pytest.raises(Error, match="there is no data at"):
        world.export()


def test_one_at_a_time_and_the_dead_are_swept(world):
    """S3: the lock tells who is alive; what a dead export left is removed by the next."""
    snapshots = SnapshotDirectory(world.directory)
    with snapshots.making() as making, pytest.raises(Error) as caught:
        assert making.place.is_dir()
        world.export()
    assert caught.value.code is Code.BUSY
    (world.directory / ".making-dead" / "Dog").mkdir(parents=True)
    world.put("Dog", "1", REX)
    world.export()
    assert [item.name for item in world.directory.iterdir() if "making" in item.name] == []


@pytest.mark.heavy
def test_a_disk_without_room_changes_nothing(world):
    """S3: the last snapshot stays the newest, and nothing is left of the one that failed."""
    world.put("Dog", "1", REX)
    first = world.export()
    world.put("Dog", "2", REX | {"photo": os.urandom(8_000_000)})
    with pytest.raises(Error, match="is full"):
        world.export(free_bytes_min=2**60)
    assert SnapshotDirectory(world.directory).newest() == first.place.name
    assert [item.name for item in world.directory.iterdir() if "making" in item.name] == []


def test_the_newest_are_kept_and_those_being_read(world):
    """S12: retention by count leaves the newest, and what somebody holds."""
    names = []
    for number in range(5):
        world.put("Dog", str(number), REX)
        names.append(world.export().place.name)
    snapshots = SnapshotDirectory(world.directory)
    with snapshots.pin(names[1]) as place:
        assert snapshots.keep(2) == [names[0], names[2]]
        assert (place / "Dog" / "part-00000.parquet").is_file()
    assert snapshots.keep(2) == [names[1]]
    snapshots.remove("newest")
    assert (snapshots.names(), snapshots.newest()) == ([names[3]], names[3])
