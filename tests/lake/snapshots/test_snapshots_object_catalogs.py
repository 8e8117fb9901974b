"""Snapshots in an object store as versions of open tables (S1, S3, S12, S20)."""

import gc
import itertools
import json
import os
import subprocess
import sys
from urllib.parse import urljoin

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from open_tables import digest_of
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

from exported import Exported
from http_clients import http_client
from object_store import KEY, SECRET, separate_object_store
from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import EXPORT_SECONDS_MAX
from rowcast.program.cli import command
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.copies import Copies
from rowcast_lake.snapshots.delta_catalog import DeltaCatalog
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.importing import files_of
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.object_snapshot_store import ObjectMaking, ObjectSnapshotStore
from rowcast_lake.snapshots.partitions import PartBounds
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of
from rowcast_lake.snapshots.verify import verify
from rowcast_lake.spark.places import Served
from rowcast_lake.stores.object_paths import ObjectPath
from serving import application, until

SCHEMA = """
type Owner { name: String, tags: [String!] }
type Dog @table(partition: "day") @export {
  id: ID! @primaryKey, name: String, age: Int, price: Decimal @decimal(precision: 8, scale: 2),
  owner: Owner
}
type Cat @table @export { id: ID! @primaryKey, name: String }
"""
pytestmark = pytest.mark.slow
BOTH = ("delta", "iceberg")
PLAIN = {"allow_http": "true"}
"""What delta-rs and Polars need to read from a store without TLS."""


@pytest.fixture(scope="module")
def variables():
    with separate_object_store() as found:
        yield found


@pytest.fixture(autouse=True)
def _planner(monkeypatch):
    """Polars plans with pyiceberg; its own planner is a package that is not needed here."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture(autouse=True)
def _collected():
    """Tables of pyiceberg are in cycles with the connections that they have open."""
    yield
    gc.collect()


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    yield made
    made.close()


def put(world, number):
    dog = {"name": f"dog {number}", "age": number, "owner": {"name": "Ann", "tags": ["x", "y"]}}
    cat = {"name": f"cat {number}"}
    for table, value in (("Dog", dog), ("Cat", cat)):
        text = json.dumps(value).encode()
        world.put(table, str(number), value, payload=text, content_type="application/json")


def cut(world, store, **facts):
    facts = {"catalogs": BOTH} | facts
    return export(Order(world.path / "rowcast.db", store, world.schema, **facts))


def keys(store):
    return sorted(str(path)[len(f"{store}/") :] for path in store.rglob())


def run(store, *words):
    done = CliRunner().invoke(command, ["snapshots", *words, "--out", str(store)])
    assert done.exit_code == 0, done.output
    return done.stdout


def listed(store):
    """What `rowcast snapshots list --json` tells, by the snapshot's name."""
    rows = map(json.loads, run(store, "list", "--json").splitlines())
    return {row["snapshot"]: row for row in rows}


def endpoint():
    """What pyiceberg needs to read from a store that is not Amazon's."""
    return {"s3.region": "eu-west-1", "s3.endpoint": os.environ["AWS_ENDPOINT_URL"]}


def read_by_each(row):
    """The rows of one table of one snapshot, by what read them."""
    version = row["delta_version"]
    delta = DeltaTable(row["delta"], version=version, storage_options=PLAIN)
    folder = ObjectPath.of(row["path"])
    with duckdb.connect() as duck:
        duck.register("seen", delta.to_pyarrow_dataset())
        by_duck = duck.sql("SELECT * FROM seen").to_arrow_table()
    polars = pl.scan_delta(row["delta"], version=version, storage_options=PLAIN)
    iceberg = StaticTable.from_metadata(row["iceberg"], endpoint())
    at = row["iceberg_snapshot"]
    return {
        "pyiceberg": iceberg.scan(snapshot_id=at).to_arrow(),
        "Polars, Iceberg": pl.scan_iceberg(iceberg, snapshot_id=at).collect().to_arrow(),
        "delta-rs": delta.to_pyarrow_table(),
        "Polars": polars.collect().to_arrow(),
        "DuckDB": by_duck,
        "Parquet": ds.dataset(folder.key, filesystem=folder.files).to_table(),
    }


