"""What a reader gets in place of a part of the log that was compacted (E16).

Of that part there is what became of each record: the records that were written last in it, which
are among the current ones, and the deletions; and the events that were kept by another key. This is
data; the feature ``compaction`` makes it, and the backfill of a subscription reads it
(``backfill.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowcast.core.events import DELETE, Event
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter


class Deletion(Protocol):
    """What is known of a deletion that the log has no longer."""

    @property
    def record_id(self) -> str:
        """The id of the record."""

    @property
    def seq(self) -> int:
        """The number of the event."""

    @property
    def version(self) -> int:
        """Its version."""


@dataclass(frozen=True, slots=True)
class CompactedPast:
    """What became of the records of a table after one position and up to another."""

    table: Table
    topics: TopicFilter
    """Those that the reader wants."""
    after: int
    """The position of the reader."""
    upto: int
    """The position from which on the log is complete."""
    deleted: Sequence[Deletion]
    """Deletions in order, also others than the reader's; there may be a later record."""
    kept: Sequence[Event] = ()
    """Events that stay besides, in order and of the reader's topics; they come first."""
    held: object = None
    """What these are of, which others may share for as long as one has it."""

    @property
    def count(self) -> int:
        """How many of both there are."""
        return len(self.kept) + len(self.deleted)

    def events(self, begin: int, end: int) -> list[Event]:
        """Return the reader's among a part of both, which may be none.

        A deletion that was kept for its key is among the deletions.
        """
        first = len(self.kept)
        kept = [
            event.changed(seq=0)
            for event in self.kept[begin:end]
            if event.kind != DELETE and self.after < event.seq <= self.upto
        ]
        return kept + self.deletions(max(0, begin - first), max(0, end - first))

    def deletions(self, begin: int, end: int) -> list[Event]:
        """Return the reader's among a part of the deletions, which may be none.

        As events without a number, so that none is a place to resume.
        """
        return [
            Event(topic, DELETE, b"", None, 1, True, self.table, version=item.version)
            for item in self.deleted[begin:end]
            if self.after < item.seq <= self.upto
            and self.topics.matches(topic := self.table.topic(item.record_id))
        ]
