"""A subscription without I/O: the cursor to resume from, and the delay before a reconnect.

The cursor is that of the last event returned, so a reconnect resumes right after it. A stream that
begins with current records has no cursor before ``current``: if it is cut before, it starts over,
with a ``reset`` if it has returned records already, because one of these may have been deleted
meanwhile.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypedDict

import httpx

from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, RESET, SNAPSHOT
from rowcast.core.limits import (
    CLIENT_ANSWER_SECONDS,
    CLIENT_SILENCE_SECONDS,
)
from rowcast_client.events import Event, Frame, Frames, read_fields
from rowcast_client.pace import Pace
from rowcast_client.problem import Problem

CONNECTING: Final = "connecting"
LIVE: Final = "live"
WAITING: Final = "waiting"
TIMEOUT: Final = httpx.Timeout(CLIENT_ANSWER_SECONDS, read=CLIENT_SILENCE_SECONDS)
NOTICES: Final = frozenset({"heartbeat"})
"""Names of keepalive frames, which are no events."""
State = Callable[[str], None]


class Place(TypedDict, total=False):
    """The start of a subscription; one of these, or none: with the current records."""

    since: str
    """After this cursor."""
    start: str
    """``new``: with the next event."""
    last: int
    """With the last N events."""
    from_: str
    """At a time, absolute or relative: ``-1h``."""


def beginning(place: Place) -> tuple[str, dict[str, object]]:
    """Return the cursor of a place, or the other words that say where to begin; raises INVALID."""
    words = {key.rstrip("_"): value for key, value in place.items() if value not in {"", None}}
    cursor = str(words.pop("since", ""))
    if cursor and words:
        raise Error(Code.INVALID, f"since and {next(iter(words))} exclude each other")
    return cursor, words


class Following:
    """One subscription: its next request, the parser of its events, and its reconnects."""

    def __init__(
        self,
        filters: Sequence[str],
        place: Place,
        *,
        name: str = "json",
        meta: bool = False,
        commits: bool = False,
        conflate: str = "",
        patient: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not filters:
            raise Error(Code.INVALID, "a subscription has a filter at least, such as 'Dog/#'")
        self.cursor, words = beginning(place)
        """The cursor to resume from: after the last event returned."""
        self._place = [(key, str(value)) for key, value in words.items()]
        self._params = [("topic", text) for text in filters]
        if name != "json":
            self._params.append(("format", name))
        asked = (("meta", meta), ("commits", commits))
        self._params += [(word, "true") for word, wanted in asked if wanted]
        if conflate:
            self._params.append(("conflate", conflate))
        self._pace = Pace(patient=patient, chance=chance)
        self._frames = Frames()
        self._media_type = ""
        self._shown = False

    @property
    def params(self) -> tuple[tuple[str, str], ...]:
        """The query of the next connection."""
        return tuple(self._params if self.cursor else self._params + self._place)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next connection."""
        return {"Accept": "text/event-stream"} | (
            {"Last-Event-ID": self.cursor} if self.cursor else {}
        )

    def opened(self, headers: Mapping[str, str]) -> Iterator[Event]:
        """Begin to read a connection; yields ``reset`` if records returned before are obsolete."""
        self._pace.met()
        self._frames = Frames()
        self._media_type = headers.get("event-format", "")
        if self.cursor:
            return
        if self._shown:
            self._shown = False
            yield Event({"cursor": None, "topic": None, "kind": RESET, "version": None})
        if any(value != CURRENT for _, value in self._place):  # it began at a position of the log
            self.cursor = headers.get("rowcast-position", "")

    def take(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that a chunk completes; raises the problem that ends a stream."""
        for frame in self._frames.feed(chunk):
            if frame.name in NOTICES:
                continue
            event = self._event(frame)
            self.cursor = frame.id or self.cursor
            self._shown = event.kind == SNAPSHOT or (self._shown and event.kind != CURRENT)
            yield event

    def _event(self, frame: Frame) -> Event:
        if frame.name == "problem":
            details = read_fields(frame.data)
            status = details.get("status")
            raise Problem(status if isinstance(status, int) else 500, details)
        return Event(read_fields(frame.data, self._media_type))

    def ended(self, problem: Problem | None = None) -> float:
        """Return the seconds to wait before the next connection; raises a final problem."""
        asked, self._frames.retry_seconds = self._frames.retry_seconds, 0
        return self._pace.ended(problem, asked)  # what the server asked for ends with its stream
