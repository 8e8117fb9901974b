"""Snapshots of tables of one name in several databases (A6)."""

import json

import pytest

from exported import Exported
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.export import Order
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.importing import Importer, files_of
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.verify import verify

SCHEMA = """
type Dog @table(database: "a") @export(name: "a-dogs") { id: ID @primaryKey name: String! }
type Dog2 @table(database: "b", table: "Dog") @export { id: ID @primaryKey age: Int! }
"""
NAMES = {"a.Dog", "b.Dog"}


def put(world, table, value):
    world.put(table, value["id"], value, payload=json.dumps(value).encode())


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path, SCHEMA)
    put(made, "a.Dog", {"id": "1", "name": "Rex"})
    put(made, "b.Dog", {"id": "1", "age": 3})
    yield made
    made.close()


def test_each_is_a_directory_of_its_own(world):
    """A6, S1: with its own columns, and its own entry in the manifest."""
    made = world.export(history=True)
    assert {*NAMES, *(f"{name}_history" for name in NAMES)} <= set(made.manifest.tables)
    assert ["Rex"] == [row["name"] for row in world.rows("a.Dog")]
    assert [3] == [row["age"] for row in world.rows("b.Dog")]
    assert [3] == [row["age"] for row in world.rows("b.Dog_history")]
    verify(made.place)


def test_one_of_them_is_exported_alone(world):
    """A6."""
    assert {"b.Dog"} == set(world.export("b.Dog").manifest.tables)


def test_changes_and_what_they_prove_are_of_each(world):
    """A6, S6: a page has the news of each, and brings the one snapshot to the other."""
    first = world.export().place.name
    put(world, "b.Dog", {"id": "2", "age": 5})
    put(world, "a.Dog", {"id": "1", "name": "Ada"})
    order = Order(world.path / "rowcast.db", world.directory, SCHEMA)
    page = export_changes(order)
    last = world.export().place.name
    items = Catalogue(world.directory).items()
    rows = {name: page.manifest.tables[name].rows for name in NAMES}
    assert {"a.Dog": 1, "b.Dog": 1} == rows
    assert {} == differences(world.directory, items, first, last)
    assert NAMES <= set(read_manifest(world.directory / last).tables)


def test_each_is_imported_from_its_directory(world):
    """A6, S19: of a whole snapshot, a table finds its own files."""
    place = world.export().place
    values = {
        table.name: [
            record.value
            for file in files_of(place, table)
            for record in Importer(table).records(file)
        ]
        for table in parse_schema(SCHEMA).tables
    }
    expected = {"a.Dog": [{"id": "1", "name": "Rex"}], "b.Dog": [{"id": "1", "age": 3}]}
    assert expected == values
