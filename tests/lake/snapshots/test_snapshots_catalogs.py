"""Snapshots as versions of Delta and Iceberg tables, over the same files (S20)."""

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from open_tables import digest_of
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

from exported import Exported
from rowcast.core.errors import Code, Error
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast.program.cli import command
from rowcast.program.config import Config
from rowcast_lake.snapshots import catalogs as room
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.delta_catalog import DeltaCatalog
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.snapshot_stores import store_of
from rowcast_lake.snapshots.verify import verify
from rowcast_lake.stores.object_paths import ObjectPath

BOTH = ("delta", "iceberg")
SCHEMA = """
type Owner { name: String, tags: [String!] }
type Dog @table(partition: "day") @export {
  id: ID! @primaryKey, name: String, age: Int, weight: Float, chip: Long, born: Date,
  price: Decimal @decimal(precision: 8, scale: 2), photo: Bytes, owner: Owner
}
"""


@pytest.fixture(autouse=True)
def _planner(monkeypatch):
    """Polars plans with pyiceberg; its own planner is a package that is not needed here."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    yield made
    made.close()


def put(world, number, **more):
    value = {"name": f"dog {number}", "age": number, "weight": number / 2, "chip": 2**53 + number}
    value |= {"photo": bytes([number]), "owner": {"name": "Ann", "tags": ["x", "y"]}, **more}
    world.put("Dog", str(number), value)


def cut(world, **facts):
    return world.export(catalogs=BOTH, **facts)


def listed(world):
    """What `rowcast snapshots list --json` tells, by the snapshot's name."""
    words = ["snapshots", "list", "--json", "--out", str(world.directory)]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return {row["snapshot"]: row for row in map(json.loads, done.stdout.splitlines())}


def read_by_each(row):
    """The rows of one table of one snapshot, by what read them."""
    version, at = row["delta_version"], row["iceberg_snapshot"]
    delta = DeltaTable(row["delta"], version=version)
    iceberg = StaticTable.from_metadata(row["iceberg"])
    seen_by_duck = delta.to_pyarrow_dataset()
    with duckdb.connect() as duck:
        duck.register("seen", seen_by_duck)
        by_duck = duck.sql("SELECT * FROM seen").to_arrow_table()
        by_path = duck.sql(f"SELECT * FROM '{row['path']}/**/*.parquet'").to_arrow_table()
    return {
        "delta-rs": delta.to_pyarrow_table(),
        "Polars, Delta": pl.scan_delta(row["delta"], version=version).collect().to_arrow(),
        "DuckDB, Delta": by_duck,
        "DuckDB, Parquet": by_path,
        "pyiceberg": iceberg.scan(snapshot_id=at).to_arrow(),
        "Polars, Iceberg": pl.scan_iceberg(iceberg, snapshot_id=at).collect().to_arrow(),
    }


@pytest.mark.slow
def test_a_digest_of_a_cut_is_one_value_in_all(world):
    """S20: every snapshot by every reader, also the older ones, and after a new column."""
    put(world, 1)
    cut(world)
    put(world, 2, name=None)
    cut(world)
    world.put("Dog", "1", {"name": "changed"})
    world.open(SCHEMA.replace("name: String, age", "name: String, size: Float, age"))
    world.put("Dog", "3", {"size": 1.5})
    cut(world)
    rows = listed(world)
    assert len(rows) == 3
    for name, row in rows.items():
        place = world.directory / name
        manifest = read_manifest(place)
        facts, told = manifest.tables["Dog"], row["tables"]["Dog"]
        assert (told["rows"], told["cut"]) == (facts.rows, manifest.cut)
        assert (told["digest"], told["path"]) == (facts.digest, str(place / "Dog"))
        for reader, found in read_by_each(told).items():
            assert digest_of(found, facts, manifest, place) == facts.digest, (name, reader)


