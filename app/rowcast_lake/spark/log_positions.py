"""Positions in a table's log on a server: where it ends, where it begins, and parts of it.

A stream and a batch read of the log plan with the same questions, each of which is one request
without events. What they return is read later by tasks, from ``log_rows.py:events``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pyspark.sql.datasource import InputPartition

from rowcast.core.cursors import Cursor, parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import BATCH_TASKS_MAX
from rowcast_lake.spark.log_rows import explained
from rowcast_lake.spark.remote import Remote

POSITION: Final = "rowcast-position"
TRIMMED: Final = "rowcast-trimmed"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
SNAPSHOT: Final = "snapshot"
"""Values of the options for a read's start and end, besides a cursor."""


@dataclass(frozen=True, slots=True)
class Stretch(InputPartition):
    """The range of the log that one task reads."""

    epoch: str
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class LogPositions:
    """The log of one table, at its path on a server."""

    remote: Remote
    path: str

    def end(self) -> Cursor:
        """Return the end of the log."""
        return parse_cursor(self.remote.head(f"{self.path}?_from=now")[POSITION])

    def head(self, epoch: str) -> int:
        """Return the end of the log; raises CONFLICT when its epoch is not the reader's."""
        cursor = self.end()
        if cursor.epoch != epoch:
            raise Error(
                Code.CONFLICT,
                f"{self.remote.url} has another log ({cursor.epoch}) than this stream has begun "
                f"with ({epoch}); start anew with a new checkpointLocation",
            )
        return cursor.seq

    def trimmed(self) -> int:
        """Return the position after which no event is missing."""
        header = self.remote.head(f"{self.path}?_from=0").get(TRIMMED)
        return parse_cursor(header).seq if header else 0

    def before_next(self, epoch: str, after: int, until: int) -> int:
        """Return the position before the next event of the table, skipping other tables' events."""
        asked = f"{self.path}?_from={epoch}:{after}&_to={epoch}:{until}&limit=1"
        try:
            found = cast("list[Mapping[str, object]]", self.remote.get(asked))
        except Error as error:
            raise explained(error) from error
        return int(cast("int", found[0]["_seq"])) - 1 if found else until

    def stretches(self, epoch: str, after: int, until: int, size: int) -> Sequence[InputPartition]:
        """Return the parts for tasks, each of ``size`` positions unless they would be too many."""
        if until - after > size:
            after = self.before_next(epoch, after, until)
        size = max(size, -(-(until - after) // BATCH_TASKS_MAX))
        return [Stretch(epoch, at, min(at + size, until)) for at in range(after, until, size)]
