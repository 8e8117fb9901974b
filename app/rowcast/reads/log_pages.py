"""Pages of the log that were read, for the next reader that stands at the same place.

When many sessions come back, each reads the same part of the log. What was read once is complete
for ever: the log only grows at its end, so nothing comes to lie between two events that are next to
each other. So a page is never made void; what was trimmed meanwhile is the readers' to ask about,
after they have the page, as after any read.

A page knows up to where it is complete: to its last event, or, if the log had no more, to what had
been announced when it was read. For a reader it is as good as a read of its own if it holds
anything for it, or is complete to where that reader needs it. This must not know the store, nor who
reads.
"""

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from rowcast.core.events import Event
from rowcast.core.limits import LOG_CACHE_EVENTS_MAX, LOG_CACHE_PAGES_MAX
from rowcast.core.memory_limits import LOG_CACHE_BYTES_MAX
from rowcast.reads.held_bytes import held_bytes

_SEQ: Final = attrgetter("seq")


@dataclass(frozen=True, slots=True)
class LogPage:
    """Events in order: all there are above the position that was asked for, and up to ``upto``."""

    events: list[Event]
    upto: int


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """All events of a part of the log with numbers above ``after`` and up to ``upto``."""

    after: int
    upto: int
    events: list[Event]
    bytes: int


class Pages:
    """The pages that were used last, bounded by events, by bytes and by their number."""

    def __init__(
        self,
        events_max: int = LOG_CACHE_EVENTS_MAX,
        bytes_max: int = LOG_CACHE_BYTES_MAX,
        pages_max: int = LOG_CACHE_PAGES_MAX,
    ) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._pages_max = pages_max
        self._pieces: dict[tuple[str, int], _Piece] = {}
        """By part and ``after``; the one that was used last is the last."""
        self._events = self._bytes = 0

    def find(self, part: str, after: int, until: int) -> LogPage | None:
        """Return the cached events after a position, if there are any, or all up to ``until``."""
        for key, piece in self._pieces.items():
            if key[0] != part or not piece.after <= after <= piece.upto:
                continue
            events = piece.events
            if after > piece.after:
                events = events[bisect_right(events, after, key=_SEQ) :]
            if events or piece.upto >= until:
                self._pieces[key] = self._pieces.pop(key)
                return LogPage(events, piece.upto)
        return None

    def keep(self, part: str, after: int, events: list[Event], upto: int) -> None:
        """Remember a page that was read."""
        self._forget((part, after))
        piece = _Piece(after, upto, events, sum(map(held_bytes, events)))
        if len(events) > self._events_max or piece.bytes > self._bytes_max:
            return
        self._pieces[part, after] = piece
        self._events += len(events)
        self._bytes += piece.bytes
        while (
            self._events > self._events_max
            or self._bytes > self._bytes_max
            or len(self._pieces) > self._pages_max
        ):
            self._forget(next(iter(self._pieces)))

    def clear(self) -> None:
        """Forget all pages: memory is short."""
        self._pieces.clear()
        self._events = self._bytes = 0

    def _forget(self, key: tuple[str, int]) -> None:
        piece = self._pieces.pop(key, None)
        if piece is not None:
            self._events -= len(piece.events)
            self._bytes -= piece.bytes