@pytest.mark.slow
def test_each_names_the_other(world):
    """S20: the manifest the versions, a version's metadata the cut and the digest."""
    put(world, 1)
    made = [cut(world)]
    put(world, 2)
    made.append(cut(world))
    assert [item.manifest.catalog["delta"]["Dog"] for item in made] == [0, 1]
    assert [item.manifest.catalog["iceberg"]["Dog"] for item in made] == [1, 2]
    digests = [item.manifest.tables["Dog"].digest for item in made]
    history = DeltaTable(world.directory / "delta/Dog").history()
    assert [(item["rowcast.cut"], item["rowcast.digest"]) for item in reversed(history)] == [
        (item.manifest.cut, digest) for item, digest in zip(made, digests, strict=True)
    ]
    row = listed(world)[made[1].place.name]["tables"]["Dog"]
    snapshots = StaticTable.from_metadata(row["iceberg"]).snapshots()
    told = [item.summary.additional_properties for item in snapshots]
    assert [(item["rowcast.cut"], item["rowcast.digest"]) for item in told] == [
        (item.manifest.cut, digest) for item, digest in zip(made, digests, strict=True)
    ]
    assert verify(made[0].place).catalog == made[0].manifest.catalog


@pytest.mark.heavy
def test_nothing_is_copied(world):
    """S20: the files are there once; Delta reaches them by a link."""
    put(world, 1)
    made = cut(world)
    files = [path for path in world.directory.rglob("*.parquet") if "checkpoint" not in path.name]
    names = {path.resolve() for path in files}
    assert names == {made.place / file.path for table in made.manifest.tables.values()
                     for file in table.files}  # fmt: skip
    assert (world.directory / "delta/Dog" / made.place.name).resolve() == made.place / "Dog"
    assert not (world.directory / "delta/_sys_sessions").exists()


def test_the_same_cut_is_no_new_version(world):
    """S20: an export that writes nothing adds nothing."""
    put(world, 1)
    cut(world)
    assert not cut(world).new
    assert DeltaTable(world.directory / "delta/Dog").version() == 0
    assert not world.export(catalogs=["delta"]).new


def test_a_catalog_that_is_new_gets_what_is_there(world):
    """S20: the cut is exported anew, because its manifest announced no version."""
    put(world, 1)
    first = world.export()
    second = cut(world)
    assert (first.new, second.new) == (True, True)
    assert DeltaTable(world.directory / "delta/Dog").to_pyarrow_table().num_rows == 1


@pytest.mark.heavy
def test_a_version_that_a_crash_prevented_is_written_by_the_next_export(world, monkeypatch):
    """S20: with the number that the manifest announced; Iceberg's was there already."""
    put(world, 1)
    cut(world)
    put(world, 2)

    def broken(_self, _version):
        raise OSError("killed")

    from rowcast_lake.snapshots.delta_catalog import DeltaCatalog

    with monkeypatch.context() as patch:
        patch.setattr(DeltaCatalog, "add", broken)
        with pytest.raises(Error, match="killed"):
            cut(world)
    newest = SnapshotDirectory(world.directory).newest()
    assert "delta" not in listed(world)[newest]["tables"]["Dog"]
    assert not cut(world).new
    row = listed(world)[newest]["tables"]["Dog"]
    assert (row["delta_version"], row["rows"]) == (1, 2)
    assert DeltaTable(row["delta"]).to_pyarrow_table().num_rows == 2
    assert len(StaticTable.from_metadata(row["iceberg"]).snapshots()) == 2


@pytest.mark.slow
def test_retention_lets_the_tables_forget_first(world):
    """S12, S20: what metadata names is there; the versions that stay are read as before."""
    made = []
    for number in range(1, 5):
        put(world, number)
        made.append(cut(world))
    snapshot_store = store_of(world.directory)
    assert snapshot_store.keep(2) == [item.place.name for item in made[:2]]
    rows = listed(world)
    assert list(rows) == [item.place.name for item in made[2:]]
    for item in made[2:]:
        facts = item.manifest.tables["Dog"]
        for found in read_by_each(rows[item.place.name]["tables"]["Dog"]).values():
            assert digest_of(found, facts, item.manifest, item.place) == facts.digest
    with pytest.raises(Exception, match="No files in log segment"):
        DeltaTable(world.directory / "delta/Dog", version=0)
    iceberg = StaticTable.from_metadata(rows[made[3].place.name]["tables"]["Dog"]["iceberg"])
    assert len(iceberg.snapshots()) == 2
    links = [path.name for path in (world.directory / "delta/Dog").iterdir() if path.is_symlink()]
    assert sorted(links) == list(rows)
    put(world, 5)
    assert cut(world).manifest.catalog["delta"]["Dog"] == 4