def check_readable(store):
    """Every version of every table has the rows of the cut which its metadata names."""
    seen = []
    for name, row in listed(store).items():
        manifest = read_manifest(store / name)
        for table, told in row["tables"].items():
            if "delta" in told:
                version = DeltaTable(
                    told["delta"], version=told["delta_version"], storage_options=PLAIN
                )
                assert version.to_pyarrow_table().num_rows == manifest.tables[table].rows
                seen.append((name, table))
            if "iceberg" in told:
                found = StaticTable.from_metadata(told["iceberg"], endpoint())
                found = found.scan(snapshot_id=told["iceberg_snapshot"]).to_arrow()
                assert found.num_rows == manifest.tables[table].rows
                seen.append((name, f"{table}, Iceberg"))
    return seen


def newest_rows(store, table):
    """The rows of a Delta table's last version, as any reader finds it."""
    return DeltaTable(f"{store}/delta/{table}", storage_options=PLAIN).to_pyarrow_table().num_rows


def newest_in_iceberg(store, table):
    """The rows of an Iceberg table's last snapshot, as readers find it by the hint.

    All snapshots that its metadata names can be read.
    """
    found = StaticTable.from_metadata(f"{store}/iceberg/{table}", endpoint())
    for snapshot in found.snapshots():
        found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    return found.scan().to_arrow().num_rows


@pytest.mark.slow
def test_a_digest_of_a_cut_is_one_value_in_all_that_read_a_store(world, store):
    """S1, S20: every snapshot by every reader, the older ones too, and after a new column."""
    put(world, 1)
    cut(world, store)
    put(world, 2)
    cut(world, store)
    world.open(SCHEMA.replace("age: Int", "size: Float, age: Int"))
    world.put("Dog", "3", {"size": 1.5})
    cut(world, store)
    rows = listed(store)
    assert [row["tables"]["Dog"]["delta_version"] for row in rows.values()] == [0, 1, 2]
    for name, row in rows.items():
        manifest = verify(store / name)
        for table in ("Dog", "Cat"):
            facts, told = manifest.tables[table], row["tables"][table]
            assert told["delta"] == f"{store}/delta/{table}"
            for reader, found in read_by_each(told).items():
                assert digest_of(found, facts, manifest, store / name) == facts.digest, reader
            own = {place: read() for place, read in Copies(store / name).files(table).items()}
            assert own == dict.fromkeys(("parquet", *BOTH), facts.digest)


def test_nothing_in_a_store_is_copied_and_each_names_the_other(world, store):
    """S1, S20: the files are in the Delta table; its log has the cut, and no key of the store."""
    put(world, 1)
    made = cut(world, store)
    name = made.place.name
    parts = [key for key in keys(store) if key.endswith("parquet") and "_log" not in key]
    told = [file.path for table in made.manifest.tables.values() for file in table.files]
    assert parts == sorted(str(made.place / path)[len(f"{store}/") :] for path in told)
    assert f"delta/Cat/{name}/part-00000.parquet" in parts
    assert f"{name}/_sys_sessions/part-00000.parquet" in parts
    assert not [key for key in keys(store) if key.startswith("delta/_sys")]
    (entry,) = DeltaTable(f"{store}/delta/Dog", storage_options=PLAIN).history()
    assert made.manifest.catalog["delta"]["Dog"] == entry["version"] == 0
    digest = made.manifest.tables["Dog"].digest
    assert (entry["rowcast.cut"], entry["rowcast.digest"]) == (made.manifest.cut, digest)
    iceberg = StaticTable.from_metadata(f"{store}/iceberg/Dog", endpoint())
    (summary,) = [item.summary.additional_properties for item in iceberg.snapshots()]
    assert made.manifest.catalog["iceberg"]["Dog"] == iceberg.last_sequence_number == 1
    assert (summary["rowcast.cut"], summary["rowcast.digest"]) == (made.manifest.cut, digest)
    for path in store.rglob():
        content = path.read_bytes()
        assert SECRET.encode() not in content
        assert KEY.encode() not in content
    assert not cut(world, store).new
    assert listed(store)[name]["tables"]["_sys_sessions"]["path"] == f"{store}/{name}/_sys_sessions"


