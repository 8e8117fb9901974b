"""The tombstones of one table: the deletions that its history has no longer. No I/O and no clock.

A record is the last event at its topic, so of the records that exist the last event stays without
further ado. A deleted one has no record: its deletion is noted before it is trimmed, and forgotten
some time later. ``since`` is the position of the last one that was forgotten: who returns with an
earlier cursor may have missed a deletion that nobody knows any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rowcast.core.events import DELETE, MESSAGE


class TrimmedVersion(NamedTuple):
    """An event that is about to be trimmed."""

    seq: int
    record_id: str
    kind: str
    version: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A deletion: its number, its version, and since when it is noted, in seconds since 1970."""

    record_id: str
    seq: int
    version: int
    noted_at: float


class Tombstones:
    """What is known of the deletions of one table."""

    def __init__(self, tombstones_max: int) -> None:
        self._tombstones_max = tombstones_max
        self.since = 0
        """All later deletions up to ``upto`` are known, but for what was written again since."""
        self.upto = 0
        """The position up to which events may be trimmed."""
        self.known: dict[str, Tombstone] = {}
        """By the id of the record, in the order of their numbers."""

    def begin(self, position: int) -> None:
        """Begin anew: what was trimmed up to a position is not known."""
        self.since = self.upto = position
        self.known.clear()

    def note(
        self, events: Iterable[TrimmedVersion], now_seconds: float
    ) -> dict[str, Tombstone | None]:
        """Note events in order; return the changed tombstones, None for those that are gone."""
        changed: dict[str, Tombstone | None] = {}
        for event in events:
            if event.seq <= self.upto:
                continue
            self.upto = event.seq
            if event.kind == MESSAGE:
                continue
            gone = self.known.pop(event.record_id, None)
            if event.kind == DELETE:
                made = Tombstone(event.record_id, event.seq, event.version, now_seconds)
                self.known[event.record_id] = changed[event.record_id] = made
            elif gone is not None or event.record_id in changed:
                changed[event.record_id] = None
        return changed

    def forget(self, noted_before: float) -> list[str]:
        """Forget tombstones that are old enough or too many; return their ids."""
        gone: list[str] = []
        for record_id, tombstone in self.known.items():
            too_many = len(self.known) - len(gone) > self._tombstones_max
            if tombstone.noted_at >= noted_before and not too_many:
                break
            gone.append(record_id)
            self.since = tombstone.seq
        for record_id in gone:
            del self.known[record_id]
        return gone

    def between(self, position: int, upto: int) -> list[Tombstone] | None:
        """Return the tombstones, if all after a position and up to another are among them.

        Those of other positions are not left out: there may be a hundred thousand.
        """
        if position < self.since or upto > self.upto:
            return None
        return list(self.known.values())
