"""Import: Parquet files as records (S19)."""

import asyncio
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing import Changing

from rowcast.core.errors import Code, Error
from rowcast.schema import parse_schema
from rowcast_lake.commands.importing import import_table
from rowcast_lake.snapshots.importing import Importer, files_of
from rowcast_lake.snapshots.manifest import read_manifest

SCHEMA = """
type Point { x: Float!, at: Date }
type Dog @table @export {
  id: ID @primaryKey, name: String!, age: Int, born: Date, any: Any, at: Point, many: [Any]
}
type Strict @table @export @sealed { n: Long @primaryKey, v: Int }
type Note @table @export { text: String }
"""


MOMENT = pa.timestamp("us", "UTC")


def table(name):
    return next(item for item in parse_schema(SCHEMA).tables if item.name == name)


@pytest.fixture
def file(tmp_path):
    def make(**columns):
        path = tmp_path / "rows.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return make


@pytest.mark.heavy
async def test_what_is_imported_is_exported_again_alike(tmp_path):
    """S19: export, import, export: equal digests, of every type and of open tables."""
    one, other = tmp_path / "one", tmp_path / "other"
    worlds = []
    for folder in (one, other):
        folder.mkdir()
        worlds.append(Changing(folder, 5))
        worlds[-1].schema = worlds[-1].schema.replace("made: Date @createdTime, ", "")
    quiet = {"mqtt.sys_interval": 0}
    async with worlds[0].running(**quiet) as first, worlds[1].running(**quiet) as second:
        await first.writer.put_accounts(*first.writer.amounts)
        for _ in range(4):
            await first.writer.write(60)
        taken = one / "data/snapshots" / await first.snapshot()
        for name in ("Dog", "Free", "Strict", "Account"):
            schema = one / "schema.graphql"
            await asyncio.to_thread(import_table, name, str(taken), schema, second.url)
        again = other / "data/snapshots" / await second.snapshot()
    before, after = read_manifest(taken).tables, read_manifest(again).tables
    for name in ("Dog", "Free", "Strict", "Account"):
        assert before[name].rows > 1
        assert (before[name].rows, before[name].digest) == (after[name].rows, after[name].digest)


async def test_rows_of_an_import_are_events(tmp_path, file):
    """S19: who watches sees them; one batch is one transaction, a refused one leaves nothing."""
    path = file(id=["a", "b"], text=["one", "two"], more=[1, None])
    world = Changing(tmp_path, 1)
    world.schema = SCHEMA
    async with world.running(**{"mqtt.sys_interval": 0}):
        head = world.head
        schema = tmp_path / "schema.graphql"
        await asyncio.to_thread(import_table, "Note", str(path), schema, world.url)
        assert ["Note/a", "Note/b"] == world.topics_after(head)
        note = await world.kernel.read("Note/a", world.ann)
        assert {"text": "one", "more": 1} == world.kernel.transcoder.value(note)


def test_columns_of_other_programs_are_read_by_their_names(file):
    """S19: dates, times in nanoseconds and structs become what the table declares."""
    nanos = pa.array([1_700_000_000_000_000_000], pa.timestamp("ns"))
    at = pa.array([{"x": 1.0, "at": date(2026, 1, 2)}], pa.struct([("x", "f8"), ("at", "date32")]))
    path = file(id=["a"], name=["Rex"], age=pa.array([3], pa.int64()), born=nanos, at=at, any=["t"])
    importer = Importer(table("Dog"))
    assert 1 == importer.check([path])
    (record,) = importer.records(path)
    assert {
        "id": "a", "name": "Rex", "age": 3, "any": "t",
        "born": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "at": {"x": 1.0, "at": datetime(2026, 1, 2, tzinfo=UTC)},
    } == record.value  # fmt: skip


@pytest.mark.parametrize(
    ("name", "columns", "says"),
    [
        ("Dog", {"id": ["a", "b"], "name": ["x", None]}, "row 2: name: is required"),
        ("Dog", {"id": ["a", "b"], "name": ["x", "y"], "age": [1, 2**40]}, "row 2: age"),
        ("Dog", {"name": ["x"]}, "row 1: it has no id"),
        ("Strict", {"n": ["one"]}, "is not an id of Strict"),
        ("Strict", {"n": [1], "more": [2]}, "row 1: more"),
        ("Dog", {"id": ["a"], "name": ["x"], "_op": ["delete"]}, "holds changes, not records"),
        ("Note", {"id": ["a", ""], "text": ["x", "y"]}, "row 2: its id, _id or id, is empty"),
        ("Dog", {"id": ["a", ""], "name": ["x", "y"]}, "row 2: its id, id, is empty"),
        ("Dog", {"id": ["a", "b+"], "name": ["x", "y"]}, "row 2: the topic 'Dog/b+' holds a wild"),
        ("Dog", {"id": ["a", "b\0"], "name": ["x", "y"]}, "row 2: a topic must not hold the char"),
        ("Dog", {"id": ["/" * 128], "name": ["x"]}, "row 1: a topic must have at most 128 levels"),
        ("Dog", {"id": ["a" * 65_532], "name": ["x"]}, "row 1: a topic must be at most 65535 b"),
        ("Note", {"id": ["a", "b"], "more": pa.array([1, 2**64 - 1], pa.uint64())},
         "row 2: The value does not fit at more"),
        ("Dog", {"id": ["a"], "name": ["x"], "_extra": ["{no"]}, "row 1: The JSON is malformed"),
        ("Dog", {"id": ["a"], "name": ["x"], "_extra": ["[1]"]}, "row 1: _extra: it should be a"),
        ("Dog", {"id": ["a"], "name": ["x"], "at": ["text"]}, 'row 1: at: "text" is not an obj'),
        ("Dog", {"id": ["a"], "name": ["x"], "many": ["text"]}, 'row 1: many: "text" is not a l'),
        ("Dog", {"id": ["a", "b"], "name": ["x", "y"], "born": pa.array([0, 10**18], MOMENT)},
         "row 2: a time is not in the years 1 to 9999"),
        ("Dog", {"id": ["a"], "name": ["x"], "born": pa.array([2**31 - 1], pa.date32())},
         "out of bounds"),
    ],
)  # fmt: skip
def test_the_first_bad_row_is_named(file, name, columns, says):
    """S19: by file and number, in the table's words, before anything is written."""
    path = file(**columns)
    with pytest.raises(Error) as refused:
        Importer(table(name)).check([path])
    assert refused.value.message.startswith(str(path))
    assert says in refused.value.message


