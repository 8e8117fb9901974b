"""Which events of one table stay beyond its history: the newest of each key. No I/O, no clock.

The events themselves are facts; here is their index. Beyond the history the deletion of a record
takes along what is kept of it, so what was deleted is not kept for ever. A deletion that has a key
itself, such as that of its client, is the newest event of that key, and goes after some time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from rowcast.core.events import DELETE


@dataclass(frozen=True, slots=True)
class TrimmedEvent:
    """An event that is about to be trimmed."""

    seq: int
    record_id: str
    kind: str
    expires_at: float
    """In seconds since 1970; 0: never."""
    key: str | None
    """None: it is not kept."""
    value: bytes = b""
    """How it is kept; empty if it is too large."""


@dataclass(frozen=True, slots=True)
class KeptBounds:
    """How many events of a table stay, and their bytes."""

    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Kept:
    seq: int
    record_id: str
    bytes: int
    expires_at: float


class KeptEvents:
    """The index of the kept events of one table, by key, in the order of their numbers."""

    def __init__(self, bounds: KeptBounds) -> None:
        self._bounds = bounds
        self.upto = 0
        """The number of the last event that was looked at."""
        self.known: dict[str, _Kept] = {}
        self._bytes = 0
        self._of_record: dict[str, set[str]] = {}
        self._deletions: dict[str, float] = {}
        """Keys of kept deletions, with the time since when."""
        self._soonest = inf
        """The earliest expiry, or an earlier time."""

    def begin(self, upto: int) -> None:
        """Begin anew, with events after a number."""
        self.upto, self._bytes, self._soonest = upto, 0, inf
        for known in (self.known, self._of_record, self._deletions):
            known.clear()

    def add(self, event: TrimmedEvent, now_seconds: float) -> None:
        """Keep an event, whose number is greater than all before."""
        key = event.key or ""
        self.known[key] = _Kept(event.seq, event.record_id, len(event.value), event.expires_at)
        self._bytes += len(event.value)
        self._of_record.setdefault(event.record_id, set()).add(key)
        if event.kind == DELETE:
            self._deletions[key] = now_seconds
        if event.expires_at:
            self._soonest = min(self._soonest, event.expires_at)

    def note(self, events: Iterable[TrimmedEvent], now_seconds: float) -> dict[str, bytes | None]:
        """Note events in order; return what is kept anew, by key, and None for what has gone."""
        changed: dict[str, bytes | None] = {}
        for event in events:
            if event.seq <= self.upto:
                continue
            self.upto = event.seq
            if event.kind == DELETE:
                for key in list(self._of_record.get(event.record_id, ())):
                    self._drop(key)
                    changed[key] = None
            if event.key is None:
                continue
            if event.key in self.known:
                self._drop(event.key)
                changed[event.key] = None
            if event.value:
                self.add(event, now_seconds)
                changed[event.key] = event.value
        return changed

    def forget(self, now_seconds: float, deletions_before: float) -> list[str]:
        """Forget old deletions, what is over, and the oldest that are too many; return the keys."""
        gone = self._over(now_seconds)
        for key, at in self._deletions.items():
            if at >= deletions_before:
                break
            gone.append(key)
        for key in gone:
            self._drop(key)
        while len(self.known) > self._bounds.events or self._bytes > self._bounds.bytes:
            oldest = next(iter(self.known))
            self._drop(oldest)
            gone.append(oldest)
        return gone

    def _over(self, now_seconds: float) -> list[str]:
        """Return the keys of events whose time is over."""
        if self._soonest > now_seconds:
            return []
        times = {key: item.expires_at for key, item in self.known.items() if item.expires_at}
        over = [key for key, at in times.items() if at <= now_seconds]
        self._soonest = min([at for at in times.values() if at > now_seconds], default=inf)
        return [key for key in over if key not in self._deletions]

    def _drop(self, key: str) -> None:
        """Forget an event."""
        gone = self.known.pop(key)
        self._bytes -= gone.bytes
        self._deletions.pop(key, None)
        of_record = self._of_record[gone.record_id]
        of_record.discard(key)
        if not of_record:
            del self._of_record[gone.record_id]
