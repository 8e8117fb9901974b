"""Partitions in Iceberg tables: engines open only the files that a condition needs (S20, S7)."""

import random
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from open_tables import digest_of
from pyiceberg.table import StaticTable

from exported import Exported
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.snapshot_stores import store_of

LONG = "a breed whose name is longer than bounds "
BREEDS = ["01", "a/b", "é", "x=y", "%2F", f"{LONG}1", f"{LONG}2"]
SCHEMA = """
type Written @table(partition: "day") @export @sealed { id: ID @primaryKey }
type Hour @table(partition: "hour(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Day @table(partition: "day(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Month @table(partition: "month(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Breed @table(partition: "breed") @export @sealed { id: ID @primaryKey, breed: String }
type Age @table(partition: "age") @export @sealed { id: ID @primaryKey, age: Long }
type Good @table(partition: "good") @export @sealed { id: ID @primaryKey, good: Boolean }
"""
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TIMES = {"a": NOON, "b": NOON.replace(hour=7), "c": NOON.replace(month=3), "d": None}


@pytest.fixture(autouse=True)
def _planner(monkeypatch):
    """Polars plans with pyiceberg; its own planner is a package that is not needed here."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    made.put("Written", "w")
    for table in ("Hour", "Day", "Month"):
        for key, at in TIMES.items():
            made.put(table, key, {"at": at})
    for number, breed in enumerate(BREEDS):
        made.put("Breed", f"b{number}", {"breed": breed})
        made.put("Age", f"a{number}", {"age": None if number == 5 else number})
    made.put("Good", "y", {"good": True})
    made.put("Good", "n", {"good": False})
    yield made
    made.close()


def opened(world, made, table):
    told = Catalogs.there(world.directory).addresses(table, made.manifest)
    return StaticTable.from_metadata(told["iceberg"]), told["iceberg_snapshot"]


def ids(table, condition, **more):
    return sorted(table.scan(row_filter=condition, **more).to_arrow()["id"].to_pylist())


def values_of(table):
    return [row["partition"] for row in table.inspect.partitions().to_pylist()]


MONTHS = [672, 674, None]
"""Months since 1970."""
KINDS = [
    ("Written", "__ts_day", "day", [date(2023, 11, 14)]),
    ("Hour", "_at_hour", "hour", [490932, 490927, 492348, None]),
    ("Day", "_at_day", "day", [date(2026, 1, 2), date(2026, 3, 2), None]),
    ("Month", "_at_month", "month", MONTHS),
    ("Breed", "breed", "identity", BREEDS),
    ("Age", "age", "identity", [0, 1, 2, 3, 4, None, 6]),
    ("Good", "good", "identity", [True, False]),
]


@pytest.mark.parametrize(("name", "field", "transform", "values"), KINDS)
def test_a_table_has_the_partitions_of_its_directories(world, name, field, transform, values):
    """S20, S7: as a spec, of which each file has a value."""
    made = world.export(name, catalogs=("iceberg",))
    table, _ = opened(world, made, name)
    assert [(item.name, str(item.transform)) for item in table.spec().fields] == [
        (field, transform)
    ]
    assert sorted(map(repr, values)) == sorted(repr(found[field]) for found in values_of(table))
    assert {task.file.spec_id for task in table.scan().plan_files()} == {table.spec().spec_id}


ASKED = [
    (
        "Hour",
        "at < '2026-01-02T08:00:00+00:00'",
        "hour=7/",
        ["b"],
    ),
    ("Day", "at < '2026-01-03T00:00:00+00:00'", "day=2026-01-02", ["a", "b"]),
    ("Month", "at >= '2026-03-01T00:00:00+00:00'", "month=2026-03", ["c"]),
    ("Month", "at IS NULL", "month=__HIVE", ["d"]),
    ("Breed", "breed = 'a/b'", "by_breed=a%2Fb", ["b1"]),
    ("Breed", f"breed = '{LONG}2'", "2/part", ["b6"]),
    ("Age", "age = 3", "by_age=3", ["a3"]),
    ("Good", "good = true", "by_good=true", ["y"]),
]


@pytest.mark.parametrize(("name", "condition", "part", "wanted"), ASKED)
def test_other_partitions_are_not_opened(world, name, condition, part, wanted):
    """S20, S7: by pyiceberg, also where bounds are too short to tell; the other files are gone."""
    made = world.export(name, catalogs=("iceberg",))
    table, _ = opened(world, made, name)
    for file in (world.directory / "newest" / name).rglob("*.parquet"):
        if part not in str(file):
            file.unlink()
    assert ids(table, condition) == wanted
    with pytest.raises(FileNotFoundError):  # the others are gone indeed
        ids(table, "id >= ''")


def test_polars_opens_no_other_partition(world):
    """S20, S7: it plans with the table's spec."""
    made = world.export("Breed", catalogs=("iceberg",))
    table, _ = opened(world, made, "Breed")
    for file in (world.directory / "newest/Breed").rglob("*.parquet"):
        if "2/part" not in str(file):
            file.unlink()
    found = pl.scan_iceberg(table).filter(pl.col("breed") == f"{LONG}2").collect()
    assert found["id"].to_list() == ["b6"]


BLANK = {"n": None, "e": "", "x": "x" * 300, "y": "y" * 5_000}
"""Values that are no names of directories: one file has them all."""


