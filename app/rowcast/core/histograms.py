"""Histograms of durations, as plain numbers.

An observation is two additions, so that every commit and every request can be observed; the text
for Prometheus is rendered on request (``features/metrics/exposition.py``).
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds in seconds: from half a millisecond, a commit on a fast disk, to ten seconds, after
which most clients give up."""


class Histogram:
    """The histogram of one series."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Observations per bucket: at most its bound and above the one before; the last one is
        unbounded."""
        self.total = 0.0
        """The sum of all observations."""

    def observe(self, value: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """Histograms of one metric, by the values of its labels."""

    name: str
    """The name in Prometheus, with the unit at the end."""
    about: str
    labels: tuple[str, ...]
    series: Callable[[], Mapping[tuple[str, ...], Histogram]]
    """Returns the current histograms; their owner bounds their number."""
