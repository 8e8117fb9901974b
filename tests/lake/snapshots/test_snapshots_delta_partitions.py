"""Partitions in Delta tables: engines open only the files of those that are asked for (S20, S7)."""

import json
from datetime import UTC, date, datetime

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from exported import Exported
from rowcast.core.errors import Error

BREEDS = ["01", "a/b", "a b", "é", "x=y", "100%", "%2F", None, ""]
SCHEMA = """
type Hour @table(partition: "hour(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Month @table(partition: "month(at)") @export @sealed { id: ID @primaryKey, at: Date }
type Breed @table(partition: "breed") @export @sealed { id: ID @primaryKey, breed: String }
type Age @table(partition: "age") @export @sealed { id: ID @primaryKey, age: Long }
type Good @table(partition: "good") @export @sealed { id: ID @primaryKey, good: Boolean }
"""
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TIMES = {"a": NOON, "b": NOON.replace(hour=7), "c": NOON.replace(month=3), "d": None}


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    for key, at in TIMES.items():
        made.put("Hour", key, {"at": at})
        made.put("Month", key, {"at": at})
    for number, breed in enumerate(BREEDS):
        made.put("Breed", f"b{number}", {"breed": breed})
        made.put("Age", f"a{number}", {"age": number})
    made.put("Good", "y", {"good": True})
    made.put("Good", "n", {"good": False})
    yield made
    made.close()


def values_of(place):
    """The partition values of the newest version's files, as Delta's log has them."""
    log = max((place / "_delta_log").glob("*.json"))
    added = [json.loads(line).get("add") for line in log.read_text().splitlines()]
    return [found["partitionValues"] for found in added if found]


ASKED = [
    ("Hour", "day", date(2026, 1, 2), "DATE '2026-01-02'", "day=2026-01-02", ["a", "b"]),
    ("Hour", "hour", 7, "7", "hour=7/", ["b"]),
    ("Month", "month", "2026-03", "'2026-03'", "month=2026-03", ["c"]),
    ("Breed", "by_breed", "a/b", "'a/b'", "by_breed=a%2Fb", ["b1"]),
    ("Breed", "by_breed", "%2F", "'%2F'", "by_breed=%252F", ["b6"]),
    ("Breed", "by_breed", "01", "'01'", "by_breed=01", ["b0"]),
    ("Age", "by_age", 3, "3", "by_age=3", ["a3"]),
    ("Good", "by_good", True, "true", "by_good=true", ["y"]),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("table", "column", "value", "text", "part", "ids"), ASKED)
def test_other_partitions_are_not_opened(world, table, column, value, text, part, ids):
    """S20, S7: by delta-rs, Polars and DuckDB, although the other files are gone."""
    world.export(catalogs=("delta",))
    place = world.directory / "delta" / table
    for file in (world.directory / "newest" / table).rglob("*.parquet"):
        if part not in str(file):
            file.unlink()
    read = DeltaTable(place).to_pyarrow_dataset()
    found = read.to_table(columns=["id"], filter=ds.field(column) == value)
    assert ids == sorted(found["id"].to_pylist())
    by_polars = pl.scan_delta(str(place)).filter(pl.col(column) == value).select("id").collect()
    assert ids == sorted(by_polars["id"].to_list())
    with duckdb.connect() as duck:
        duck.register("seen", read)
        by_duck = duck.sql(f'SELECT id FROM seen WHERE "{column}" = {text}').fetchall()
        assert [(name,) for name in ids] == sorted(by_duck)
    with pytest.raises(FileNotFoundError):  # the others are gone indeed
        read.to_table(columns=["id"])


def test_the_log_has_the_values_of_each_file(world):
    """S20: null where a row has none, or one that is no name."""
    world.export(catalogs=("delta",))
    breeds = {found["by_breed"] for found in values_of(world.directory / "delta/Breed")}
    assert {None, *BREEDS} - {""} == breeds
    hours = [(found["day"], found["hour"]) for found in values_of(world.directory / "delta/Hour")]
    expected = [("2026-01-02", "12"), ("2026-01-02", "7"), ("2026-03-02", "12"), (None, None)]
    assert sorted(expected, key=repr) == sorted(hours, key=repr)
    rows = DeltaTable(world.directory / "delta/Breed").to_pyarrow_table().to_pylist()
    assert all((row["breed"] or None) == row["by_breed"] for row in rows)


@pytest.mark.slow
def test_a_table_that_is_divided_in_another_way_keeps_its_versions(world):
    """S20, S11: also those of before, which had no partition columns."""
    parts = ['partition: "hour(at)"', 'partition: "month(at)"', 'history: "1d"', 'partition: "day"']
    columns = [["day", "hour"], ["month"], [], ["day"]]
    for number, part in enumerate(parts):
        world.open(SCHEMA.replace('Hour @table(partition: "hour(at)")', f"Hour @table({part})"))
        for letter in "ef":
            world.put("Hour", f"{letter}{number}", {"at": NOON})
            world.export(catalogs=("delta",))
    place = world.directory / "delta/Hour"
    for version in range(8):
        table = DeltaTable(place, version=version)
        assert columns[version // 2] == table.metadata().partition_columns
        assert len(TIMES) + version + 1 == table.to_pyarrow_table().num_rows


def test_a_replaced_table_has_the_number_that_was_announced(world, monkeypatch):
    """S20: where the partition columns change, too, nobody may have come between."""
    from rowcast_lake.snapshots import delta_catalog

    real = delta_catalog.create_table_with_add_actions

    def twice(*given, **more):
        real(*given, **more)
        if given[3] == "overwrite":
            real(*given, **more)

    world.export(catalogs=("delta",))
    monkeypatch.setattr(delta_catalog, "create_table_with_add_actions", twice)
    world.open(SCHEMA.replace("month(at)", "day(at)"))
    world.put("Month", "e", {"at": NOON})
    with pytest.raises(Error, match="another program made version 1 of the delta table Month"):
        world.export(catalogs=("delta",))
