"""The playhead: which time of the past is now, for the readers of one replay.

The past goes by at a multiple of the loop's time. The clock is an argument, so that a test moves
it.
"""

import math
from collections.abc import Callable
from typing import Final

from rowcast.core.clock import PER_SECOND

NEVER: Final = math.inf


class Playhead:
    """A time of the past that goes by; ``now`` is the loop's time in seconds.

    Times of the past are versions: microseconds since 1970. With a speed of 0 every event is due.
    It stops at ``end``, if there is one.
    """

    def __init__(self, now: Callable[[], float], speed: float, end: int | None = None) -> None:
        self._now = now
        self.speed = speed
        self._end = end
        self.playing = True
        self._at: int | None = None
        self._since = 0.0
        self.listeners: list[Callable[[], None]] = []
        """Called after each change."""

    @property
    def at(self) -> int | None:
        """The time of the past that is now; None: it begins with the first event."""
        if self._at is None or not self.playing or not self.speed:
            return self._at
        at = self._at + round((self._now() - self._since) * self.speed * PER_SECOND)
        return at if self._end is None else max(self._at, min(at, self._end))

    def start(self, at: int) -> None:
        """Begin at a time of the past, unless it has begun."""
        if self._at is None:
            self._at, self._since = at, self._now()

    def seconds_until(self, version: int) -> float:
        """Return in how many seconds an event of the past is due: 0 for now, NEVER in a pause."""
        if not self.playing:
            return NEVER
        if not self.speed or self._at is None:
            return 0.0
        due = self._since + (version - self._at) / PER_SECOND / self.speed
        return max(0.0, due - self._now())

    def change(self, *, speed: float | None = None, playing: bool | None = None) -> None:
        """Change the speed, pause or play; the time of the past stays."""
        at, self._since = self.at, self._now()
        self._at = at
        self.speed = self.speed if speed is None else speed
        self.playing = self.playing if playing is None else playing
        self._notify()

    def seek(self, at: int | None) -> None:
        """Go on at another time of the past; None: at that of the next event."""
        self._at, self._since = at, self._now()
        self._notify()

    def _notify(self) -> None:
        for listener in list(self.listeners):
            listener()
