"""Snapshots in an object store: whole or not there, though nothing is renamed (S1-S3, S6, S12)."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import boto3
import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from amounts import amount
from exported import Exported
from http_clients import http_client
from object_store import BUCKET, KEY, SECRET
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE
from rowcast.core.export_limits import EXPORT_SECONDS_MAX, SNAPSHOT_PINNED_SECONDS
from rowcast.program.cli import command
from rowcast.program.config import Config
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact, forget
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.object_snapshot_store import ObjectSnapshotStore
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, directory_of, store_of
from rowcast_lake.snapshots.verify import verify
from rowcast_lake.stores.object_paths import ObjectPath
from serving import application, until


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, 'type Dog @table(partition: "day") @export { id: ID, name: String }')
    made.put("Dog", "1", {"name": "Rex"})
    yield made
    made.close()


def order(world, place):
    return Order(world.path / "rowcast.db", place, world.schema)


def keys(store):
    return sorted(str(path)[len(f"{store}/") :] for path in store.rglob())


@pytest.mark.slow
def test_a_snapshot_is_the_same_as_on_a_disk(world, store):
    """S1, S10: files, digests and verification; the same cut is not written again."""
    here, there = world.export(), export(order(world, store))
    assert there.place.name == here.place.name == "000000000000000001"
    digests = [{name: table.digest for name, table in made.manifest.tables.items()}
               for made in (here, there)]  # fmt: skip
    assert digests[0] == digests[1]
    assert verify(there.place).rows == 1
    snapshots = store_of(store)
    assert (snapshots.names(), snapshots.newest()) == (
        [there.place.name],
        there.place.name,
    )
    again = export(order(world, store))
    assert (again.new, again.place) == (False, there.place)
    assert ds.dataset(f"{there.place.key}/Dog", filesystem=store.files).count_rows() == 1
    assert not [key for key in keys(store) if ".making" in key]


def test_no_key_is_written_anywhere(world, store):
    """S1: manifests are for those who may read the data, not for those who may write it."""
    export(order(world, store))
    for path in store.rglob():
        content = path.read_bytes()
        assert SECRET.encode() not in content
        assert KEY.encode() not in content


def failing(real, at):
    """Return a method that fails when it is called the n-th time."""
    calls = itertools.count()

    def broken(path, *rest):
        if next(calls) == at:
            raise OSError("the network is gone")
        return real(path, *rest)

    return broken


@pytest.mark.slow
@pytest.mark.parametrize("step", ["create", "write_bytes"])
def test_a_cut_leaves_what_was_there(world, store, monkeypatch, step):
    """S3: at whichever write the store is lost; the next export is whole."""
    first = export(order(world, store)).place.name
    world.put("Dog", "2", {"name": "Ace"})
    real = getattr(ObjectPath, step)
    for fails_at in itertools.count(0, amount(long=1, short=2)):
        monkeypatch.setattr(ObjectPath, step, failing(real, fails_at))
        try:
            export(order(world, store))
        except Error as error:
            assert error.code is Code.BUSY
            assert "the network is gone; see AWS_ENDPOINT_URL" in error.message
        else:
            monkeypatch.setattr(ObjectPath, step, real)
            break
        monkeypatch.setattr(ObjectPath, step, real)
        snapshots = store_of(store)
        for name in snapshots.names():
            verify(snapshots.place(name))
        assert snapshots.newest() == first or verify(snapshots.place("newest")).rows == 2
    assert fails_at > 2
    assert verify(store_of(store).place("newest")).rows == 2


KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.stores.object_paths import ObjectPath
from rowcast_lake.snapshots.snapshot_stores import directory_of
real, calls = ObjectPath.{step}, itertools.count()
def killed(path, *rest):
    if next(calls) == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, *rest)
ObjectPath.{step} = killed
export(Order(Path({database!r}), directory_of({place!r}), {schema!r}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "at"), [("create", 1), ("create", 4), ("write_bytes", 1),
                                          ("write_bytes", 2)])  # fmt: skip
def test_a_killed_export_is_not_there(world, store, step, at):
    """S3: before a file, before the manifest, before `newest`; what it left is swept in time."""
    first = export(order(world, store)).place.name
    world.put("Dog", "2", {"name": "Ace"})
    text = KILLED.format(step=step, at=at, database=str(world.path / "rowcast.db"),
                         place=str(store), schema=world.schema)  # fmt: skip
    done = subprocess.run([sys.executable, "-c", text], env=os.environ, check=False)
    assert done.returncode == -9
    snapshots = store_of(store)
    assert snapshots.newest() == first
    left = {key.partition("/")[0] for key in keys(store)} - {*snapshots.names(), "newest"}
    whole = export(order(world, store))
    assert verify(whole.place).rows == 2
    assert store_of(store).newest() == whole.place.name
    later = ObjectSnapshotStore(store, lambda: 4e9)
    with later.making():
        pass
    assert left.isdisjoint(key.partition("/")[0] for key in keys(store))
    assert set(later.names()) >= {first, whole.place.name}


def test_who_comes_second_gives_way(world, store, monkeypatch):
    """S3: of two that begin in one place at once; what the first writes is left alone."""
    snapshots = ObjectSnapshotStore(store)
    with snapshots.making() as one:
        one.aim("000000000000000007")
        monkeypatch.setattr(ObjectSnapshotStore, "free_name", lambda _self, seq: f"{seq:018d}")
        with (
            snapshots.making() as two,
            pytest.raises(Error, match="another export is at work in s3:"),
        ):
            two.aim("000000000000000007")
        assert len([key for key in keys(store) if ".making" in key]) == 1
    assert keys(store) == []


@pytest.mark.slow
def test_retention_leaves_what_is_read(world, store):
    """S12: a pin holds a snapshot until its time; the newest stays in any case."""
    names = []
    for number in range(4):
        world.put("Dog", "1", {"name": f"Rex {number}"})
        names.append(export(order(world, store)).place.name)
    now = [1_000.0]
    snapshots = ObjectSnapshotStore(store, lambda: now[0])
    held = snapshots.hold(names[0])
    with snapshots.pin(names[1]) as place:
        assert place.name == names[1]
        assert snapshots.keep(1) == [names[2]]
    assert snapshots.keep(1) == [names[1]]
    now[0] += SNAPSHOT_PINNED_SECONDS + 1
    assert snapshots.keep(1) == [names[0]]
    held.close()
    assert snapshots.keep(0, since_seconds=4e9) == []
    assert (snapshots.names(), snapshots.newest()) == ([names[3]], names[3])
    assert {key.partition("/")[0] for key in keys(store)} == {names[3], "newest"}
    with pytest.raises(Error, match=r"is not in s3://.* any more"):
        snapshots.hold(names[0])
    snapshots.remove("newest")
    assert (snapshots.names(), snapshots.newest(), keys(store)) == ([], None, [])


@pytest.mark.slow
def test_changes_are_written_proved_merged_and_forgotten(world, store):
    """S6, M2: as in a directory."""
    first = export(order(world, store)).place.name
    for number in range(2, 5):
        world.put("Dog", str(number), {"name": "Ace"}, payload=b'{"name":"Ace"}',
                  content_type="application/json")  # fmt: skip
        page = export_changes(order(world, store))
        assert page.manifest.rows == 1
    world.store.commit([world.event("Dog", "1", kind=DELETE)])
    export_changes(order(world, store))
    assert export_changes(order(world, store)) is None
    last = export(order(world, store)).place.name
    assert {} == differences(store, catalogue_of(store).items(), first, last)
    (wide,) = compact(store, everything=True, covered_seconds=0)
    assert wide.manifest.rows == 4
    (item,) = [item for item in catalogue_of(store).items() if item.is_page]
    assert {} == differences(store, catalogue_of(store).items(), first, last)
    assert forget(store, 0) == []
    world.put("Dog", "5", {"name": "Ace"}, payload=b"{}", content_type="application/json")
    page = export_changes(order(world, store))
    assert page.manifest.from_seq == item.seq + 1
    assert forget(store, 0) == [item.name]
    assert store_of(store).pages() == [f"changes/{page.place.name}"]


def test_a_sweep_leaves_what_may_still_be_written(world, store):
    """S3: only what is older than any export may run."""
    (store / "000000000000000005" / "Dog" / "part-00000.parquet").write_bytes(b"a part")
    (store / "other" / "file").write_bytes(b"somebody's")
    snapshots = ObjectSnapshotStore(store)
    assert snapshots.names() == []
    with snapshots.making():
        assert "000000000000000005/Dog/part-00000.parquet" in keys(store)
    with ObjectSnapshotStore(store, lambda: 4e9 + EXPORT_SECONDS_MAX).making():
        assert keys(store) == ["other/file"]


def test_a_sweep_looks_at_what_an_export_wrote_for_delta(store, monkeypatch):
    """S3: a long export may have written there last; its files go when all of them are old."""
    real, name = ObjectPath.listed, "000000000000000005"

    def old_but_in_delta(self, *, deep=False):
        return [
            (path, facts if facts is None or "/delta/" in path.key else replace(facts, st_mtime=1))
            for path, facts in real(self, deep=deep)
        ]

    monkeypatch.setattr(ObjectPath, "listed", old_but_in_delta)
    for folder in (store / name / "Dog", store / "delta" / "Dog" / name):
        (folder / "part-00000.parquet").write_bytes(b"a part")
    with ObjectSnapshotStore(store).making():
        assert len(keys(store)) == 2
    with ObjectSnapshotStore(store, lambda: 4e9 + EXPORT_SECONDS_MAX).making():
        assert keys(store) == []


@pytest.mark.parametrize(("size", "in_parts"), [(1, False), (9 << 20, False), (11 << 20, True)])
def test_a_small_object_is_one_request(store, variables, size, in_parts):
    """S2: manifests and pages of a log are small; an upload in parts is three requests."""
    place = store / "object"
    place.write_bytes(b"x" * size)
    client = boto3.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL"])
    told = client.head_object(Bucket=BUCKET, Key=place.key.partition("/")[2])
    assert told["ContentLength"] == size
    assert ("-" in told["ETag"]) is in_parts  # as S3 marks an upload in parts


@pytest.mark.parametrize(
    "place",
    [
        "s3://",
        "s3:///x",
        "s3://key:secret@bucket/x",
        "s3://key:sec/secret@bucket/x",
        "s3://bucket:80/x",
        "s3://bucket/x?scheme=http",
    ],
)
def test_a_place_is_a_bucket_and_a_prefix(place):
    """S1: keys are in no place; an error repeats neither them nor what follows a question mark."""
    with pytest.raises(Error, match="write s3://bucket/prefix; keys, endpoint and region") as said:
        directory_of(place)
    assert not [word for word in ("scheme", "key:", "sec") if word in said.value.message]


def test_a_store_that_is_not_there_is_told(world, variables, monkeypatch):
    """S1: with the place, and where to look."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        Error, match=r"s3://nobody/x cannot be reached or written.*AWS_ENDPOINT_URL"
    ):
        export(order(world, directory_of("s3://nobody/x")))