@pytest.mark.heavy
@pytest.mark.parametrize("blank", ["n", "e", "x", "y", "ne", "nxy", "nexy"])
def test_a_file_of_several_values_is_under_the_spec_without_fields(world, blank):
    """S20, S7: no row is lost, also of a text that has no bounds; the others are as before."""
    for key in blank:
        world.put("Breed", key, {"breed": BLANK[key]})
    for number in range(2):  # the second replaces files of both specs
        world.put("Breed", "again", {"breed": f"n{number}"})
        made = world.export("Breed", catalogs=("iceberg",))
        table, at = opened(world, made, "Breed")
        facts = made.manifest.tables["Breed"]
        seen = table.scan(snapshot_id=at).to_arrow()
        assert digest_of(seen, facts, made.manifest, made.place) == facts.digest
        total = table.current_snapshot().summary.additional_properties
        assert (int(total["total-data-files"]), int(total["total-records"])) == (
            len(facts.files),
            facts.rows,
        )
        files = [task.file for task in table.scan().plan_files()]
        plain = [file for file in files if file.spec_id != table.spec().spec_id]
        assert len(plain) == (0 if blank == "n" else 1)
        for key in blank:
            name = BLANK[key]
            condition = "breed IS NULL" if name is None else f"breed = '{name}'"
            assert ids(table, condition) == [key]
        assert ids(table, "breed = '01'") == ["b0"]
        assert ids(table, f"breed = '{LONG}1'") == ["b5"]


@pytest.mark.slow
def test_conditions_about_times_lose_no_row(tmp_path):
    """S20, S7: of hours, days and months, also before 1970 and at the ends of each."""
    world = Exported(tmp_path, SCHEMA)
    chance, rows = random.Random(7), {}
    ends = [datetime(year, month, 1, tzinfo=UTC) for year, month in
            ((1899, 3), (1969, 12), (1970, 1), (1970, 2), (2024, 3), (2100, 3))]  # fmt: skip
    for number in range(80):
        end = chance.choice(ends)
        near = timedelta(microseconds=chance.choice([-1, 0, 1]), hours=chance.choice([-25, -1, 0]))
        rows[f"r{number:02}"] = chance.choice([None, end + near, end + near, end + near])
    for key, at in rows.items():
        for name in ("Hour", "Day", "Month"):
            world.put(name, key, {"at": at})
    made = world.export(catalogs=("iceberg",))
    for name in ("Hour", "Day", "Month"):
        table, _ = opened(world, made, name)
        assert not table.spec().is_unpartitioned()
        for moment in sorted({at for at in rows.values() if at})[::4]:
            text = moment.isoformat()
            for sign, holds in (("<", moment.__gt__), (">=", moment.__le__), ("=", moment.__eq__)):
                wanted = sorted(key for key, at in rows.items() if at and holds(at))
                assert ids(table, f"at {sign} '{text}'") == wanted
        assert ids(table, "at IS NULL") == sorted(key for key, at in rows.items() if at is None)
    world.close()


@pytest.mark.slow
def test_a_table_that_is_divided_in_another_way_keeps_its_versions(world):
    """S20, S11, S12: also those of before, which had no spec; retention goes on."""
    hour = 'Hour @table(partition: "hour(at)")'
    shapes = [
        ('history: "1d"', "at: Date"), ('partition: "hour(at)"', "at: Date"),
        ('partition: "month(at)"', "at: Date"),
        ('partition: "month(at)"', "at: Date, at_month: Int"),
        ('partition: "hour(at)"', "at: Date, at_month: Int"), ('history: "1d"', "at: Date"),
        ('partition: "day"', "at: Date"), ('partition: "day(born)"', "at: Date, born: Date"),
        ('partition: "n"', "at: Date, n: Int"), ('partition: "n"', "at: Date, n: Long"),
    ]  # fmt: skip
    names = [[], ["_at_hour"], ["_at_month"], ["_at_month"], ["_at_hour"], [], ["__ts_day"],
             ["_born_day"], ["n"], ["n"]]  # fmt: skip
    exports = []
    for number, (part, columns) in enumerate(shapes):
        shape = SCHEMA.replace(hour, f"Hour @table({part})")
        place = shape.index("at: Date", shape.index("type Hour"))
        world.open(shape[:place] + columns + shape[place + len("at: Date") :])
        value = {"at": NOON, "born": NOON, "n": number}
        known = {name: value[name] for name in value if f"{name}:" in columns}
        world.put("Hour", f"e{number}", known)
        exports.append(world.export("Hour", catalogs=("iceberg",)))
        table, _ = opened(world, exports[-1], "Hour")
        assert names[number] == [field.name for field in table.spec().fields]
        assert len({task.file.spec_id for task in table.scan().plan_files()}) == 1
    check(world, exports, at=len(TIMES))
    assert len(store_of(world.directory).keep(3)) == len(exports) - 3
    check(world, exports[-3:], at=len(TIMES) + len(exports) - 3)
    table, _ = opened(world, exports[-1], "Hour")
    assert len(table.snapshots()) == 3
    assert ids(table, "n = 9") == ["e9"]


def check(world, exports, at):
    """Each version has the rows and the digest of its snapshot."""
    for number, made in enumerate(exports):
        table, snapshot = opened(world, made, "Hour")
        manifest = read_manifest(made.place)
        facts = manifest.tables["Hour"]
        seen = table.scan(snapshot_id=snapshot).to_arrow()
        assert seen.num_rows == at + number + 1
        assert digest_of(seen, facts, manifest, made.place) == facts.digest
