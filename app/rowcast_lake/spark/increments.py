"""Increments as a log: those of a directory or store, by the positions in their names.

A stream over them needs no server. Its offset is a position, so an increment that was merged with
others, or whose publisher was killed, is read neither twice nor in part: each position is in one
increment that counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rowcast.core.errors import Code, Error
from rowcast_lake.columns.joining import joined_schema
from rowcast_lake.spark.past import Page, runs_of, spans_of, table_of
from rowcast_lake.spark.places import NEWEST
from rowcast_lake.spark.source import Snapshot, SnapshotPart


@dataclass(frozen=True, slots=True)
class Increments:
    """The increments of one table: what ``LogPositions`` is of a server's log."""

    snapshot: Snapshot

    def head(self, epoch: str) -> int:
        """Return the end of the newest increment; raises CONFLICT when they are of another log."""
        place = self.snapshot.place
        found = str(place.manifest(place.resolve(NEWEST))["epoch"])
        if found != epoch:
            raise Error(
                Code.CONFLICT,
                f"the snapshots are of another log ({found}) than this stream has begun with "
                f"({epoch}); start anew with a new checkpointLocation",
            )
        newest = self._newest(epoch)
        return newest[-1].last if newest else 0

    def trimmed(self) -> int:
        """Return the position after which the newest increments follow each other without gap."""
        newest = self._newest(self.snapshot.cut[0])
        return newest[0].first - 1 if newest else self.snapshot.cut[1]

    def before_next(self, epoch: str, after: int, until: int) -> int:  # noqa: ARG002
        """Return a position before the next event: no increment is opened to find a later one."""
        return after

    def stretches(
        self,
        epoch: str,
        after: int,
        until: int,
        size: int,  # noqa: ARG002 - an increment is read whole
    ) -> Sequence[InputPartition]:
        """Return the parts for tasks; raises GONE when increments are missing."""
        if until <= after:
            return []
        newest = self._newest(epoch)
        if not newest or newest[0].first > after + 1:
            begin = f"they begin after {newest[0].first - 1}" if newest else "there is none"
            raise Error(
                Code.GONE,
                f"the increments after {after} are gone: {begin}; start anew with a new "
                "checkpointLocation, and keep them longer (snapshots.keep_changes)",
            )
        pages = [page for page in newest if page.first <= until]
        return [
            SnapshotPart(span.snapshot.folder, part, min(span.until, until), span.after)
            for span in spans_of(self.snapshot, pages, after)
            for part in span.snapshot.parts(1)
        ]

    def columns(self) -> pa.Schema:
        """Return the columns of the snapshot, and of the newest increment of the table."""
        for page in reversed(self._newest(self.snapshot.cut[0])):
            found = table_of(self.snapshot, page.name)
            if found is not None and found.files:
                return joined_schema([self.snapshot.schema, found.schema])
        return self.snapshot.schema

    def _newest(self, epoch: str) -> Sequence[Page]:
        """Return the newest increments that follow each other without gap."""
        found = runs_of(self.snapshot.place.known(epoch))
        return cast("Sequence[Page]", found[-1] if found else ())
