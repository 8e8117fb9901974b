"""How the files of a snapshot are shared out to the tasks of Spark (S9)."""

import pytest

pytest.importorskip("pyspark")

from by_hand import DOG, dog, write_snapshot
from hypothesis import given
from hypothesis import strategies as st

from rowcast.core.errors import Error
from rowcast.core.pipeline_limits import FILE_BYTES, PARTITION_BYTES
from rowcast.core.snapshot_limits import SNAPSHOT_GROUP_ROWS
from rowcast_lake.spark.places import Directory
from rowcast_lake.spark.source import Snapshot

MEGA = 1024 * 1024


def snapshot_of(*files):
    """A snapshot with files of so many rows and bytes."""
    entries = [
        {"path": f"Dog/part-{at:05d}.parquet", "rows": rows, "bytes": size}
        for at, (rows, size) in enumerate(files)
    ]
    return Snapshot(Directory("."), "1", {"tables": {"Dog": {"files": entries}}}, "Dog")


def test_many_small_files_are_one_task(tmp_path):
    """S9: a task costs a tenth of a second, a small file some milliseconds."""
    parts = snapshot_of(*[(288, 12_000)] * 1_462).parts(2)
    assert len(parts) <= 1_462 * (12_000 + FILE_BYTES) // PARTITION_BYTES + 2
    assert sum(len(part.pieces) for part in parts) == 1_462


def test_a_large_file_is_split_into_its_row_groups():
    """S9: so that a single file is read by several tasks, and none has more than its share."""
    parts = snapshot_of((10 * SNAPSHOT_GROUP_ROWS, 200 * MEGA)).parts(1)
    assert [(piece.part, piece.parts) for part in parts for piece in part.pieces] == [
        (number, 7) for number in range(7)
    ]
    assert len(parts) == 7
    assert len(snapshot_of((10 * SNAPSHOT_GROUP_ROWS, MEGA)).parts(4)) == 4
    assert len(snapshot_of((10, 200 * MEGA)).parts(4)) == 1


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(100, 10**9)), min_size=1, max_size=40),
    st.integers(1, 50),
)
def test_each_part_of_each_file_is_read_once(files, at_least):
    """S9: whatever the sizes; no task has more than its share, unless it reads a single piece."""
    parts = snapshot_of(*files).parts(at_least)
    found = [(piece.path, piece.part, piece.parts) for part in parts for piece in part.pieces]
    assert len(found) == len(set(found))
    for path in {path for path, _, _ in found}:
        numbers = [(number, of) for name, number, of in found if name == path]
        assert numbers == [(number, numbers[0][1]) for number in range(numbers[0][1])]
    assert len({path for path, _, _ in found}) == len(files)
    for part in parts:
        weights = [piece.weight for piece in part.pieces]
        assert len(weights) == 1 or sum(weights) <= PARTITION_BYTES


def test_columns_that_nobody_wants_are_left_out(tmp_path):
    """S9: in the order of the table; an unknown one is told by its neighbour's name."""
    write_snapshot(tmp_path, "e", 1, {"Dog/part-00000.parquet": [dog(1)]})
    snapshot = Snapshot.of(Directory(str(tmp_path)), "newest", "Dog")
    assert snapshot.chosen(["age", "id"]).names == ["id", "age"]
    assert snapshot.chosen([]).names == [*DOG.names, "_op"]
    with pytest.raises(Error, match=r"Dog has no column .aeg.; did you mean .age"):
        snapshot.chosen(["aeg"])


@pytest.mark.slow
def test_s9_small_files_are_read_together(spark, tmp_path):
    """S9: twenty files by two tasks, each row once; some columns; for a condition one file."""
    files = {
        f"Dog/day=2026-01-{day:02d}/part-00000.parquet": [dog(day * 10), dog(day * 10 + 1)]
        for day in range(1, 21)
    }
    write_snapshot(tmp_path, "e", 300, files)
    read = spark.read.format("rowcast").options(table="Dog", minPartitions=2, columns="id,day")
    frame = read.load(str(tmp_path))
    assert frame.columns == ["id", "day"]
    assert 2 <= frame.rdd.getNumPartitions() <= 3  # their sizes differ a little
    ids = sorted(int(row.id) for row in frame.collect())
    assert ids == [day * 10 + more for day in range(1, 21) for more in (0, 1)]
    late = read.option("pushdown", "true").load(str(tmp_path)).where("day > '2026-01-19'")
    assert late.rdd.getNumPartitions() == 1
    assert [row.id for row in late.collect()] == ["200", "201"]
