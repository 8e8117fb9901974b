"""Verify: a snapshot proves itself, and whatever was changed is found (S7, S10)."""

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import Exported, digest_by_hand
from rowcast.core.errors import Error
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.partitions import PartBounds
from rowcast_lake.snapshots.reading import rows_of
from rowcast_lake.snapshots.verify import verify

PARTED = """
type Log @table(partition: "day(at)") @export { id: ID @primaryKey, at: Date, n: Int }
type Late @table(partition: "day") @export { id: Long @primaryKey, n: Int }
"""


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path)
    yield made
    made.close()


def fill(world, count=40):
    chance = random.Random(7)
    for number in range(count):
        day = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=chance.randrange(400))
        value = {
            "name": chance.choice([None, "", "Ünï", "x" * 300]),
            "age": chance.choice([None, -1, 7]),
            "weight": chance.choice([None, -0.0, float("nan"), 1e300]),
            "price": Decimal("1.10"),
            "good": chance.choice([None, True, False]),
            "born": chance.choice([None, day]),
            "photo": chance.choice([None, b"", b"\0\1"]),
            "any": chance.choice([[], {"a": 1}]),
            "owner": chance.choice([None, {"name": "Ann", "tags": []}, {"tags": ["a", "b"]}]),
            "path": chance.choice([None, [], [{"x": 1.0, "y": 0.0}, None]]),
            "nums": chance.choice([None, [1, None]]),
            "colour": chance.choice(["red", 1]),
        }
        world.put("Dog", f"d{chance.randrange(10**9)}-{number}", value)


def test_a_digest_can_be_computed_by_who_has_only_the_words(world):
    """S10: another engine's rows, hashed value by value, give the digest of the manifest."""
    fill(world)
    made = world.export("Dog")
    facts = made.manifest.tables["Dog"]
    files = str(made.place / "Dog" / "*.parquet")
    names = ",".join(f'"{name}"' for name in facts.content)
    relation = duckdb.sql(f"SELECT {names} FROM '{files}' ORDER BY id")
    rows = relation.to_arrow_table().to_pylist()
    columns = list(zip(relation.columns, map(str, relation.types), strict=True))
    assert digest_by_hand(rows, columns) == facts.digest


def test_a_digest_does_not_know_batches_or_empty_columns(world):
    """S10, S11: nor a column that nobody has filled."""
    fill(world, 20)
    made = world.export("Dog")
    table = pq.read_table(made.place / "Dog")
    columns = made.manifest.tables["Dog"].content
    small = Digest((*columns, "new"))
    wider = table.append_column("new", pa.nulls(table.num_rows, pa.int32()))
    for batch in wider.to_batches(max_chunksize=3):
        small.update(batch)
    assert str(small) == made.manifest.tables["Dog"].digest