@pytest.mark.slow
def test_the_commands_take_a_url(world, store, monkeypatch):
    """S1, S10: export, list, verify, remove."""
    monkeypatch.setattr("rowcast_lake.commands.snapshots.os.nice", lambda _by: None)
    (world.path / "schema.graphql").write_text(world.schema)
    words = ["--data", str(world.path), "--out", str(store)]

    def run(*more):
        done = CliRunner().invoke(command, [*more, *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    made = run("export", "--schema", str(world.path / "schema.graphql"))
    assert made.strip() == f"{store}/000000000000000001"
    (row,) = [json.loads(line) for line in run("snapshots", "list", "--json").splitlines()]
    assert (row["snapshot"], row["newest"]) == ("000000000000000001", True)
    assert "is whole: 1 rows" in run("snapshots", "verify")
    run("snapshots", "remove", "newest")
    assert store_of(store).names() == []


def test_a_place_is_set_once():
    """S1: in a directory or in a store."""
    both = {"snapshots": {"directory": "/x", "location": "s3://b/x"}}
    with pytest.raises(ValueError, match="set directory or location, not both"):
        Config.model_validate(both)
    with pytest.raises(ValueError, match="should be a place in an object store"):
        Config.model_validate({"snapshots": {"location": "/x"}})
    assert Config.model_validate({"snapshots": {"location": "s3://b/x"}}).snapshots.place(
        Path("data")
    ) == "s3://b/x"  # fmt: skip


@pytest.mark.slow
async def test_a_server_makes_and_serves_them(tmp_path, store):
    """S1, S12: its exports go there, and its files come from there, with ranges."""
    settings = {"snapshots.location": str(store)}
    async with application(tmp_path, settings=settings) as served:
        exports = served.features["snapshots"].exports
        base = f"http://127.0.0.1:{served.http_port}"
        async with http_client(base_url=base) as client:
            await client.put("/Dog/1", json={"name": "Rex"})
            assert 202 == (await client.post("/$SYS/snapshots/", json={})).status_code
            await until(lambda: not exports.open_jobs)
            (job,) = exports.jobs.values()
            assert job.error is None
            row = (await client.get("/$SYS/snapshots/newest")).json()
            path = "Dog/part-00000.parquet"
            got = await client.get(f"/$SYS/snapshots/newest/{path}", headers={"range": "bytes=0-3"})
            assert (got.status_code, got.content) == (206, b"PAR1")
            assert (store / row["id"] / path).read_bytes() == (
                await client.get(f"/$SYS/snapshots/newest/{path}")
            ).content
            assert (await client.get("/$SYS/snapshots/newest")).json()["pinned"]
            assert not store_of(store).free(row["id"])
            assert 204 == (await client.delete(f"/$SYS/snapshots/{row['id']}")).status_code
    assert store_of(store).names() == []
