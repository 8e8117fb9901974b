"""What a write of a synced topic meets: the write before it, and whether either knew the other.

Functions and objects that run where a write is decided, in the order of commits, without I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rowcast.core.events import DELETE, Event, Record
from rowcast.store.store import Change
from rowcast.writes.known_versions import (
    KNOWN,
    SEEN,
    had_seen,
    joined,
    known_with,
    seen_by,
    text_of,
)
from rowcast.writes.last_write_wins import Stamp, stamp_of
from rowcast.writes.write import Current, Outcome, Receipt, Write


@dataclass(frozen=True, slots=True)
class Side:
    """One of two writes that meet: a record, a deletion, or what has just come."""

    stamp: Stamp
    properties: Mapping[str, object] | None
    event: Record | Event | None
    """None for a deletion of which only the tombstone is left."""

    @property
    def deleted(self) -> bool:
        """Whether it is a deletion."""
        return self.event is None or self.event.kind == DELETE


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two writes at one topic of which the winner's site had not seen the loser."""

    topic: str
    winner: Side
    loser: Side


def last_write(topic: str, record: Record | None, current: Current) -> Side | None:
    """Return the write that a topic has now; None if there is none, or none is remembered."""
    if record is not None:
        return Side(stamp_of(record, current.epoch), record.properties, record)
    stamp = current.tombstones.get(topic)
    return (
        None
        if stamp is None
        else Side(stamp, current.tombstone_properties.get((topic, stamp)), None)
    )


def note_seen(write: Write, record: Record | None, current: Current) -> int:
    """Give a write of this site what its site has seen at the topic; a decider."""
    event, last = write.event, last_write(write.event.topic, record, current)
    seen: dict[str, int] = {}
    if last is not None:
        seen = joined([known_with(last.properties)], last.stamp, but=current.epoch)
    event.properties = {**(event.properties or {}), SEEN: text_of(seen)}
    return 0


class Meeting:
    """A write from another site, and the last one here."""

    __slots__ = ("_found", "_last", "_on_found", "_pack", "_then", "_write")

    def __init__(
        self,
        write: Write,
        pack: Callable[[Conflict], Change],
        on_found: Callable[[Change], None],
    ) -> None:
        """``pack`` makes a conflict's change of facts; ``on_found`` is called when it is stored."""
        self._write = write
        self._pack = pack
        self._on_found = on_found
        self._last: Side | None = None
        self._found: Change | None = None
        self._then = write.conclude
        write.check_first(self._look)
        write.decide(self._join)
        write.conclude = self._conclude
        self._observe(write)

    def _observe(self, write: Write) -> None:
        done = write.done

        def on_outcome(outcome: Outcome) -> None:
            if self._found is not None and isinstance(outcome, Receipt):
                self._on_found(self._found)
            done(outcome)

        write.done = on_outcome

    def _look(self, write: Write, record: Record | None, current: Current) -> int:
        """Remember what was here."""
        self._last = last_write(write.event.topic, record, current)
        return 0

    def _join(self, write: Write, _record: Record | None, current: Current) -> int:
        """Add what was seen here to what its writer had seen: it has won."""
        event, last = write.event, self._last
        if last is not None:
            seen = seen_by(event.properties)
            known = joined([seen, known_with(last.properties)], last.stamp)
            own = stamp_of(event, current.epoch)[1]
            known.pop(own, None)
            event.properties = {**(event.properties or {}), KNOWN: text_of(known)}
        return 0

    def _conclude(self, receipt: Receipt) -> Sequence[Change]:
        """Add the conflict to the changes that are stored with the decision."""
        changes = list(self._then(receipt)) if self._then is not None else []
        found = self._conflict(receipt)
        self._found = None if found is None else self._pack(found)
        return changes if self._found is None else [*changes, self._found]

    def _conflict(self, receipt: Receipt) -> Conflict | None:
        event, last = self._write.event, self._last
        if last is None:
            return None
        here, there = last, Side(stamp_of(event, ""), event.properties, event)
        winner, loser = (here, there) if receipt.late else (there, here)
        if had_seen(winner.stamp, seen_by(winner.properties), loser.stamp):
            return None
        return Conflict(event.topic, winner, loser)