KILLED = """
import itertools, os, signal
from pathlib import Path
from rowcast_lake.snapshots.copies import Copies
from rowcast_lake.snapshots.delta_catalog import StoredDeltaCatalog
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.snapshot_stores import directory_of
from rowcast_lake.snapshots.stored_iceberg import StoredIcebergCatalog
from rowcast_lake.stores.object_paths import ObjectPath
real, calls = {owner}.{step}, itertools.count()
def killed(self, *rest):
    if next(calls) == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *rest)
{owner}.{step} = killed
both = ["delta", "iceberg"]
export(Order(Path({database!r}), directory_of({place!r}), {schema!r}, catalogs=both))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "step", "at"),
    [
        ("ObjectPath", "create", 1),
        ("StoredDeltaCatalog", "add", 1),
        ("StoredIcebergCatalog", "_settle", 0),
    ],
)
def test_the_next_cut_writes_the_versions_that_a_kill_prevented(world, store, owner, step, at):
    """S3, S20: in a file, between two versions, before Iceberg's hint; all is readable."""
    put(world, 1)
    cut(world, store)
    put(world, 2)
    text = KILLED.format(owner=owner, step=step, at=at, database=str(world.path / "rowcast.db"),
                         place=str(store), schema=world.schema)  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], env=os.environ, check=False)
    assert done.returncode == -9
    assert len(check_readable(store)) >= 2
    assert {newest_rows(store, "Dog"), newest_rows(store, "Cat")} <= {1, 2}
    assert {newest_in_iceberg(store, "Dog"), newest_in_iceberg(store, "Cat")} <= {1, 2}
    put(world, 3)
    last = cut(world, store)
    names = store_of(store).names()
    assert len(check_readable(store)) == 6 * len(names)  # with the retained values
    assert last.manifest.catalog["delta"] == dict.fromkeys(
        ("Dog", "Cat", "_retained"), len(names) - 1
    )
    assert (newest_rows(store, "Dog"), newest_rows(store, "Cat")) == (3, 3)
    assert (newest_in_iceberg(store, "Dog"), newest_in_iceberg(store, "Cat")) == (3, 3)
    with ObjectSnapshotStore(store, lambda: 4e9 + EXPORT_SECONDS_MAX).making():
        pass
    left = {key.split("/")[2] for key in keys(store) if key.startswith("delta/")}
    assert left == {"_delta_log", *names}


def breaking(patch, after):
    """Let the store be lost after so many writes and removals."""
    calls = iter(range(after))

    def broken(real):
        def step(path, *rest):
            if next(calls, None) is None:
                raise OSError("the network is gone")
            return real(path, *rest)

        return step

    for name in ("remove", "write_bytes"):
        patch.setattr(ObjectPath, name, broken(getattr(ObjectPath, name)))


