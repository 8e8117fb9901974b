"""Files of the archive: rows of the log as Parquet, exactly as they were there.

    seq, version               INT64, as deltas: they ascend
    table_id, qos, retain      INT64, INT32: the same for many rows
    topic, kind, client,       text; the topic is that within its table
    content_type, properties
    payload                    bytes
    expires                    DOUBLE, seconds since 1970

Rows are in the order of ``seq``, which is the number of a cursor. Row groups are small, because one
is decoded to find one row; their statistics (least and greatest ``seq`` and ``topic``, greatest
``version``) say which. The metadata of a file (``rowcast``) is JSON: the epoch, the name of the
part, and the range that the file covers, whose first row may be later. Source: the format of Apache
Parquet, Encodings.md and ``Statistics`` in parquet.thrift.

A file is written under another name, synced, and then renamed: it is whole or not there. What a
disk has changed later is found by the checksums of the pages and the footer, and not returned.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowcast.core.archive_limits import ARCHIVE_GROUP_BYTES, ARCHIVE_GROUP_EVENTS
from rowcast.core.snapshot_limits import SNAPSHOT_COMPRESSION_LEVEL
from rowcast.features.archive.file_format import Group
from rowcast.log.segment import sync_directory
from rowcast.store.private import open_new
from rowcast.store.sql_rows import Row
from rowcast_lake.archive.footers import check, seal

_SCHEMA: Final = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("table_id", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("qos", pa.int32(), nullable=False),
        pa.field("retain", pa.int32(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("expires", pa.float64()),
        pa.field("properties", pa.string()),
    ]
)
_SEQ: Final = 0
_TOPIC: Final = 2
_VERSION: Final = 4
_PAYLOAD: Final = 9
_OPTIONS: Final[Mapping[str, Any]] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": SNAPSHOT_COMPRESSION_LEVEL,
    "use_dictionary": [
        "table_id", "topic", "kind", "qos", "retain", "client", "content_type", "properties",
    ],
    "column_encoding": {"seq": "DELTA_BINARY_PACKED", "version": "DELTA_BINARY_PACKED"},
    "write_statistics": ["seq", "topic", "version"],
    "store_schema": False,
    "write_page_checksum": True,
}  # fmt: skip


class ParquetFile:
    """An open file; closed by its reader. ``on_damage`` is called when a page is damaged."""

    def __init__(self, path: Path, on_damage: Callable[[], None] | None = None) -> None:
        self._path = path
        self._on_damage = on_damage
        self._file = pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def groups(self) -> tuple[Group, ...]:
        """Return the row groups, from the metadata at the end of the file."""
        return _groups(self._file.metadata)

    def rows(self, index: int, topic: str | None = None) -> list[Row]:
        """Return the rows of a row group, all or those at a topic. Raises OSError if damaged."""
        if topic is None:
            return _rows(self.table(index))
        known = self._file.metadata.row_group(index).column(_TOPIC).statistics
        if known is not None and known.has_min_max and not known.min <= topic <= known.max:
            return []
        topics = self.table(index, ["topic"])
        chosen = pc.equal(topics.column(0), topic)
        if not pc.any(chosen).as_py():
            return []
        return _rows(self.table(index).filter(chosen))

    def table(self, index: int, columns: list[str] | None = None) -> pa.Table:
        """Return a row group, decoded on this thread: its priority may be lower.

        Raises OSError for a damaged page, whose checksum is another.
        """
        try:
            return self._file.read_row_group(index, columns, use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            if self._on_damage is not None:
                self._on_damage()
            raise _damaged(self._path, error) from error


class ParquetFiles:
    """Opens and writes the files of an archive; bounds are of a row group."""

    def __init__(
        self, group_events: int = ARCHIVE_GROUP_EVENTS, group_bytes: int = ARCHIVE_GROUP_BYTES
    ) -> None:
        self._group_events = group_events
        self._group_bytes = group_bytes

    def open(self, path: Path, on_damage: Callable[[], None] | None = None) -> ParquetFile:
        """Open a file. Raises OSError, also for a damaged one; FileNotFoundError.

        ``on_damage`` is called when a part that is read later is damaged.
        """
        check(path)
        try:
            return ParquetFile(path, on_damage)
        except pa.ArrowInvalid as error:
            raise _damaged(path, error) from error

    def groups(self, path: Path) -> tuple[Group, ...]:
        """Return the row groups of a file. Raises as ``open`` does."""
        with self.open(path) as file:
            return file.groups()

    def write(self, path: Path, rows: Iterable[Row], facts: Mapping[str, object]) -> None:
        """Write a file that is there whole or not at all, and durable. Raises OSError."""
        self._write(path, map(_table, self._divided(rows)), facts)

    def merge(self, paths: Sequence[Path], path: Path, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of others, in their order, a row group at a time."""
        self._write(path, self._joined(paths), facts)

    def cut(self, path: Path, target: Path, upto: int, facts: Mapping[str, object]) -> None:
        """Write a file with the rows of another up to a number. Raises OSError."""
        self._write(target, self._before(path, upto), facts)

    @staticmethod
    def _write(path: Path, groups: Iterable[pa.Table], facts: Mapping[str, object]) -> None:
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        try:
            with (
                open_new(fresh) as file,
                pq.ParquetWriter(file, _SCHEMA, **_OPTIONS) as writer,
            ):
                writer.add_key_value_metadata({"rowcast": json.dumps(facts)})
                for group in groups:
                    writer.write_table(group)
            with fresh.open("r+b") as file:
                seal(file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)

    def _joined(self, paths: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the row groups of files, small ones joined; no row becomes a Python object."""
        waiting: list[pa.Table] = []
        for path in paths:
            with self.open(path) as file:
                for index in range(len(file.groups())):
                    table = file.table(index)
                    both = [*waiting, table]
                    rows, size = sum(x.num_rows for x in both), sum(x.nbytes for x in both)
                    if waiting and (rows > self._group_events or size > self._group_bytes):
                        yield pa.concat_tables(waiting).combine_chunks()
                        waiting = []
                    waiting.append(table)
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def _before(self, path: Path, upto: int) -> Iterator[pa.Table]:
        with self.open(path) as file:
            for index, group in enumerate(file.groups()):
                if group.first <= upto:
                    table = file.table(index)
                    yield table.filter(pc.less_equal(table.column(_SEQ), upto))

    def _divided(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        group: list[Row] = []
        size = 0
        for row in rows:
            group.append(row)
            size += len(cast("bytes | str", row[_PAYLOAD]))
            if len(group) >= self._group_events or size >= self._group_bytes:
                yield group
                group, size = [], 0
        if group:
            yield group


def _damaged(path: Path, error: Exception) -> OSError:
    return OSError(f"{path} is damaged: {error}")


def groups_of(source: Any, path: Path) -> tuple[Group, ...]:
    """Return the row groups of a file, of which the source has the end. Raises OSError."""
    try:
        return _groups(pq.read_metadata(source))
    except pa.ArrowInvalid as error:
        raise _damaged(path, error) from error


def _groups(metadata: Any) -> tuple[Group, ...]:
    return tuple(_group(metadata.row_group(i)) for i in range(metadata.num_row_groups))


def _group(metadata: Any) -> Group:
    seqs, versions = (metadata.column(index).statistics for index in (_SEQ, _VERSION))
    return Group(seqs.min, seqs.max, versions.max)


def _table(rows: Sequence[Row]) -> pa.Table:
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
    columns[_PAYLOAD] = [x.encode() if isinstance(x, str) else x for x in columns[_PAYLOAD]]
    arrays = [pa.array(x, field.type) for x, field in zip(columns, _SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
