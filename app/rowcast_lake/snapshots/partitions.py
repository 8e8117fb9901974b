"""Partitions: a table's rows in one directory per hour, day, month or value, named as by Hive.

    Dog/day=2026-11-21/part-00000.parquet
    Dog/day=2026-11-21/hour=7/part-00000.parquet
    Dog/month=2026-11/part-00000.parquet
    Dog/by_breed=Poodle/part-00000.parquet

Times are in UTC, of the write or of a declared Date. Rows without one, and rows whose value is no
name of a directory (absent, empty, or long), are in ``__HIVE_DEFAULT_PARTITION__``. Characters that
mean something in a path or a URL are escaped (``%2F``), which Spark, DuckDB, Polars and pyarrow
undo; others stay as they are, because Spark takes each escape for a character and not for a byte.
Within a file rows keep the order in which they were written.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.errors import Code, Error
from rowcast.core.partitions import NONE, Partition, Unit
from rowcast.core.snapshot_limits import (
    SNAPSHOT_FREE_BYTES_MIN,
    SNAPSHOT_GROUP_ROWS,
    SNAPSHOT_OPEN_FILES_MAX,
    SNAPSHOT_PARTED_BYTES_MAX,
    SNAPSHOT_PARTED_ROWS,
    SNAPSHOT_PARTITIONS_MAX,
)
from rowcast.core.snapshot_paths import plain_path
from rowcast_lake.columns.directories import name_of
from rowcast_lake.snapshots.files import TableFiles
from rowcast_lake.snapshots.manifest import FileFacts
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.stores.object_paths import Directory


@dataclass(frozen=True, slots=True)
class PartBounds:
    """How much is buffered before it is written."""

    group_rows: int = SNAPSHOT_GROUP_ROWS
    """Rows that are distributed to their partitions together."""
    parted_rows: int = SNAPSHOT_PARTED_ROWS
    """Rows buffered for all partitions."""
    open_files: int = SNAPSHOT_OPEN_FILES_MAX
    partitions: int = SNAPSHOT_PARTITIONS_MAX


BOUNDS: Final = PartBounds()
"""The bounds by default."""


class PartedFiles:
    """The files of one table, by partition; the same interface as ``TableFiles``."""

    def __init__(
        self,
        root: Directory,
        name: str,
        schema: pa.Schema,
        key: str,
        partition: Partition,
        free_bytes_min: int = SNAPSHOT_FREE_BYTES_MIN,
        bounds: PartBounds = BOUNDS,
    ) -> None:
        self._root = root
        self._name = name
        self._schema = schema
        self._key = key
        self._partition = partition
        self._free_bytes_min = free_bytes_min
        self._bounds = bounds
        self._waiting: list[Batch] = []
        self._rows = 0
        self._parted_rows = self._parted_bytes = 0
        self._open: OrderedDict[str, TableFiles] = OrderedDict()
        self._parts: dict[str, TableFiles] = {}

    @property
    def files(self) -> list[FileFacts]:
        """The finished files, by directory."""
        return [item for part in sorted(self._parts) for item in self._parts[part].files]

    def write(self, batch: Batch) -> None:
        """Buffer rows; they are distributed to partitions when there are enough for a row group."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._parted_bytes += batch.nbytes
        full = self._parted_bytes >= SNAPSHOT_PARTED_BYTES_MAX
        if self._rows >= self._bounds.group_rows or full:
            self._share_out()
        if self._parted_rows >= self._bounds.parted_rows or full:
            self._flush()

    def close(self) -> None:
        """Write the rest; a table without rows has a file, too, which declares its columns."""
        self._share_out()
        if not self._parts:
            self._part(directory_of(self._partition, None))
        self._flush()
        for files in self._open.values():
            files.close()

    def abandon(self) -> None:
        """Close unfinished files."""
        for files in self._parts.values():
            files.abandon()

    def _share_out(self) -> None:
        """Distribute buffered rows to their partitions, in the same order."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._waiting, self._rows = [], 0
        names, places = _directories(self._partition, table)
        table = table.append_column(_AT, places).append_column(_ROW, _numbers(table.num_rows))
        table = table.sort_by([(_AT, "ascending"), (_ROW, "ascending")])
        start = 0
        for place, count in _runs(table.column(_AT)):
            rows = table.slice(start, count).drop_columns([_AT, _ROW])
            start += count
            for batch in rows.to_batches():
                self._part(names[place]).write(batch)
        self._parted_rows += table.num_rows

    def _part(self, name: str) -> TableFiles:
        files = self._parts.get(name)
        if files is None:
            if len(self._parts) >= self._bounds.partitions:
                raise Error(
                    Code.TOO_LARGE,
                    f"{plain_path(self._name)} has more than {self._bounds.partitions} partitions; "
                    "let @table(partition:) name longer times, or an attribute with fewer values",
                )
            directory = f"{self._name}/{name}"
            free = self._free_bytes_min
            files = TableFiles(self._root, directory, self._schema, self._key, free)
            self._parts[name] = files
        self._open[name] = files
        return files

    def _flush(self) -> None:
        """Write buffered rows of all partitions, and close files above the limit of open files."""
        self._parted_rows = self._parted_bytes = 0
        for name, files in list(self._open.items()):
            if len(self._open) > self._bounds.open_files:
                files.close()
                del self._open[name]
            else:
                files.drain()


_AT: Final = "\0at"
_ROW: Final = "\0row"


def _numbers(count: int) -> pa.Array:
    return pa.array(range(count), pa.int32())


def _runs(places: pa.ChunkedArray) -> list[tuple[int, int]]:
    """Return each distinct number of sorted ones, and how often it is there."""
    ends = pc.run_end_encode(places.combine_chunks(), pa.int32())
    stops = ends.run_ends.to_pylist()
    counts = [stop - start for start, stop in zip([0, *stops], stops, strict=False)]
    return list(zip(ends.values.to_pylist(), counts, strict=True))


def _directories(partition: Partition, table: pa.Table) -> tuple[list[str], pa.Array]:
    """Return the directories of some rows, and the number of each row's; values may share one."""
    found = table.column(partition.column)
    if partition.unit is not Unit.VALUE:
        plain = found.cast(pa.timestamp("us"))  # in UTC, for which no zone is looked up
        found = pc.floor_temporal(plain, unit=partition.unit)
    found = found.combine_chunks().dictionary_encode(null_encoding="encode")
    names = [directory_of(partition, value) for value in found.dictionary.to_pylist()]
    each = sorted(set(names))
    numbers = {name: number for number, name in enumerate(each)}
    return each, pa.array([numbers[name] for name in names], pa.int32()).take(found.indices)


def directory_of(partition: Partition, place: object) -> str:
    """Return the directory of rows with the same value, or of times floored to the unit."""
    if place is None:
        texts = [NONE for _ in partition.columns]
    elif partition.unit is Unit.VALUE:
        texts = [name_of(partition.columns[0], place)]
    else:
        moment = cast("datetime", place)
        day = moment.date().isoformat()
        texts = {
            Unit.HOUR: [day, str(moment.hour)],
            Unit.DAY: [day],
            Unit.MONTH: [day[:7]],
        }[partition.unit]
    return "/".join(f"{name}={text}" for name, text in zip(partition.columns, texts, strict=True))
