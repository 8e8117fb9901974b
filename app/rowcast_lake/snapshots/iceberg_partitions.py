"""Partitions of Iceberg tables: by its spec an engine leaves out files (S7, S20).

    @table(partition: "day")       __ts_day    the transform day of _ts; also hour and month
    @table(partition: "day(at)")   _at_day     of a Date; attributes never begin with "_"
    @table(partition: "breed")     breed       identity

A spec is of the attributes themselves, so a condition about ``at`` or ``breed`` is enough. The
value of a file is taken from its least and greatest value, which are equal as the spec has them,
because its directory has one hour, day, month or value.

Rows without a value are in a directory of their own (``core/partitions.py:NONE``). If none of a
file has one, its value is null. With absent, empty and long texts in one file it has several: such
a file is under the spec without fields, so engines open it for each condition that its least and
greatest values allow. Source: the Iceberg specification, Partition Evolution: each manifest has a
spec of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
)

from rowcast.core.partitions import NONE, Partition, Unit

_TRANSFORMS: Final[dict[Unit, Transform[Any, Any]]] = {
    Unit.HOUR: HourTransform(),
    Unit.DAY: DayTransform(),
    Unit.MONTH: MonthTransform(),
    Unit.VALUE: IdentityTransform(),
}
_NO_VALUE: Final = f"={NONE}/"


def reshape(change: Transaction, schema: pa.Schema, partition: Partition | None) -> None:
    """Let a table have these columns, besides those of before, and be partitioned so.

    Raises what pyiceberg does.
    """
    with change.update_schema(allow_incompatible_changes=True) as columns:
        columns.union_by_name(schema)
    if not _is_divided(change.table_metadata, partition):
        with change.update_spec() as spec:
            for field in change.table_metadata.spec().fields:
                spec.remove_field(field.name)
    if partition is not None and change.table_metadata.spec().is_unpartitioned():
        with change.update_spec() as spec:
            spec.add_field(partition.column, _TRANSFORMS[partition.unit], _field_name(partition))


def _is_divided(metadata: TableMetadata, partition: Partition | None) -> bool:
    """Whether a table's spec is that of a partition, or has no fields."""
    fields = metadata.spec().fields
    return not fields or (
        partition is not None
        and metadata.schema().find_column_name(fields[0].source_id) == partition.column
        and fields[0].transform == _TRANSFORMS[partition.unit]
    )


def _field_name(partition: Partition) -> str:
    """Return the name of a spec's field, which no column may ever have, or only the field's own."""
    is_value = partition.unit is Unit.VALUE
    return partition.column if is_value else f"_{partition.column}_{partition.unit}"


def files_of(io: FileIO, metadata: TableMetadata, paths: Sequence[str]) -> list[DataFile]:
    """Return the entries of files, each under the table's spec, or under that without fields."""
    if metadata.spec().is_unpartitioned():
        return _under(io, metadata, paths)
    (source,) = (field.source_id for field in metadata.spec().fields)
    plain = metadata.model_copy(update={"default_spec_id": _plain_spec(metadata)})
    doubtful = _under(io, plain, [path for path in paths if _NO_VALUE in path])
    mixed = [
        file for file in doubtful if file.null_value_counts.get(source, 0) != file.record_count
    ]
    left = {file.file_path for file in mixed}
    return [*_under(io, metadata, [path for path in paths if path not in left]), *mixed]


def _under(io: FileIO, metadata: TableMetadata, paths: Sequence[str]) -> list[DataFile]:
    files = [*parquet_files_to_data_files(io, metadata, iter(paths))]
    for file in files:
        file.spec_id = metadata.default_spec_id
    return files


def _plain_spec(metadata: TableMetadata) -> int:
    """Return the number of the spec without fields, with which each table begins."""
    return next(number for number, spec in metadata.specs().items() if spec.is_unpartitioned())


class Replacement(_OverwriteFiles):
    """A snapshot whose files replace all others, of more than one spec.

    pyiceberg writes new files under the table's own spec only.
    """

    def __init__(self, change: Transaction, io: FileIO, properties: dict[str, str]) -> None:
        """Take ``told`` for the snapshot's summary."""
        begun = change.table_metadata.current_snapshot() is not None
        operation = Operation.OVERWRITE if begun else Operation.APPEND
        super().__init__(operation, change, io, snapshot_properties=properties)

    def replace(self, old: Iterable[DataFile], new: Iterable[DataFile]) -> None:
        """Take the files that go and those that come."""
        for file in old:
            self.delete_data_file(file)
        for file in new:
            self.append_data_file(file)

    def _manifests(self) -> list[ManifestFile]:
        """Write a manifest of the new files of each spec."""
        files, own = self._added_data_files, self._transaction.table_metadata.default_spec_id
        self._added_data_files = [file for file in files if file.spec_id == own]
        try:
            made = super()._manifests()
        finally:
            self._added_data_files = files  # all of them are counted
        others = [file for file in files if file.spec_id != own]
        return [*made, *self._plain_manifests(others)]

    def _plain_manifests(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        if not files:
            return []
        with self.new_manifest_writer(self.spec(files[0].spec_id)) as writer:
            for file in files:
                facts: dict[str, Any] = {"snapshot_id": self._snapshot_id, "data_file": file}
                facts |= {"sequence_number": None, "file_sequence_number": None}
                writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, **facts))
        return [writer.to_manifest_file()]
