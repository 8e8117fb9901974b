"""Loads: how much of something happened in a minute, averaged over one, five and fifteen.

As Mosquitto does it: each new value weighs as much as the time since the last one, against
everything before, which fades exponentially.
"""

from collections.abc import Mapping
from math import exp
from typing import Final

COUNTED: Final = (
    "messages/received",
    "messages/sent",
    "publish/dropped",
    "publish/received",
    "publish/sent",
    "bytes/received",
    "bytes/sent",
    "sockets",
    "connections",
)
MINUTES: Final = (1, 5, 15)


class Loads:
    """The averages of several counters."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._before: dict[str, int] = dict.fromkeys(COUNTED, 0)
        self.averages: dict[tuple[str, int], float] = {
            (name, minutes): 0.0 for name in COUNTED for minutes in MINUTES
        }
        """What happened in a minute, by what it is and over how many."""

    def update(self, seconds: float, counts: Mapping[str, int]) -> None:
        """Take the counters as they are so many seconds after the start."""
        passed = seconds - self._seconds
        if passed <= 0:  # the clock was set back: wait until it is past that again
            self._seconds = seconds
            return
        self._seconds = seconds
        for minutes in MINUTES:
            kept = exp(-passed / (60 * minutes))
            for name, count in counts.items():
                in_a_minute = (count - self._before[name]) * 60 / passed
                old = self.averages[name, minutes]
                self.averages[name, minutes] = in_a_minute + kept * (old - in_a_minute)
        self._before.update(counts)