def test_text_that_is_none_is_found_before_the_first_write(file):
    """S19: the bytes of a column of text may be no UTF-8; some other programs do not look."""
    ends = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"a\xff")])
    path = file(id=["a", "b"], name=text)
    with pytest.raises(Error, match=r"rows.parquet cannot be read as Parquet: .*UTF8"):
        Importer(table("Dog")).check([path])


def test_a_place_without_parquet_is_told(tmp_path):
    """S19: what is named is not there, or is something else."""
    with pytest.raises(Error, match="no Parquet file at"):
        files_of(tmp_path, table("Dog"))
    text = tmp_path / "x.parquet"
    text.write_text("no")
    with pytest.raises(Error, match="cannot be read as Parquet") as refused:
        Importer(table("Dog")).check([text])
    assert Code.INVALID == refused.value.code


def test_a_file_of_rows_as_text_is_told_with_the_ways_to_import_it(tmp_path):
    """S19: Parquet's reader speaks of magic bytes, which does not help who has a CSV file."""
    text = tmp_path / "dogs.CSV"
    text.write_text("id,name\n1,Rex\n")
    with pytest.raises(Error, match=r"convert it to Parquet, or POST its rows as application/x-nd"):
        Importer(table("Dog")).check([text])


def test_a_row_without_an_id_is_told_with_the_columns_that_there_are(file):
    """S19: the name of the column is what is misspelt."""
    path = file(idd=["a"], name=["Rex"])
    with pytest.raises(Error, match="it has no id, which is its id; its columns are idd, name"):
        Importer(table("Dog")).check([path])


def test_columns_of_an_older_type_are_widened(file):
    """S11, S19: numbers and times become the text that they are in, structs become any value."""
    struct = pa.struct([("x", pa.int32()), ("_extra", pa.string())])
    path = file(
        id=["a", "b"],
        name=pa.array([7, 8], pa.int64()),
        any=pa.array([{"x": 1, "_extra": '{"y":null}'}, None], struct),
    )
    found = [record.value for record in Importer(table("Dog")).records(path)]
    assert found == [{"id": "a", "name": "7", "any": {"x": 1, "y": None}}, {"id": "b", "name": "8"}]


NOTES = """
from rowcast import Code, Error, Resource

class Checked(Resource):
    async def put(self, value):
        if value.get("name") == self.refused or value.get("text") == self.refused:
            raise Error(Code.INVALID, "a dog is not called Cat")
        return await super().put(value | {"any": "checked"})

    refused = "Cat"

class Dog(Checked):
    pass

class Note(Checked):
    pass
"""


@pytest.fixture
async def checked(tmp_path):
    """A server whose tables have a put of their own."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/notes.py").write_text(NOTES)
    world = Changing(tmp_path, 1)
    world.schema = SCHEMA
    async with world.running(**{"mqtt.sys_interval": 0}, resources=tmp_path / "resources"):
        yield world


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "attribute", "before"), [("Dog", "name", 1_050), ("Note", "text", 50)]
)
async def test_s19_a_table_with_a_put_of_its_own_is_imported_through_it(
    checked, tmp_path, file, capsys, name, attribute, before
):
    """S19: row by row, with its checks; it tells where it stopped, and goes on there."""
    schema = tmp_path / "schema.graphql"
    names = [f"name {number}" for number in range(before + 50)]
    ids = [str(number) for number in range(before + 50)]
    path = file(id=ids, **{attribute: [*names[:before], "Cat", *names[before + 1 :]]})
    with pytest.raises(Error, match="a dog is not called Cat") as caught:
        await asyncio.to_thread(import_table, name, str(path), schema, checked.url)
    told = caught.value.message
    assert f"row {before + 1}: " in told
    assert f"the {before:,} rows before are written" in told
    assert "written one by one" in capsys.readouterr().err
    place = told.rpartition("--resume ")[2]
    path = file(id=ids, **{attribute: names})
    await asyncio.to_thread(import_table, name, str(path), schema, checked.url, place)
    assert f"{before + 50}\n" == capsys.readouterr().out
    found = [event for event in checked.store.read(0, 2000) if event.table is not None]
    assert [f"{name}/{number}" for number in ids] == [event.topic for event in found]
    assert all(b"checked" in event.payload for event in found)


async def test_s19_a_table_that_takes_no_row_is_told(tmp_path, file):
    """S19: going on would meet the same refusal, so no word of --resume."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/notes.py").write_text(NOTES.replace("INVALID", "NOT_ALLOWED"))
    world = Changing(tmp_path, 1)
    world.schema = SCHEMA
    schema = tmp_path / "schema.graphql"
    path = file(id=["a"], text=["Cat"])
    async with world.running(**{"mqtt.sys_interval": 0}, resources=tmp_path / "resources"):
        with pytest.raises(Error, match=r"this table cannot be imported: .* a dog") as caught:
            await asyncio.to_thread(import_table, "Note", str(path), schema, world.url)
    assert "--resume" not in caught.value.message
