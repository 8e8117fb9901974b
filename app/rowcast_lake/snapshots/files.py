"""Files: one table's rows written as Parquet, row group by row group.

A file is hashed and flushed while it is written, so that it need not be read again, and so that the
server's commits never wait for one large flush.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rowcast.core.snapshot_limits import (
    SNAPSHOT_FILE_BYTES,
    SNAPSHOT_FREE_BYTES_MIN,
    SNAPSHOT_GROUP_BYTES_MAX,
    SNAPSHOT_GROUP_ROWS,
    SNAPSHOT_SYNC_BYTES,
)
from rowcast.features.snapshots.snapshot_directory import full
from rowcast.store.private import make_directory, open_new
from rowcast_lake.snapshots.encodings import writer_options
from rowcast_lake.snapshots.manifest import FileFacts
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.stores.object_paths import Directory, ObjectPath

FREE_BYTES: Final = SNAPSHOT_FREE_BYTES_MIN


class Sink(Protocol):
    """An append-only file, counted and hashed: what a Parquet writer and a manifest need."""

    bytes: int
    closed: bool

    @property
    def sha256(self) -> str:
        """The hash of all bytes written."""

    def close(self) -> None:
        """Close the file: it is durable."""

    def give_up(self) -> None:
        """Close an unfinished file; later writes of its Parquet writer are discarded."""


def _sink_of(root: Directory, path: str, free_bytes_min: int) -> Sink:
    if isinstance(root, ObjectPath):
        return _ObjectSink(root / path)
    make_directory((root / path).parent)
    return _Sink(root / path, free_bytes_min)


class _ObjectSink:
    """An object, sent in parts while it is written; it exists when it is closed."""

    def __init__(self, path: ObjectPath) -> None:
        self._stream = path.create()
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append bytes; after ``give_up`` they are discarded."""
        if not self.closed:
            self._stream.write(data)
            self._hash.update(data)
            self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """The offset of the next byte."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing: a part is sent when it is full."""

    def close(self) -> None:
        """Complete the object."""
        if not self.closed:
            self.closed = True
            self._stream.close()

    def give_up(self) -> None:
        """Complete an unfinished object, which has no manifest and is removed."""
        self.closed = True
        with suppress(OSError):
            self._stream.close()

    @property
    def sha256(self) -> str:
        """The hash of all bytes written."""
        return self._hash.hexdigest()


class _Sink:
    """A file on a disk, flushed at intervals."""

    def __init__(self, path: Path, free_bytes_min: int) -> None:
        self._file: IO[bytes] = open_new(path)
        self._path = path
        self._free_bytes_min = free_bytes_min
        self._hash = hashlib.sha256()
        self._unflushed = 0
        self.bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append bytes; after ``give_up`` they are discarded."""
        size = len(data)
        if self.closed:
            return size
        self._file.write(data)
        self._hash.update(data)
        self.bytes += size
        self._unflushed += size
        if self._unflushed >= SNAPSHOT_SYNC_BYTES:
            self.flush()
            if shutil.disk_usage(self._path.parent).free < self._free_bytes_min:
                raise full(self._path.parent)
        return size

    def tell(self) -> int:
        """The offset of the next byte."""
        return self.bytes

    def flush(self) -> None:
        """Flush to disk (fsync)."""
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._unflushed = 0

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            self.flush()
            self._file.close()

    def give_up(self) -> None:
        """Close an unfinished file; later writes of its Parquet writer are discarded."""
        self.closed = True
        with suppress(OSError):
            self._file.close()

    @property
    def sha256(self) -> str:
        """The hash of all bytes written."""
        return self._hash.hexdigest()


class TableFiles:
    """The files of one table, or of one of its partitions, in one directory."""

    def __init__(
        self,
        root: Directory,
        directory: str,
        schema: pa.Schema,
        key: str,
        free_bytes_min: int = FREE_BYTES,
    ) -> None:
        """Prepare to write rows, which come sorted by the column ``key``."""
        self._root = root
        self._directory = directory
        self._schema = schema
        self._options = writer_options(schema, key)
        self._free_bytes_min = free_bytes_min
        self._waiting: list[Batch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: Sink | None = None
        self._rows = 0
        self.files: list[FileFacts] = []

    def write(self, batch: Batch) -> None:
        """Buffer rows; they are written when a row group is full."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if (
            self._waiting_rows >= SNAPSHOT_GROUP_ROWS
            or self._waiting_bytes >= SNAPSHOT_GROUP_BYTES_MAX
        ):
            self._write_group()

    def drain(self) -> None:
        """Write all buffered rows."""
        while self._waiting:
            self._write_group()

    def _write_group(self) -> None:
        """Write buffered rows as one row group; rows in excess stay buffered for the next."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        group, rest = table.slice(0, SNAPSHOT_GROUP_ROWS), table.slice(SNAPSHOT_GROUP_ROWS)
        self._waiting = rest.to_batches()
        self._waiting_rows, self._waiting_bytes = rest.num_rows, rest.nbytes
        self._open().write_table(group, SNAPSHOT_GROUP_ROWS)
        self._rows += group.num_rows
        if self._sink is not None and self._sink.bytes >= SNAPSHOT_FILE_BYTES:
            self._end_file()

    def close(self) -> None:
        """Write the rest; a table without rows has a file, too, which declares its columns."""
        self.drain()
        if not self.files:
            self._open()
        self._end_file()

    def abandon(self) -> None:
        """Close an unfinished file."""
        if self._sink is not None:
            self._sink.give_up()
            self._sink = self._writer = None

    @property
    def _path(self) -> str:
        return f"{self._directory}/part-{len(self.files):05d}.parquet"

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._sink = _sink_of(self._root, self._path, self._free_bytes_min)
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, "w"), self._schema, **self._options
            )
        return self._writer

    def _end_file(self) -> None:
        if self._writer is None or self._sink is None:
            return
        self._writer.close()
        self._sink.close()
        facts = FileFacts(self._path, self._rows, self._sink.bytes, self._sink.sha256)
        self.files.append(facts)
        self._writer = self._sink = None
        self._rows = 0
