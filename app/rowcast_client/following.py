"""A subscription without a connection: where it goes on, and how long it waits before.

The cursor is that of the last event which was handed over, so whoever is cut off, by whatever,
goes on right after it. A stream that began with the records as they are has no cursor before
``current``: cut among them it begins anew, and says ``reset`` if it had shown some already, for
one of these may be gone meanwhile.
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
    RECONNECT_SECONDS_MAX,
    RECONNECT_SECONDS_MIN,
)
from rowcast_client.events import Event, Frame, Frames, read_fields
from rowcast_client.problem import Problem

CONNECTING: Final = "connecting"
LIVE: Final = "live"
WAITING: Final = "waiting"
TIMEOUT: Final = httpx.Timeout(CLIENT_ANSWER_SECONDS, read=CLIENT_SILENCE_SECONDS)
NOTICES: Final = frozenset({"heartbeat"})
"""Names of what the server sends that is no event: it shows that the connection lives."""
State = Callable[[str], None]


class Place(TypedDict, total=False):
    """Where a subscription begins; one of these, or none: with the records as they are."""

    since: str
    """After this cursor."""
    start: str
    """``new``: with the next event."""
    last: int
    """With the last so many."""
    from_: str
    """At a time, or so long ago: ``-1h``."""


class Following:
    """One subscription: what to ask, what came, and what to do when it ends."""

    def __init__(
        self,
        filters: Sequence[str],
        place: Place,
        *,
        name: str = "json",
        meta: bool = False,
        patient: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not filters:
            raise Error(Code.INVALID, "a subscription has a filter at least, such as 'Dog/#'")
        words = {key.rstrip("_"): value for key, value in place.items() if value not in {"", None}}
        self.cursor = str(words.pop("since", ""))
        """Where to go on: after the last event that was handed over."""
        if self.cursor and words:
            raise Error(Code.INVALID, f"since and {next(iter(words))} exclude each other")
        self._place = [(key, str(value)) for key, value in words.items()]
        self._params = [("topic", text) for text in filters]
        if name != "json":
            self._params.append(("format", name))
        if meta:
            self._params.append(("meta", "true"))
        self._chance = chance
        self._met = patient
        self._pause: float = RECONNECT_SECONDS_MIN
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
        """Begin to read a connection; gives ``reset`` where what was shown is to be forgotten."""
        self._met, self._pause = True, RECONNECT_SECONDS_MIN
        self._frames = Frames()
        self._media_type = headers.get("event-format", "")
        if self.cursor:
            return
        if self._shown:
            self._shown = False
            yield Event({"cursor": None, "topic": None, "kind": RESET, "version": None})
        if any(value != CURRENT for _, value in self._place):  # it began at a place of the log
            self.cursor = headers.get("rowcast-position", "")

    def take(self, chunk: bytes) -> Iterator[Event]:
        """Give the events that end in a piece; raises the problem that ends a stream."""
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
        """Return how many seconds to wait before the next connection; raises what is final."""
        if problem is not None and (problem.is_final or not self._met):
            raise problem
        pause = self._pause * (1 + self._chance())
        if self._frames.retry_seconds:  # of the connection that ended: has a random part already
            pause = min(self._frames.retry_seconds, RECONNECT_SECONDS_MAX)
            self._frames.retry_seconds = 0
        self._pause = min(self._pause * 2, RECONNECT_SECONDS_MAX)
        return max(pause, problem.retry_after if problem else 0)
