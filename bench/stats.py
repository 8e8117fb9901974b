"""Medians, percentiles and the judgement of a ratio against its target."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the ordered values lie (nearest rank)."""
    if not ordered:
        return float("nan")
    rank = max(0, -(-len(ordered) * share // 1) - 1)
    return ordered[min(len(ordered) - 1, int(rank))]


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the rounds that have it."""
    names = {name for figures in rounds for name in figures}
    return {
        name: median(figures[name] for figures in rounds if name in figures)
        for name in sorted(names)
    }


def spread(rounds: Sequence[dict[str, float]], name: str) -> float:
    """Return (max - min) / median of a figure: how noisy the machine was."""
    values = [figures[name] for figures in rounds if name in figures]
    middle = median(values) if values else 0.0
    return (max(values) - min(values)) / middle if middle else 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What ours must reach beside a peer: a ratio at least, or a difference at most."""

    at_least: float | None = None
    at_most_more: float | None = None

    def comparison(self, ours: float, peer: float) -> float:
        """Return the ratio ours/peer, or for a difference target ours - peer."""
        if self.at_most_more is not None:
            return ours - peer
        return ours / peer if peer else float("inf")

    def reached(self, compared: float) -> bool | None:
        """Say whether the target is reached; None where there is none."""
        if self.at_most_more is not None:
            return compared <= self.at_most_more
        return None if self.at_least is None else compared >= self.at_least