def test_whatever_is_changed_is_found(world):
    """S10: a flipped byte anywhere, a file more or less, another row count, another digest."""
    fill(world, 5)
    place = world.export("Dog").place
    assert verify(place) == read_manifest(place)
    file = place / "Dog" / "part-00000.parquet"
    whole = file.read_bytes()
    for at in random.Random(3).sample(range(len(whole)), 40):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at % 8)
        file.write_bytes(changed)
        with pytest.raises(Error, match=r"Dog/part-00000\.parquet has the SHA-256"):
            verify(place)
    file.write_bytes(whole[:-1])
    with pytest.raises(Error, match=r"part-00000\.parquet has \d+ bytes"):
        verify(place)
    file.write_bytes(whole)
    (place / "Dog" / "more").touch()
    with pytest.raises(Error, match=r"Dog/more is there"):
        verify(place)
    (place / "Dog" / "more").unlink()
    facts = json.loads((place / "manifest.json").read_text())
    for name, wrong, said in (("rows", 6, "has 5 rows"), ("digest", "sha256:0", "has the digest")):
        changed = json.loads(json.dumps(facts))
        changed["tables"]["Dog"][name] = wrong
        (place / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(Error, match=said):
            verify(place)
    file.unlink()
    with pytest.raises(Error, match=r"part-00000\.parquet is missing"):
        verify(place)


@pytest.fixture
def parted(tmp_path):
    made = Exported(tmp_path, PARTED)
    yield made
    made.close()


def test_a_table_is_split_by_day(parted):
    """S7: by a declared Date or the write; the digest is that of the rows, not of their places."""
    chance, rows = random.Random(5), {}
    for number in range(200):
        at = datetime(1969, 12, 30, tzinfo=UTC) + timedelta(hours=chance.randrange(150))
        rows[f"r{chance.randrange(10**6):06d}-{number}"] = chance.choice([None, at])
    for key, at in rows.items():
        parted.put("Log", key, {"at": at, "n": 1})
    parted.put("Late", 5, {"n": 1}, version=86_400_000_000 * 3 - 1)
    place = parted.export(parting=PartBounds(16, 40, 2)).place
    verify(place, merge_rows=8)
    facts = read_manifest(place).tables
    assert len(facts["Log"].files) > 9  # more than are merged at once: three passes
    sorted_rows = pa.Table.from_batches(rows_of(place, facts["Log"], merge_rows=8, merge_files=3))
    assert sorted_rows["id"].to_pylist() == sorted(rows)
    assert sorted_rows["at"].to_pylist() == [rows[key] for key in sorted(rows)]
    assert facts["Log"].partition == "day"
    assert [item.path for item in facts["Late"].files] == ["Late/day=1970-01-03/part-00000.parquet"]
    days = {at.date().isoformat() if at else "__HIVE_DEFAULT_PARTITION__" for at in rows.values()}
    assert {item.path.split("/")[1] for item in facts["Log"].files} == {f"day={d}" for d in days}
    found = duckdb.sql(
        f"SELECT id, \"at\", day::VARCHAR FROM read_parquet('{place}/Log/**/*.parquet', "
        "hive_partitioning=true)"
    )
    read = [tuple(row.values()) for row in found.to_arrow_table().to_pylist()]
    assert {key: at for key, at, _ in read} == rows
    assert all(day == at.astimezone(UTC).date().isoformat() for _, at, day in read if at)


FEW = """
import resource, sys
from pathlib import Path
from rowcast_lake.snapshots.verify import verify
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
print(verify(Path(sys.argv[1])).rows)
"""


@pytest.mark.slow
def test_more_partitions_than_a_process_may_open_are_verified(parted):
    """S7, S10: their files are merged in groups."""
    for number in range(300):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        parted.put("Log", f"r{number * 37 % 300:03d}", {"at": at, "n": number})
    place = parted.export("Log").place
    assert len(read_manifest(place).tables["Log"].files) == 300
    done = subprocess.run(
        [sys.executable, "-c", FEW, str(place)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("300\n", 0), done.stderr


def test_a_partition_needs_its_name():
    """S7: the column of a partition is called day."""
    with pytest.raises(Error, match='rename the attribute "day"'):
        parse_schema('type Log @table(partition: "day") { id: ID @primaryKey, day: Date }')


@pytest.mark.parametrize(
    "path",
    ["../../secret", "../delta/Dog/1/../../../../secret", "../delta/Dog/../x", "/secret", "Dog//x"],
)
def test_no_manifest_names_a_file_elsewhere(world, path):
    """S7, S10: a snapshot of others may come with any; nothing beside it is served or read."""
    world.put("Dog", "1", {"age": 1})
    place = world.export("Dog").place
    (world.directory.parent / "secret").write_text("secret")
    facts = json.loads((place / "manifest.json").read_text())
    facts["tables"]["Dog"]["files"][0]["path"] = path
    (place / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(Error, match="not of the snapshot"):
        verify(place)
    (item,) = Catalogue(world.directory).items()
    assert not item.files
    assert "not of the snapshot" in item.problem