@pytest.mark.heavy
def test_a_server_without_the_library_removes_nothing_that_is_named(world):
    """S12, S20: it says by which command; and nobody removes what the last version names."""
    put(world, 1)
    first = cut(world).place
    put(world, 2)
    last = cut(world).place
    with pytest.raises(Error, match="remove it with `rowcast snapshots remove`"):
        SnapshotDirectory(world.directory).remove(first.name)
    with pytest.raises(Error, match="it is the last version of the delta table Dog"):
        store_of(world.directory).remove(last.name)
    assert first.is_dir()
    assert last.is_dir()
    store_of(world.directory).remove(first.name)
    assert not first.exists()


@pytest.mark.heavy
def test_a_table_that_somebody_else_wrote_to_is_told(world):
    """S20: numbers that are not those announced are never given to other versions."""
    put(world, 1)
    cut(world)
    put(world, 2)
    made = cut(world)
    text = (made.place / "manifest.json").read_text()
    (made.place / "manifest.json").write_text(text.replace('"Dog": 1', '"Dog": 7'))
    with pytest.raises(Error, match=r"the delta table Dog .* has no version before 7") as error:
        cut(world)
    assert error.value.code is Code.CONFLICT


@pytest.mark.heavy
def test_a_version_gets_its_own_number_or_none(world, monkeypatch):
    """S20: delta-rs would take the next number where another program has just taken this one."""
    put(world, 1)
    cut(world)
    put(world, 2)
    place, opened, written = world.directory / "delta" / "Dog", DeltaCatalog._open, []

    def then_another_writes(catalog, table, version=None):
        found = opened(catalog, table, version)
        if (table, version, written) == ("Dog", 0, []):
            written.append(write_deltalake(place, found.to_pyarrow_table(), mode="append"))
        return found

    monkeypatch.setattr(DeltaCatalog, "_open", then_another_writes)
    with pytest.raises(Error, match="another program made version 1 of the delta table") as error:
        cut(world)
    assert error.value.code is Code.CONFLICT
    assert 1 == DeltaTable(place).version()


def test_what_is_missing_is_told(world, monkeypatch):
    """S20: with what to install."""
    put(world, 1)
    monkeypatch.setattr(room, "find_spec", lambda _name: None)
    with pytest.raises(Error, match=r"snapshots.catalog: delta needs deltalake.*rowcast\[lake\]"):
        Catalogs(world.directory, ["delta"])
    with pytest.raises(Error, match=r"snapshots\.catalog: iceberg needs pyiceberg"):
        Catalogs(ObjectPath(None, "b/x"), ["iceberg"])


def test_a_format_is_one_of_two():
    """S20: both may be named."""
    settings = Config.model_validate({"snapshots": {"catalog": "delta, iceberg"}}).snapshots
    assert settings.catalogs == ("delta", "iceberg")
    with pytest.raises(ValueError, match="should be delta, iceberg, or delta,iceberg"):
        Config.model_validate({"snapshots": {"catalog": "hudi"}})


def test_a_directory_without_catalogs_has_no_addresses(world):
    """S20: and gets no directory of metadata."""
    put(world, 1)
    made = export(Order(world.path / "rowcast.db", world.directory, SCHEMA))
    row = listed(world)[made.place.name]["tables"]["Dog"]
    assert set(row) == {"path", "rows", "cut", "digest"}
    assert not {path.name for path in Path(world.directory).iterdir()} & {*BOTH, ".named"}
