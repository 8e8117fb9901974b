"""How files are written, and that files of an earlier format are still read (S4, S10, S11)."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import Exported
from rowcast.core.events import DELETE
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.schema import parse_schema
from rowcast_lake.snapshots.changes import export_changes
from rowcast_lake.snapshots.compaction import compact
from rowcast_lake.snapshots.encodings import writer_options
from rowcast_lake.snapshots.export import Order
from rowcast_lake.snapshots.fold import differences
from rowcast_lake.snapshots.importing import Importer, files_of
from rowcast_lake.snapshots.manifest import read_manifest
from rowcast_lake.snapshots.verify import verify

FORMAT_2 = Path(__file__).parent / "format-2"
"""Two snapshots and the changes between them, as format 2 was written."""


@pytest.fixture
def world(tmp_path):
    made = Exported(tmp_path)
    yield made
    made.close()


def columns(path):
    """Return the facts of each column of a file's first row group."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = [group.column(at) for at in range(group.num_columns)]
    return {column.path_in_schema: column for column in found}, group.sorting_columns


def test_numbers_times_and_keys_are_written_as_differences(world):
    """S4: nested ones too; texts that repeat have a dictionary; every column has a page index."""
    owner = {"name": "Ann", "tags": ["x"]}
    world.put("Dog", "1", {"name": "Rex", "age": 3, "owner": owner, "nums": [1, 2]})
    world.export()
    found, sorted_by = columns(world.directory / "newest/Dog/part-00000.parquet")
    differing = {
        name for name, column in found.items() if "DELTA_BINARY_PACKED" in column.encodings
    }
    assert differing == {
        "age", "chip", "born", "owner.born", "nums.list.element", "days.list.element", "_seq", "_ts"
    }  # fmt: skip
    shared = {name for name, column in found.items() if "DELTA_BYTE_ARRAY" in column.encodings}
    assert shared == {"id", "_topic"}
    assert "RLE_DICTIONARY" in found["name"].encodings
    assert all(column.has_column_index for column in found.values())
    assert [(item.column_index, item.descending) for item in sorted_by] == [(0, False)]


def test_a_page_holds_few_rows(world):
    """S4: so that an engine that looks for one key reads little."""
    options = writer_options(pa.schema([pa.field("id", pa.string())]), "id")
    assert options["max_rows_per_page"] < 10_000
    assert options["write_page_index"]


def test_keys_and_positions_are_never_null(world):
    """S4: but in changes, where a message below a record has no key; the time is there once."""
    world.put("Dog", "1", {"name": "Rex"})
    world.put("Strict", 10, {"v": 1})
    world.export()

    def never_null(path):
        schema = pq.read_schema(world.directory / path)
        assert "_version" not in schema.names
        return {field.name for field in schema if not field.nullable}

    of_each = {"_topic", "_seq", "_ts", "_op", "_origin"}
    assert never_null("newest/Dog/part-00000.parquet") == of_each | {"id"}
    assert never_null("newest/Strict/part-00000.parquet") == of_each | {"n"}
    world.put("Dog", "2", {})
    order = Order(world.path / "rowcast.db", world.directory, world.schema)
    page = export_changes(order)
    assert never_null(f"changes/{page.place.name}/Dog/part-00000.parquet") == of_each


def test_messages_have_an_id_a_topic_and_a_time(world):
    """S4: a topic table's columns that are in each row say so, and its files are in log order."""
    world.store.define(TopicTable("mqtt_home", TopicRoot("home")))
    world.put(None, "home/x", payload=b"1", kind="message")
    world.export()
    path = world.directory / "newest/mqtt_home/part-00000.parquet"
    never_null = {field.name for field in pq.read_schema(path) if not field.nullable}
    assert never_null == {"id", "topic", "timestamp", "_seq", "_ts", "_op", "_origin"}
    found, sorted_by = columns(path)
    assert list(found)[sorted_by[0].column_index] == "_seq"


@pytest.fixture
def aged(tmp_path):
    """A directory of format 2."""
    shutil.copytree(FORMAT_2, tmp_path / "snapshots")
    return tmp_path / "snapshots"


def test_a_snapshot_of_format_2_is_read(aged):
    """S10, S11: it matches its manifest, with its changes it is the later one, and is imported."""
    first, last = "000000000000000007", "000000000000000011"
    assert verify(aged / first).format == 2
    assert verify(aged / last).rows == 8
    assert {} == differences(aged, Catalogue(aged).items(), first, last)
    declared = parse_schema(read_manifest(aged / first).schema).tables
    dogs = next(table for table in declared if table.name == "Dog")
    importer, files = Importer(dogs), files_of(aged / first, dogs)
    assert importer.check(files) == 3
    (one, *_) = importer.records(files[0])
    assert (one.id, one.value["colour"], one.value["photo"]) == ("1", "red", b"\x01")


def test_changes_of_format_2_are_merged_into_files_of_the_present(aged):
    """S6, S11: what two pages hold is one page without the column that repeated the time."""
    (page,) = [item for item in Catalogue(aged).items() if item.is_page]
    text = (aged / page.name / "manifest.json").read_text()
    later = aged / "changes/seq=000000000000000012-000000000000000015"
    shutil.copytree(aged / page.name, later)
    renumbered = text.replace('"from_seq": 8', '"from_seq": 12').replace('"seq": 11', '"seq": 15')
    assert renumbered != text
    (later / "manifest.json").write_text(renumbered)
    (merged,) = compact(aged, everything=True, covered_seconds=0)
    assert (merged.manifest.format, merged.manifest.rows) == (3, 8)
    path = merged.place / merged.manifest.tables["Dog"].files[0].path
    assert "_version" not in pq.read_schema(path).names
    found, sorted_by = columns(path)
    assert "DELTA_BINARY_PACKED" in found["_seq"].encodings
    assert list(found)[sorted_by[0].column_index] == "_seq"


def test_a_row_of_before_and_its_deletion_are_one_key(world):
    """S6: the key may be null in changes only; both sides fold to one table."""
    world.put("Dog", "1", {"name": "Rex"})
    first = world.export().place.name
    world.store.commit([world.event("Dog", "1", kind=DELETE)])
    export_changes(Order(world.path / "rowcast.db", world.directory, world.schema))
    last = world.export().place.name
    assert {} == differences(world.directory, Catalogue(world.directory).items(), first, last)
