"""Partitions: a table's rows in one directory per day, named as by Hive and Spark.

    Dog/day=2026-11-21/part-00000.parquet

The day is in UTC, of the write or of a declared Date; rows without one are in
``day=__HIVE_DEFAULT_PARTITION__``. Within a file rows keep the order in which they were written.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rowcast.core.snapshot_limits import (
    SNAPSHOT_FREE_BYTES_MIN,
    SNAPSHOT_GROUP_ROWS,
    SNAPSHOT_OPEN_FILES_MAX,
    SNAPSHOT_PARTED_BYTES_MAX,
    SNAPSHOT_PARTED_ROWS,
)
from rowcast_lake.snapshots.files import TableFiles
from rowcast_lake.snapshots.manifest import FileFacts
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.shelves import Directory

DAY: Final = "day"
_NONE: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class PartBounds:
    """How much is buffered before it is written."""

    group_rows: int = SNAPSHOT_GROUP_ROWS
    """Rows that are distributed to their days together."""
    parted_rows: int = SNAPSHOT_PARTED_ROWS
    """Rows buffered for all days."""
    open_files: int = SNAPSHOT_OPEN_FILES_MAX


BOUNDS: Final = PartBounds()
"""The bounds by default."""


class PartedFiles:
    """The files of one table, by day; the same interface as ``TableFiles``."""

    def __init__(
        self,
        root: Directory,
        name: str,
        schema: pa.Schema,
        key: str,
        moment: str,
        free_bytes_min: int = SNAPSHOT_FREE_BYTES_MIN,
        bounds: PartBounds = BOUNDS,
    ) -> None:
        self._root = root
        self._name = name
        self._schema = schema
        self._key = key
        self._moment = moment
        self._free_bytes_min = free_bytes_min
        self._bounds = bounds
        self._waiting: list[Batch] = []
        self._rows = 0
        self._parted_rows = self._parted_bytes = 0
        self._open: OrderedDict[str, TableFiles] = OrderedDict()
        self._days: dict[str, TableFiles] = {}

    @property
    def files(self) -> list[FileFacts]:
        """The finished files, by day."""
        return [item for day in sorted(self._days) for item in self._days[day].files]

    def write(self, batch: Batch) -> None:
        """Buffer rows; they are distributed to days when there are enough for a row group."""
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
        if not self._days:
            self._day(_NONE)
        self._flush()
        for files in self._open.values():
            files.close()

    def abandon(self) -> None:
        """Close unfinished files."""
        for files in self._days.values():
            files.abandon()

    def _share_out(self) -> None:
        """Distribute buffered rows to their days, in the same order."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._waiting, self._rows = [], 0
        days = pc.cast(table.column(self._moment), pa.date32(), safe=False)
        table = table.append_column(_AT, days).append_column(_ROW, _numbers(table.num_rows))
        table = table.sort_by([(_AT, "ascending"), (_ROW, "ascending")])
        start = 0
        for day, count in _runs(table.column(_AT)):
            rows = table.slice(start, count).drop_columns([_AT, _ROW])
            start += count
            for batch in rows.to_batches():
                self._day(day).write(batch)
        self._parted_rows += table.num_rows

    def _day(self, day: str) -> TableFiles:
        files = self._days.get(day)
        if files is None:
            directory = f"{self._name}/{DAY}={day}"
            free = self._free_bytes_min
            files = TableFiles(self._root, directory, self._schema, self._key, free)
            self._days[day] = files
        self._open[day] = files
        return files

    def _flush(self) -> None:
        """Write buffered rows of all days, and close files above the limit of open files."""
        self._parted_rows = self._parted_bytes = 0
        for day, files in list(self._open.items()):
            if len(self._open) > self._bounds.open_files:
                files.close()
                del self._open[day]
            else:
                files.drain()


_AT: Final = "\0at"
_ROW: Final = "\0row"


def _numbers(count: int) -> pa.Array:
    return pa.array(range(count), pa.int32())


def _runs(days: pa.ChunkedArray) -> list[tuple[str, int]]:
    """Return each distinct day of sorted days as text, with its number of rows."""
    ends = pc.run_end_encode(days.combine_chunks(), pa.int32())
    stops = ends.run_ends.to_pylist()
    counts = [stop - start for start, stop in zip([0, *stops], stops, strict=False)]
    texts = [_NONE if day is None else day.isoformat() for day in ends.values.to_pylist()]
    return list(zip(texts, counts, strict=True))
