"""What a reader gets in place of a part of the log that was compacted (E16).

Of that part there is what became of each record: the records that were written last in it, which
are among the current ones, and the deletions. This is data; the feature ``compaction`` makes it,
and the backfill of a subscription reads it (``backfill.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rowcast.core.events import DELETE, Event
from rowcast.core.tables import Table


@dataclass(frozen=True, slots=True)
class CompactedPast:
    """What became of the records of a table after one position and up to another."""

    table: Table
    after: int
    """The position of the reader."""
    upto: int
    """The position from which on the log is complete."""
    deleted: Sequence[tuple[str, int]]
    """Topic and version of each deletion, in order; there may be a later record."""

    def deletions(self, begin: int, end: int) -> list[Event]:
        """Return some deletions as events without a number, so that none is a place to resume."""
        return [
            Event(topic, DELETE, b"", None, 1, True, self.table, version=version)
            for topic, version in self.deleted[begin:end]
        ]