@pytest.mark.slow
def test_retention_in_a_store_lets_the_tables_forget_first(world, store):
    """S3, S12, S20: at whichever step it ends, no metadata names what is gone."""
    for number in range(1, 4):
        put(world, number)
        cut(world, store, tables=["Dog"])
    names = store_of(store).names()
    for fails_at in itertools.count():
        with pytest.MonkeyPatch.context() as patch:
            breaking(patch, fails_at)
            try:
                store_of(store).keep(1)
                break
            except Error as error:
                assert error.code is Code.BUSY
        assert {(names[2], "Dog"), (names[2], "Dog, Iceberg")} <= set(check_readable(store))
        assert newest_in_iceberg(store, "Dog") == 3
    assert fails_at > 3  # each goes on where the last one ended
    assert store_of(store).names() == names[2:]
    with ObjectSnapshotStore(store, lambda: 4e9 + EXPORT_SECONDS_MAX).making():
        pass
    left = {key.split("/")[2] for key in keys(store) if key.startswith("delta/")}
    assert left == {"_delta_log", names[2]}
    assert not [key for key in keys(store) if key.startswith((names[0], names[1]))]
    with pytest.raises(Error, match="it is the last version of the delta table"):
        store_of(store).remove(names[2])
    with pytest.raises(Error, match="remove it with `rowcast snapshots remove`"):
        ObjectSnapshotStore(store).remove(names[2])
    put(world, 4)
    last = cut(world, store, tables=["Dog"])
    assert last.manifest.catalog == {"delta": {"Dog": 3}, "iceberg": {"Dog": 4}}
    run(store, "remove", names[2])
    assert len(check_readable(store)) == 2
    assert newest_in_iceberg(store, "Dog") == 4


@pytest.mark.parametrize(
    ("kind", "number", "words"),
    [
        ("delta", 1, "another export made version 1 of the delta table"),
        ("iceberg", 2, "another program wrote to the iceberg table"),
    ],
)
def test_of_two_that_write_one_version_one_is_refused(world, store, kind, number, words):
    """S3, S20: the store keeps the first; the other's snapshot is whole, and no version."""
    only = {"catalogs": [kind], "tables": ["Dog"]}
    put(world, 1)
    cut(world, store, **only)
    put(world, 2)
    real, made = ObjectMaking.write, []

    def late(making, name, text):
        """Another program makes a cut after the numbers were read, and before the manifest."""
        if not made:
            made.append(None)
            put(world, 3)
            made[0] = cut(world, store, **only)
        real(making, name, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectMaking, "write", late)
        with pytest.raises(Error, match=words) as said:
            cut(world, store, **only)
    assert said.value.code is Code.CONFLICT
    rows = listed(store)
    assert len(rows) == 3
    _, lost, kept = rows
    assert verify(store / lost).catalog[kind]["Dog"] == number
    assert kind not in rows[lost]["tables"]["Dog"]
    assert (kept, kind in rows[kept]["tables"]["Dog"]) == (made[0].place.name, True)
    newest = newest_rows if kind == "delta" else newest_in_iceberg
    assert newest(store, "Dog") == 3
    put(world, 4)
    assert cut(world, store, **only).manifest.catalog[kind]["Dog"] == number + 1
    run(store, "remove", lost)
    assert len(check_readable(store)) == 3
    assert newest(store, "Dog") == 4


def test_the_hint_decides_between_two_of_one_number(world, store):
    """S3, S20: one is that of a program which was killed before it gave way."""
    only = {"catalogs": ["iceberg"], "tables": ["Dog"]}
    for number in (1, 2):
        put(world, number)
        cut(world, store, **only)
    place = store / "iceberg/Dog/metadata"
    names = sorted(path.name for path in place.iterdir() if path.name.endswith(".metadata.json"))
    assert (place / "version-hint.text").read_text() + ".metadata.json" == names[-1]
    other = f"{names[-1].partition('-')[0]}-00000000.metadata.json"
    (place / names[-2]).copy(place / other)
    told = [row["tables"]["Dog"]["iceberg"] for row in listed(store).values()]
    assert told == [str(place / names[-1])] * 2
    put(world, 3)
    assert cut(world, store, **only).manifest.catalog["iceberg"]["Dog"] == 3
    assert newest_in_iceberg(store, "Dog") == 3


def test_a_name_is_taken_until_its_files_in_tables_are_gone(world, store, monkeypatch):
    """S3, S12: of a removal that ended, no other snapshot meets the files."""
    names = []
    for number in (1, 2):
        put(world, number)
        names.append(cut(world, store, catalogs=["delta"], tables=["Dog"]).place.name)

    def ended(_snapshot_store, _place):
        raise OSError("the network is gone")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectSnapshotStore, "clear", ended)
        with pytest.raises(Error, match="the network is gone"):
            store_of(store).remove(names[0])
    assert store_of(store).names() == names[1:]
    assert [key for key in keys(store) if key.startswith(f"{names[0]}/")]
    assert store_of(store).free_name(int(names[0])) == f"{names[0]}-1"


