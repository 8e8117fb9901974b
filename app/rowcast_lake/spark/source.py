"""A snapshot as a DataFrame: ``spark.read.format("rowcast").option("table", "Dog").load()``.

Each Spark task reads files of about one size together: many small ones, or row groups of a large
one. Only the columns of the reader's schema are read, and no file or row group that a filter rules
out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.datasource import (
    DataSourceReader,
    Filter,
    GreaterThan,
    InputPartition,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from rowcast.core.errors import Code, Error
from rowcast.core.partitions import NONE, PREFIX, Partition, Unit
from rowcast.core.pipeline_limits import ARROW_ROWS, FILE_BYTES, PARTITION_BYTES
from rowcast.core.snapshot_limits import SNAPSHOT_GROUP_ROWS
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast_lake.columns.directories import columns_of
from rowcast_lake.columns.joining import converted, joined
from rowcast_lake.spark.divided import declared, partition_of
from rowcast_lake.spark.filters import expression_of
from rowcast_lake.spark.log_rows import OP, history_path
from rowcast_lake.spark.places import Facts, Place
from rowcast_lake.spark.times import reaches

SNAPSHOT: Final = "snapshot"
"""The ``_op`` of a snapshot's row."""
_TOPIC: Final = "_topic"
"""A column of declared tables only."""
_HIVE: Final = re.compile(r"([^/=]+)=([^/]*)/")
Values = tuple[tuple[str, str], ...]
"""Names and values of a file's partitions."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One of ``parts`` equal parts of a file."""

    path: str
    values: Values
    """The partition values from the file's directories, such as ``day=2026-11-21``."""
    part: int
    parts: int
    weight: int
    """What reading it costs, in bytes."""


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """The input of one task."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SnapshotPart(InputPartition):
    """The part of a snapshot or increment that one task of a stream reads."""

    folder: str
    part: Part
    until: int | None = None
    """Only rows up to this position; None for all."""
    after: int = 0
    """Only rows after this position."""

    @property
    def bounds(self) -> Sequence[Filter]:
        """The conditions that its rows fulfil."""
        found: list[Filter] = [GreaterThan(("_seq",), self.after)] if self.after else []
        found += [] if self.until is None else [LessThanOrEqual(("_seq",), self.until)]
        return found


@dataclass(frozen=True)
class Snapshot:
    """One table of one snapshot."""

    place: Place
    folder: str
    """The resolved directory of the snapshot, because ``newest`` may change meanwhile."""
    manifest: Facts
    name: str

    @classmethod
    def of(cls, place: Place, snapshot: str, name: str) -> "Snapshot":
        """Find a table; raises NOT_FOUND when there is none of that name."""
        folder = place.resolve(snapshot)
        manifest = place.manifest(folder)
        tables = cast("Facts", manifest["tables"])
        if name not in tables:
            raise Error(
                Code.NOT_FOUND,
                f"the snapshot {manifest['cut']} has no table {name!r}"
                f"{did_you_mean(name, sorted(tables))}; it has {', '.join(sorted(tables))}",
            )
        return cls(place, folder, manifest, name)

    @property
    def cut(self) -> tuple[str, int]:
        """The log's epoch, and the position up to which the snapshot is complete."""
        return str(self.manifest["epoch"]), int(cast("int", self.manifest["seq"]))

    @property
    def created(self) -> datetime:
        """When it was made."""
        return datetime.fromisoformat(str(self.manifest["created"]))

    @property
    def is_page(self) -> bool:
        """Whether it is an increment, whose rows are events."""
        return self.manifest.get("from_seq") is not None

    @property
    def files(self) -> Sequence[Facts]:
        """The table's files in the manifest."""
        facts = cast("Facts", cast("Facts", self.manifest["tables"])[self.name])
        return cast("Sequence[Facts]", facts["files"])

    @property
    def table(self) -> Table | None:
        """The table's declaration; None for one of undeclared topics."""
        return declared(self.manifest, self.name)

    @property
    def log_path(self) -> str:
        """The path of its events on a server.

        Raises UNSUPPORTED for a declared table of an export for a role, which has no schema: by
        that the values of events get their types.
        """
        if self.table is None and _TOPIC in self.schema.names:
            raise Error(
                Code.UNSUPPORTED,
                f"{self.folder} is an export for a role, without the schema by which events of the "
                "log are read; read it alone, stream its increments (increments=true), or read "
                "from the server, without a path",
            )
        return history_path(self.table, self.name)

    @cached_property
    def partition(self) -> Partition | None:
        """By what its files are divided, if they are and the manifest says it."""
        return partition_of(self.manifest, self.name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of its files, the partition columns, and ``_op``."""
        if not self.files:
            raise Error(Code.NOT_FOUND, f"the snapshot has no file of {self.name}")
        path = str(self.files[0]["path"])
        stored = pq.read_schema(self.place.open(self.folder, path))
        # A stream has the same columns, and rows of its log may lack any of them.
        found = pa.schema([field.with_nullable(True) for field in stored])
        for name, _ in _values(self.files[0]):
            found = found.append(pa.field(name, _type_of(name, stored)))
        if self.is_page:
            return found
        place = found.get_field_index(OP)  # only the log has the operation of a write
        found = found if place < 0 else found.remove(place)
        return found.append(pa.field(OP, pa.string(), nullable=False))

    def chosen(self, names: Sequence[str], columns: pa.Schema | None = None) -> pa.Schema:
        """Return some of its columns, or of these, in their order; all if none is named."""
        columns = self.schema if columns is None else columns
        known = columns.names
        for name in names:
            if name not in known:
                raise Error(
                    Code.NOT_FOUND, f"{self.name} has no column {name!r}{did_you_mean(name, known)}"
                )
        return pa.schema([item for item in columns if not names or item.name in names])

    def parts(self, at_least: int, wanted: Callable[[Values], bool] | None = None) -> list[Part]:
        """Return the parts for the tasks, if possible ``at_least`` so many.

        ``wanted`` says by its partition values whether a file is read.
        """
        files = [(file, _values(file)) for file in self.files]
        if wanted is not None:
            files = [(file, values) for file, values in files if wanted(values)]
        total = sum(_number(file, "bytes") + FILE_BYTES for file, _ in files)
        size = min(PARTITION_BYTES, max(FILE_BYTES, -(-total // at_least)))
        pieces: list[Piece] = []
        for file, values in files:
            groups = -(-_number(file, "rows") // SNAPSHOT_GROUP_ROWS)
            weight = _number(file, "bytes") + FILE_BYTES
            count = max(1, min(groups, -(-weight // size)))
            path = str(file["path"])
            pieces += [Piece(path, values, part, count, weight // count) for part in range(count)]
        return list(_packed(pieces, size))


def _values(file: Facts) -> Values:
    return tuple(_HIVE.findall(str(file["path"]).partition("/")[2]))


def _number(file: Facts, name: str) -> int:
    return int(cast("int", file[name]))


def _packed(pieces: Sequence[Piece], size: int) -> Iterator[Part]:
    """Put pieces together, in their order, until they are as large as a task's input."""
    waiting: list[Piece] = []
    weight = 0
    for piece in pieces:
        if waiting and weight + piece.weight > size:
            yield Part(tuple(waiting))
            waiting, weight = [], 0
        waiting.append(piece)
        weight += piece.weight
    if waiting:
        yield Part(tuple(waiting))


class SnapshotReader(DataSourceReader):
    """Reads one table of one snapshot."""

    def __init__(self, snapshot: Snapshot, schema: StructType, parts_min: int) -> None:
        self._snapshot = snapshot
        self._schema = schema
        self._parts_min = parts_min
        self._filters: list[Filter] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts for the tasks, without files that the filters rule out."""
        return self._snapshot.parts(self._parts_min, self._wanted)

    def _wanted(self, values: Values) -> bool:
        if not self._filters or not values:
            return True
        partition = self._snapshot.partition
        if partition is not None and not reaches(self._filters, partition, dict(values)):
            return False
        known = {
            name: _typed(value, _type_of(name, self._snapshot.schema)) for name, value in values
        }
        for name in list(known):  # a condition about the value itself is one about its partition
            if name.startswith(PREFIX) and known[name].is_valid:
                known[name.removeprefix(PREFIX)] = known[name]
        row = pa.table(
            {name: pa.array([value.as_py()], value.type) for name, value in known.items()}
        )
        wanted = expression_of(self._filters, known)
        return wanted is None or row.filter(wanted).num_rows > 0

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one part."""
        if not isinstance(partition, Part):  # Spark requests one even if there is none
            return iter(())
        return read_part(self._snapshot, partition, self._schema, self._filters)


class FilteredReader(SnapshotReader):
    """A SnapshotReader with filter pushdown, which Spark allows only if it is switched on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use all filters, and return them to Spark, because they exclude row groups, not rows."""
        self._filters = list(filters)
        return filters


def read_part(
    snapshot: Snapshot,
    part: Part,
    wanted: StructType,
    filters: Sequence[Filter] = (),
    partition: Partition | None = None,
) -> Iterator[Any]:
    """Yield the rows of one part, with these columns.

    Files that are in no directories of ``partition``, as of increments, get its columns.
    """
    target = to_arrow_schema(wanted, timezone="UTC")
    by = partition if partition and {*partition.columns} & {*target.names} else None
    waiting: list[Any] = []
    rows = 0
    for piece in part.pieces:
        for batch in _rows_of(snapshot, piece, target, filters, by):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ARROW_ROWS:  # so that small files do not make small batches
                yield from _together(waiting)
                waiting, rows = [], 0
    yield from _together(waiting)


def _together(batches: Sequence[Any]) -> Iterator[Any]:
    """Return batches as one."""
    if len(batches) > 1:
        yield pa.concat_batches(batches)
    else:
        yield from batches


def _rows_of(
    snapshot: Snapshot,
    piece: Piece,
    target: pa.Schema,
    filters: Sequence[Filter],
    partition: Partition | None,
) -> Iterator[Any]:
    """Yield the rows of one piece."""
    source = snapshot.place.open(snapshot.folder, piece.path)
    disk = fs.LocalFileSystem() if isinstance(source, str) else None
    fragment = ds.ParquetFileFormat().make_fragment(source, disk)
    if piece.parts > 1:
        groups = range(fragment.num_row_groups)[piece.part :: piece.parts]
        fragment = fragment.subset(row_group_ids=list(groups))
    there = fragment.physical_schema.names
    by = partition if partition is not None and partition.column in there else None
    wanted = {*target.names, *([by.column] if by is not None else ())}
    names = [name for name in there if name in wanted]
    where = expression_of(filters, there)
    scanned = fragment.to_batches(columns=names, filter=where, batch_size=ARROW_ROWS)
    constant = {
        name: _typed(value, target.field(name).type)
        for name, value in piece.values
        if name in target.names
    }
    if not snapshot.is_page:
        constant[OP] = pa.scalar(SNAPSHOT)
    for batch in scanned:
        if batch.num_rows:
            made = columns_of(by, batch.column(by.column)) if by is not None else {}
            yield _shaped(batch, target, constant, made)


def _shaped(
    batch: Any, target: pa.Schema, constant: Mapping[str, Any], made: Mapping[str, Any]
) -> Any:
    """Return a batch with exactly these columns; columns missing in an older snapshot are null."""
    arrays = []
    for field in target:
        place = batch.schema.get_field_index(field.name)
        if field.name in constant:
            value = constant[field.name].cast(field.type)
            arrays.append(pa.repeat(value, batch.num_rows))
        elif place >= 0:
            arrays.append(converted(batch.column(place), field.type))
        elif field.name in made and _holds(field.type, made[field.name].type):
            arrays.append(converted(made[field.name], field.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether a type has all values of another, which may be of an older schema."""
    return bool(joined(kind, other).equals(kind))


def _type_of(name: str, columns: pa.Schema) -> pa.DataType:
    """Return the type of a partition's column."""
    if name.startswith(PREFIX):
        place = columns.get_field_index(name.removeprefix(PREFIX))
        return pa.string() if place < 0 else columns.field(place).type
    return _TIMES.get(name, pa.string())


_TIMES: Final[Mapping[str, Any]] = {Unit.DAY: pa.date32(), Unit.HOUR: pa.int32()}


def _typed(value: str, kind: pa.DataType) -> Any:
    """Return the value that the name of a partition's directory has; null for none."""
    text = None if value == NONE else unquote(value)
    return pa.scalar(text, pa.string()).cast(kind)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return columns as a Spark schema."""
    return from_arrow_schema(schema)
