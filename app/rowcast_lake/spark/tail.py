"""A table and what happens to it, as a stream: first a snapshot, then the log from its cut.

There is no gap and nothing twice, because the snapshot holds exactly what the log has up to its cut
(S13, M2). An offset is a position; Spark keeps it in its checkpoint, and after a restart
asks for the same ranges again. A range of positions always gives the same events.
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
"""The words for where a stream begins, beside a cursor."""
POSITION: Final = "rowcast-position"
Offset = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stretch(InputPartition):
    """What one task reads of the log."""

    epoch: str
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class SnapshotPart(InputPartition):
    """What one task reads of the snapshot that a stream begins with."""

    folder: str
    part: Part


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table and what happens to it."""

    def __init__(self, options: Options, snapshot: Snapshot, schema: StructType) -> None:
        self._options = options
        self._snapshot = snapshot
        self._schema = schema
        self._path = history_path(snapshot.table, snapshot.name)
        self._target: int | None = None
        """Where a stream that ends by itself is to end."""

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return the beginning; which position that is, the first batch's end tells."""
        return {"epoch": "", "seq": -1, "snapshot": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much one batch has."""
        return ReadMaxRows(self._options.number("maxeventsperbatch", BATCH_EVENTS))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return where the next batch ends: no further than the log reaches, or the limit lets."""
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
        """Note where the log ends now: the stream ends there."""
        self._target = self._head(self._snapshot.cut[0])

    def reportLatestOffset(self) -> None:  # noqa: N802 - Spark's name
        """Say nothing: the question would cost the server a request for each batch."""

    def _first(self) -> dict[str, object]:
        """Return where the first batch ends: at the cut, or where the stream begins without one."""
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
        """Return where the log ends; raises CONFLICT when it is not the one that was begun with."""
        cursor = parse_cursor(self._options.remote.head(f"{self._path}?_from=now")[POSITION])
        if cursor.epoch != epoch:
            raise Error(
                Code.CONFLICT,
                f"{self._options.remote.url} has another log ({cursor.epoch}) than this stream has "
                f"begun with ({epoch}); start anew with a new checkpointLocation",
            )
        return cursor.seq

    def _before_next(self, epoch: str, after: int, until: int) -> int:
        """Return the position before the next event of the table: others may have had many."""
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
        """Return what the tasks of one batch read."""
        if _is_beginning(start):
            if not end["snapshot"]:
                return []
            folder = str(end["snapshot"])
            return [SnapshotPart(folder, part) for part in self._of(folder).parts()]
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
        """Give the rows of one part, in their order."""
        if isinstance(partition, SnapshotPart):
            return read_part(self._of(partition.folder), partition.part, self._schema)
        stretch = cast("Stretch", partition)
        rows = LogRows(self._snapshot.table, to_arrow_schema(self._schema, timezone="UTC"))
        told = events(self._options.remote, self._path, stretch.epoch, stretch.after, stretch.until)
        return rows.batches(told)


def _is_beginning(offset: Offset) -> bool:
    return int(cast("int", offset["seq"])) < 0