def test_an_answer_that_was_lost_is_no_refusal(world, store, monkeypatch):
    """S20: the version is there, and is that of the cut."""
    put(world, 1)
    real = DeltaCatalog.add

    def lost(catalog, version):
        real(catalog, version)
        real(catalog, version)  # what a client does that has no answer

    monkeypatch.setattr(DeltaCatalog, "add", lost)
    cut(world, store)
    assert newest_rows(store, "Dog") == 1


@pytest.mark.slow
def test_what_reads_snapshots_reads_those_in_tables(world, store):
    """S6, S10, S19: prove, import, partitions' bounds, and verification of each file."""
    put(world, 1)
    first = cut(world, store).place.name
    put(world, 2)
    export_changes(Order(world.path / "rowcast.db", store, world.schema))
    last = cut(world, store)
    assert differences(store, catalogue_of(store).items(), first, last.place.name) == {}
    (dog,) = [table for table in parse_schema(SCHEMA).tables if table.name == "Dog"]
    (file,) = files_of(store / "newest", dog)
    assert str(file).startswith(f"{store}/delta/Dog/{last.place.name}/day=")
    (ObjectPath.of(f"{store}/delta/Cat/{first}/stray.parquet")).write_bytes(b"")
    with pytest.raises(Error, match=r"stray.parquet is there, and the manifest does not tell"):
        verify(store / first)
    ObjectPath.of(f"{store}/delta/Cat/{first}/part-00000.parquet").remove()
    with pytest.raises(Error, match=r"Cat/0.*/part-00000.parquet is missing"):
        verify(store / first)
    put(world, 3)
    with pytest.raises(Error, match="Dog has more than 0 partitions"):
        cut(world, store, parting=PartBounds(partitions=0))
    assert len(store_of(store).names()) == 2


@pytest.mark.slow
async def test_a_server_serves_what_is_in_tables_and_leaves_it(tmp_path, store):
    """S1, S12, S20: by the plain path and by that of the manifest."""
    settings = {"snapshots.location": str(store), "snapshots.catalog": "delta"}
    async with application(tmp_path, settings=settings) as served:
        exports = served.features["snapshots"].exports
        async with http_client(base_url=f"http://127.0.0.1:{served.http_port}") as client:
            await client.put("/Dog/1", json={"name": "Rex"})
            assert 202 == (await client.post("/$SYS/snapshots/", json={})).status_code
            await until(lambda: not exports.open_jobs)
            assert [job.error for job in exports.jobs.values()] == [None]
            name = (await client.get("/$SYS/snapshots/newest")).json()["id"]
            base = f"/$SYS/snapshots/{name}"
            manifest = (await client.get(f"{base}/manifest.json")).json()
            path = manifest["tables"]["Dog"]["files"][0]["path"]
            assert path == f"../delta/Dog/{name}/part-00000.parquet"
            plain = await client.get(f"{base}/Dog/part-00000.parquet")
            named = await client.get(urljoin(f"{base}/manifest.json", path))
            assert plain.content[:4] == b"PAR1"
            assert plain.content == named.content == (store / name / path).read_bytes()
            refused = await client.delete(base)
            assert refused.status_code == 409
            assert "remove it with `rowcast snapshots remove`" in refused.text
    assert [row["tables"]["Dog"]["delta_version"] for row in listed(store).values()] == [0]


def test_spark_asks_a_server_for_the_plain_path():
    """S1: a relative path of a manifest is no topic."""

    class Asked:
        def head(self, path):
            assert (
                path == "/$SYS/snapshots/000000000000000007/Dog/day=2026-01-01/part-00000.parquet"
            )
            return {"content-length": "4"}

    path = "../delta/Dog/000000000000000007/day=2026-01-01/part-00000.parquet"
    assert Served(Asked()).open("000000000000000007", path).readable()
