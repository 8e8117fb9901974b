"""Loads: rates per minute, averaged over one, five and fifteen minutes.

As in Mosquitto: an exponentially weighted moving average.
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
        """Rates per minute, by counter and averaging period."""

    def update(self, seconds: float, counts: Mapping[str, int]) -> None:
        """Update with the counters at so many seconds after the start."""
        passed = seconds - self._seconds
        if passed <= 0:  # the clock was set back: wait until it has passed that time
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
