"""A table and its events as a stream: first a snapshot, then the log from its cut.

There is no gap and no duplicate, because the snapshot contains exactly the log up to its cut (S13,
M2). An offset is a position; Spark keeps it in its checkpoint, and after a restart requests the
same ranges again. A range of positions always has the same events.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Error
from rowcast.core.pipeline_limits import (
    BATCH_EVENTS,
    PARTITION_EVENTS,
    REMOTE_PATIENCE_SECONDS,
    STREAM_PATIENCE_SECONDS,
)
from rowcast_lake.spark.log_positions import (
    EARLIEST,
    LATEST,
    SNAPSHOT,
    LogPositions,
    Stretch,
)
from rowcast_lake.spark.log_rows import LogRows, events
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.past import Span, begin_of
from rowcast_lake.spark.source import Snapshot, SnapshotPart, read_part

Offset = Mapping[str, object]


class Log(Protocol):
    """The log that a stream reads: of a server, or as increments."""

    def head(self, epoch: str) -> int:
        """Return its end; raises CONFLICT when its epoch is not the reader's."""

    def trimmed(self) -> int:
        """Return the position after which no event is missing."""

    def before_next(self, epoch: str, after: int, until: int) -> int:
        """Return the position before the next event of the table."""

    def stretches(self, epoch: str, after: int, until: int, size: int) -> Sequence[InputPartition]:
        """Return the parts for tasks."""


class TailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table and its events."""

    def __init__(
        self,
        options: Options,
        snapshot: Snapshot,
        schema: StructType,
        log: Log | None = None,
    ) -> None:
        self._options = options
        self._snapshot = snapshot
        self._schema = schema
        self._log = log or log_of(options, snapshot, STREAM_PATIENCE_SECONDS)
        self._target: Cursor | None = None
        """The end of a bounded stream."""
        self._seen = Cursor("", -1)
        """The end of the log as last told."""

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
        target = self._target
        known = target is not None and target.epoch == epoch  # else it is of another log
        head = target.seq if target is not None and known else self._head(epoch)
        if not isinstance(limit, ReadAllAvailable):
            most = cast("ReadMaxRows", limit).max_rows
            if head - seq > most:
                head = min(head, self._log.before_next(epoch, seq, head) + most)
        return {"epoch": epoch, "seq": max(seq, head), "snapshot": ""}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the current end of the log, at which the stream ends."""
        epoch = self._snapshot.cut[0]
        self._target = Cursor(epoch, self._head(epoch))

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802 - Spark's name
        """Return the end of the log when the last batch was planned, for Spark's progress.

        The server is not asked for it again.
        """
        seen = self._seen
        return {"epoch": seen.epoch, "seq": seen.seq, "snapshot": ""} if seen.epoch else None

    def _first(self) -> dict[str, object]:
        """Return the end of the first batch: the cut, or the start of a stream without one."""
        begin = self._options.text("startingcursor", SNAPSHOT)
        epoch, seq = self._snapshot.cut
        if begin == SNAPSHOT:
            return {"epoch": epoch, "seq": seq, "snapshot": self._snapshot.folder}
        if begin == EARLIEST:
            return {"epoch": epoch, "seq": self._log.trimmed(), "snapshot": ""}
        if begin == LATEST:
            return {"epoch": epoch, "seq": self._head(epoch), "snapshot": ""}
        cursor = parse_cursor(begin)
        return {"epoch": cursor.epoch, "seq": cursor.seq, "snapshot": ""}

    def _head(self, epoch: str) -> int:
        self._seen = Cursor(epoch, self._log.head(epoch))
        return self._seen.seq

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
        return self._log.stretches(str(end["epoch"]), after, until, size)

    def _of(self, folder: str) -> Snapshot:
        if folder == self._snapshot.folder:
            return self._snapshot
        try:
            return Snapshot.of(self._snapshot.place, folder, self._snapshot.name)
        except Error as error:
            raise Error(
                error.code,
                f"{folder} is gone before this stream has read it ({error.message}); start anew "
                "with a new checkpointLocation",
            ) from error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one part, in order."""
        if isinstance(partition, SnapshotPart):
            snapshot, divided = self._of(partition.folder), self._snapshot.partition
            return read_part(snapshot, partition.part, self._schema, partition.bounds, divided)
        if not isinstance(partition, Stretch):  # Spark requests one even if there is none
            return iter(())
        columns = to_arrow_schema(self._schema, timezone="UTC")
        rows = LogRows(self._snapshot.table, columns, self._snapshot.partition)
        log, part = cast("LogPositions", self._log), partition
        return rows.batches(events(log.remote, log.path, part.epoch, part.after, part.until))


def log_of(options: Options, snapshot: Snapshot, patience_seconds: int) -> LogPositions:
    """Return the log of a table on the server."""
    return LogPositions(options.patient(patience_seconds), snapshot.log_path)


class LogReader(DataSourceReader):
    """Reads the events between two positions at once: a batch of what a stream would read.

    What the log has no more is in increments (``past``); from the beginning, the records that were
    older than those are told, too.
    """

    def __init__(self, options: Options, snapshot: Snapshot, schema: StructType) -> None:
        self._options = options
        self._log = log_of(options, snapshot, REMOTE_PATIENCE_SECONDS)
        self._tail = TailReader(options, snapshot, schema, self._log)
        self._snapshot = snapshot

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts for the tasks."""
        log, end = self._log, self._options.text("endingcursor", LATEST)
        last = log.end() if end == LATEST else parse_cursor(end)
        begin, past = begin_of(self._options, self._snapshot, log, last)
        size = self._options.number("eventspertask", PARTITION_EVENTS)
        return [*self._older(past, last.seq), *log.stretches(last.epoch, begin, last.seq, size)]

    def _older(self, past: Sequence[Span], last: int) -> Iterator[InputPartition]:
        """Yield the parts of what the log has no more."""
        for span in past:
            for part in span.snapshot.parts(self._options.parts_min if span.is_whole else 1):
                yield SnapshotPart(span.snapshot.folder, part, min(span.until, last), span.after)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one part, in order."""
        return self._tail.read(partition)


def _is_beginning(offset: Offset) -> bool:
    return int(cast("int", offset["seq"])) < 0
