"""The stage between a live cursor and its reader: what each event is to the reader."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from rowcast.core.events import Event
from rowcast.subscriptions.subscribed_filters import Pair


class Stage(Protocol):
    """What features have to say of what one caller is shown."""

    @property
    def compares(self) -> bool:
        """Whether what an event is to the caller depends on the events that it saw before."""

    def counts(self, event: Event) -> bool:
        """Tell whether the caller may know that there was an event: then it is part of a gap."""

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return what the caller is shown, in order: events as they are or changed, and marks."""

    def show(self, event: Event, granted: int) -> Event | None:
        """Return what the caller is sent of an event at a QoS: itself, a copy, or nothing."""


class Stages:
    """Several stages, one behind the other: each is shown what the one before passes on."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    @property
    def compares(self) -> bool:
        """Whether any of them compares events."""
        return any(stage.compares for stage in self._stages)

    def counts(self, event: Event) -> bool:
        """Tell whether all of them let the caller know that there was an event."""
        return all(stage.counts(event) for stage in self._stages)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return what is left of events when all have seen them."""
        for stage in self._stages:
            pairs = stage.pass_on(pairs)
        return pairs

    def show(self, event: Event, granted: int) -> Event | None:
        """Return what is left of an event when all have seen it."""
        shown: Event | None = event
        for stage in self._stages:
            shown = stage.show(shown, granted) if shown is not None else None
        return shown


def chained(stages: Iterable[Stage | None]) -> Stage | None:
    """Return one stage that stands for several; None where there is none."""
    given = [stage for stage in stages if stage is not None]
    return Stages(given) if len(given) > 1 else next(iter(given), None)
