"""Import from an object store: a file, a prefix, a snapshot (S1, S19)."""

import asyncio

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changing import Changing
from typer.testing import CliRunner

from exported import Exported
from free_ports import free_port
from object_store import SECRET
from rowcast.core.errors import Code, Error
from rowcast.program.cli import command
from rowcast.schema import parse_schema
from rowcast_lake.commands.importing import import_table
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.importing import Importer, files_of
from rowcast_lake.snapshots.snapshot_stores import directory_of

SCHEMA = "type Dog @table @export { id: ID @primaryKey, name: String }"
DOG = parse_schema(SCHEMA).tables[0]


def put(place, **columns):
    """Write a Parquet file."""
    with place.create() as stream:
        pq.write_table(pa.table(columns), stream)


async def names(world, count):
    found = [await world.kernel.read(f"Dog/{number}", world.ann) for number in range(count)]
    return [world.kernel.transcoder.value(record).get("name") for record in found]


@pytest.mark.heavy
async def test_s19_a_file_and_a_prefix_of_a_store_are_imported(tmp_path, store):
    """S19: the files below a prefix in the order of their names; what is no Parquet is left."""
    put(store / "one.parquet", id=["0", "1"], name=["Rex", "Ace"])
    put(store / "more" / "a.parquet", id=["1", "2"], name=["first", "Bo"])
    put(store / "more" / "b" / "b.parquet", id=["1"], name=["last"])
    (store / "more" / "_SUCCESS").write_bytes(b"")
    world = Changing(tmp_path, 1)
    world.schema = SCHEMA
    async with world.running(**{"mqtt.sys_interval": 0}):
        schema = tmp_path / "schema.graphql"
        place = f"{store}/one.parquet"
        await asyncio.to_thread(import_table, "Dog", place, schema, world.url)
        assert ["Rex", "Ace"] == await names(world, 2)
        await asyncio.to_thread(import_table, "Dog", f"{store}/more", schema, world.url)
        assert ["Rex", "last", "Bo"] == await names(world, 3)


@pytest.mark.heavy
def test_s19_newest_and_a_name_are_the_snapshot(tmp_path, store):
    world = Exported(tmp_path, SCHEMA)
    world.put("Dog", "1", {"name": "Rex"})
    order = Order(world.path / "rowcast.db", store, world.schema)
    name = export(order).place.name
    world.put("Dog", "2", {"name": "Ace"})
    export(order)
    world.close()
    assert 1 == Importer(DOG).check(files_of(store / name, DOG))
    files = files_of(store / "newest", DOG)
    assert 2 == Importer(DOG).check(files)
    assert ["1", "2"] == [record.id for file in files for record in Importer(DOG).records(file)]


def test_s19_a_snapshot_that_is_not_complete_is_refused(store):
    """S3, S19: one without a manifest may lack any file."""
    put(store / "000000000000000007" / "Dog" / "part-00000.parquet", id=["1"], name=["Rex"])
    with pytest.raises(Error, match=r"is no snapshot: it has no manifest\.json") as refused:
        files_of(store / "000000000000000007", DOG)
    assert Code.NOT_FOUND == refused.value.code


def test_s19_what_is_not_there_or_no_parquet_is_told(store):
    with pytest.raises(Error, match="no Parquet file at s3://"):
        files_of(store / "nothing", DOG)
    with pytest.raises(Error, match="no Parquet file at s3://nobody"):
        files_of(directory_of("s3://nobody/x"), DOG)
    (store / "x.parquet").write_bytes(b"no")
    with pytest.raises(Error, match="cannot be read as Parquet") as refused:
        Importer(DOG).check(files_of(store / "x.parquet", DOG))
    assert Code.INVALID == refused.value.code


@pytest.mark.slow
def test_s19_a_store_that_is_away_is_told_by_the_command(store, tmp_path, monkeypatch):
    """S19: with where to look, and without a key."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    (tmp_path / "schema.graphql").write_text(SCHEMA)
    words = ["import", "Dog", f"{store}/x", "--schema", str(tmp_path / "schema.graphql")]
    done = CliRunner().invoke(command, words)
    assert done.exit_code != 0
    assert isinstance(done.exception, Error), done.exception
    assert f"{store}/x cannot be reached or written" in done.exception.message
    assert SECRET not in done.exception.message


def test_s19_a_store_that_goes_while_a_file_is_read_is_told(store, monkeypatch):
    put(store / "one.parquet", id=["0"], name=["Rex"])
    files = files_of(store / "one.parquet", DOG)

    def gone(*_words, **_more):
        raise OSError("the network is gone")

    monkeypatch.setattr("rowcast_lake.snapshots.importing.pq.ParquetFile", gone)
    with pytest.raises(Error, match=r"one\.parquet cannot be reached.*network is gone") as told:
        Importer(DOG).check(files)
    assert Code.BUSY == told.value.code


@pytest.mark.parametrize("place", ["gs://bucket/x.parquet", "https://example.org/x.parquet"])
def test_s19_other_stores_are_refused(place):
    with pytest.raises(Error, match="is a URL, and files are read"):
        import_table("Dog", place)
