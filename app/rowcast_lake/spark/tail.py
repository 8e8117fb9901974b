"""A table and its events as a stream: first a snapshot, then the log from its cut.

There is no gap and no duplicate, because the snapshot contains exactly the log up to its cut (S13,
M2). An offset is a position; Spark keeps it in its checkpoint, and after a restart requests the
same ranges again. A range of positions always has the same events.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import BATCH_EVENTS, BATCH_TASKS_MAX, PARTITION_EVENTS
from rowcast_lake.spark.log_rows import LogRows, events, explained, history_path
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.source import Part, Snapshot, read_part

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
SNAPSHOT: Final = "snapshot"
"""Values of the option for a stream's start, besides a cursor."""
POSITION: Final = "rowcast-position"
Offset = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stretch(InputPartition):
    """The range of the log that one task reads."""

    epoch: str
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class SnapshotPart(InputPartition):
    """The part of the stream's first snapshot that one task reads."""

    folder: str
    part: Part


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table and its events."""

    def __init__(self, options: Options, snapshot: Snapshot, schema: StructType) -> None:
        self._options = options
        self._snapshot = snapshot
        self._schema = schema
        self._path = history_path(snapshot.table, snapshot.name)
        self._target: int | None = None
        """The last position of a bounded stream."""

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return the start; its position is resolved with the end of the first batch."""
        return {"epoch": "", "seq": -1, "snapshot": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the size of one batch."""
        return ReadMaxRows(self._options.number("maxeventsperbatch", BATCH_EVENTS))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return the end of the next batch: within the log and the limit."""
        if _is_beginning(start):
            return self._first()
        epoch, seq = str(start["epoch"]), int(cast("int", start["seq"]))
        head = self._target if self._target is not None else self._head(epoch)
        if not isinstance(limit, ReadAllAvailable):
            most = cast("ReadMaxRows", limit).max_rows
            if head - seq > most:
                head = min(head, self._before_next(epoch, seq, head) + most)
        return {"epoch": epoch, "seq": max(seq, head), "snapshot": ""}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the current end of the log, at which the stream ends."""
        self._target = self._head(self._snapshot.cut[0])

    def reportLatestOffset(self) -> None:  # noqa: N802 - Spark's name
        """Return None: an answer would cost the server a request for each batch."""

    def _first(self) -> dict[str, object]:
        """Return the end of the first batch: the cut, or the start of a stream without one."""
        begin = self._options.text("startingcursor", SNAPSHOT)
        epoch, seq = self._snapshot.cut
        if begin == SNAPSHOT:
            return {"epoch": epoch, "seq": seq, "snapshot": self._snapshot.folder}
        if begin == EARLIEST:
            return {"epoch": epoch, "seq": self._trimmed(), "snapshot": ""}
        if begin == LATEST:
            return {"epoch": epoch, "seq": self._head(epoch), "snapshot": ""}
        cursor = parse_cursor(begin)
        return {"epoch": cursor.epoch, "seq": cursor.seq, "snapshot": ""}

    def _head(self, epoch: str) -> int:
        """Return the end of the log; raises CONFLICT when its epoch is not the stream's."""
        cursor = parse_cursor(self._options.remote.head(f"{self._path}?_from=now")[POSITION])
        if cursor.epoch != epoch:
            raise Error(
                Code.CONFLICT,
                f"{self._options.remote.url} has another log ({cursor.epoch}) than this stream has "
                f"begun with ({epoch}); start anew with a new checkpointLocation",
            )
        return cursor.seq

    def _before_next(self, epoch: str, after: int, until: int) -> int:
        """Return the position before the next event of the table, skipping other tables' events."""
        asked = f"{self._path}?_from={epoch}:{after}&_to={epoch}:{until}&limit=1"
        try:
            found = cast("list[Offset]", self._options.remote.get(asked))
        except Error as error:
            raise explained(error) from error
        return int(cast("int", found[0]["_seq"])) - 1 if found else until

    def _trimmed(self) -> int:
        told = self._options.remote.head(f"{self._path}?_from=0")
        trimmed = told.get("rowcast-trimmed")
        return parse_cursor(trimmed).seq if trimmed else 0

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the parts for the tasks of one batch."""
        if _is_beginning(start):
            if not end["snapshot"]:
                return []
            folder = str(end["snapshot"])
            parts = self._of(folder).parts(self._options.parts_min)
            return [SnapshotPart(folder, part) for part in parts]
        size = self._options.number("eventspertask", PARTITION_EVENTS)
        after, until = int(cast("int", start["seq"])), int(cast("int", end["seq"]))
        epoch = str(end["epoch"])
        if until - after > size:
            after = self._before_next(epoch, after, until)
        size = max(size, -(-(until - after) // BATCH_TASKS_MAX))
        return [Stretch(epoch, at, min(at + size, until)) for at in range(after, until, size)]

    def _of(self, folder: str) -> Snapshot:
        if folder == self._snapshot.folder:
            return self._snapshot
        try:
            return Snapshot.of(self._snapshot.place, folder, self._snapshot.name)
        except Error as error:
            raise Error(
                error.code,
                f"this stream began with the snapshot {folder}, which is gone before it was read "
                f"({error.message}); start anew with a new checkpointLocation",
            ) from error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one part, in order."""
        if isinstance(partition, SnapshotPart):
            return read_part(self._of(partition.folder), partition.part, self._schema)
        stretch = cast("Stretch", partition)
        rows = LogRows(self._snapshot.table, to_arrow_schema(self._schema, timezone="UTC"))
        told = events(self._options.remote, self._path, stretch.epoch, stretch.after, stretch.until)
        return rows.batches(told)


def _is_beginning(offset: Offset) -> bool:
    return int(cast("int", offset["seq"])) < 0
