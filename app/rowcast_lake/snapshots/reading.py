"""Reading: the rows of a snapshot's table, sorted by key, batch by batch.

A table that is not partitioned has its files in that order; the files of partitions are merged. A
process may open about a thousand files, and a table can have far more partitions: groups of files
are merged into sorted files in a temporary directory (``TMPDIR``), and these again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowcast.core.snapshot_limits import (
    SNAPSHOT_MERGE_FILES,
    SNAPSHOT_MERGE_ROWS,
    SNAPSHOT_READ_ROWS,
)
from rowcast_lake.snapshots.manifest import TableFacts
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.stores.object_paths import Directory, ObjectPath


def opened(path: Directory) -> pq.ParquetFile:
    """Open a file, on a disk or in an object store."""
    return pq.ParquetFile(path.open("rb") if isinstance(path, ObjectPath) else path)


def rows_of(
    directory: Directory,
    facts: TableFacts,
    merge_rows: int = SNAPSHOT_MERGE_ROWS,
    merge_files: int = SNAPSHOT_MERGE_FILES,
) -> Iterator[Batch]:
    """Return the rows of a table of the snapshot at ``directory``, sorted by key.

    About ``merge_rows`` are in memory, and ``merge_files`` open, when files of partitions are
    merged.
    """
    paths = [directory / item.path for item in facts.files if item.rows]
    if facts.partition is None:
        for path in paths:
            with opened(path) as file:
                yield from file.iter_batches(SNAPSHOT_READ_ROWS)
        return
    size = max(merge_rows // max(1, min(len(paths), merge_files)), 64)
    runs: list[_Run] = [_of_parquet(path, size) for path in paths]
    with TemporaryDirectory(prefix="rowcast-merge-") as room:
        level = 0
        while len(runs) > merge_files:
            level += 1
            groups = [runs[at : at + merge_files] for at in range(0, len(runs), merge_files)]
            runs = [
                _kept(_merge(group, facts.key), Path(room, f"{level}-{at}"), size)
                for at, group in enumerate(groups)
            ]
        yield from _merge(runs, facts.key)


_Run = Callable[[ExitStack], Iterator[Batch]]
"""Opens a file of rows sorted by key, and returns its rows."""


def _of_parquet(path: Directory, size: int) -> _Run:
    return lambda files: files.enter_context(opened(path)).iter_batches(size)


def _merge(runs: Sequence[_Run], key: str) -> Iterator[Batch]:
    with ExitStack() as files:
        yield from merged([run(files) for run in runs], key)


def _kept(rows: Iterator[Batch], path: Path, size: int) -> _Run:
    """Write rows to a temporary file, ``size`` of them together."""
    with ExitStack() as files:
        sink = files.enter_context(pa.OSFile(str(path), "wb"))
        writer: Any = None
        for batch in rows:
            if writer is None:
                writer = files.enter_context(pa.ipc.new_stream(sink, batch.schema, options=_PACKED))
            writer.write_table(pa.Table.from_batches([batch]), size)

    def again(files: ExitStack) -> Iterator[Batch]:
        source = files.enter_context(pa.OSFile(str(path)))
        files.callback(path.unlink)
        return iter(files.enter_context(pa.ipc.open_stream(source)))

    return again


_PACKED: Final = pa.ipc.IpcWriteOptions(compression="zstd")


def merged(streams: list[Iterator[Batch]], key: str) -> Iterator[Batch]:
    """Merge streams of rows, each sorted by a key, into one.

    Rows up to the least of the streams' last buffered keys are complete and can be emitted.
    """
    hands = [_Hand(stream, key) for stream in streams]
    hands = [hand for hand in hands if hand.batch is not None]
    while hands:
        bound = pc.min(pa.array([hand.last for hand in hands], hands[0].keys.type))
        taken = pa.Table.from_batches([batch for hand in hands for batch in hand.upto(bound)])
        order = pc.sort_indices(taken.column(key))
        yield from taken.take(order).combine_chunks().to_batches()
        hands = [hand for hand in hands if hand.batch is not None]


class _Hand:
    """The buffered rows of one stream."""

    def __init__(self, stream: Iterator[Batch], key: str) -> None:
        self._stream = stream
        self._key = key
        self.batch: Batch | None = None
        self.keys: Any = None
        self.last: object = None
        self._next()

    def _next(self) -> None:
        self._take(next((batch for batch in self._stream if batch.num_rows), None))

    def _take(self, batch: Batch | None) -> None:
        self.batch = batch
        if batch is not None:
            self.keys = batch.column(self._key)
            self.last = self.keys[-1].as_py()

    def upto(self, bound: object) -> list[Batch]:
        """Remove and return the rows whose key is not greater than ``bound``."""
        count = pc.sum(pc.less_equal(self.keys, bound)).as_py()
        if self.batch is None or not count:
            return []
        taken, rest = self.batch.slice(0, count), self.batch.slice(count)
        if rest.num_rows:
            self._take(rest)
        else:
            self._next()
        return [taken]
