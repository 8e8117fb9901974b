"""Stages between a live cursor and its reader: they filter or change each event."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rowcast.core.events import Event
from rowcast.subscriptions.subscribed_filters import Pair


class Stage(Protocol):
    """A feature's filter on the events for one caller."""

    @property
    def compares(self) -> bool:
        """Whether the result for an event depends on earlier events."""

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed, so that it counts in gaps."""

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the caller's events in order, unchanged or changed, and marks."""

    def show(self, event: Event, granted: int) -> Event | None:
        """Return the caller's form of an event at a QoS: itself, a copy, or None."""


class Stages:
    """Several stages in sequence: each gets the output of the one before."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    @property
    def compares(self) -> bool:
        """Whether any of them compares events."""
        return any(stage.compares for stage in self._stages)

    def counts(self, event: Event) -> bool:
        """Whether all of them let the caller learn that an event existed."""
        return all(stage.counts(event) for stage in self._stages)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return events after all stages."""
        for stage in self._stages:
            pairs = stage.pass_on(pairs)
        return pairs

    def show(self, event: Event, granted: int) -> Event | None:
        """Return an event after all stages."""
        shown: Event | None = event
        for stage in self._stages:
            shown = stage.show(shown, granted) if shown is not None else None
        return shown


def chained(stages: Iterable[Stage | None]) -> Stage | None:
    """Combine stages into one; None if there is none."""
    given = [stage for stage in stages if stage is not None]
    return Stages(given) if len(given) > 1 else next(iter(given), None)
