"""Events for one interest of a subscription, whatever its other filters are.

They have no topic, so nothing takes them for an event that was announced: a mark in the place of
missing events (``gaps.py``), and an event of the past that is replayed (M6).
"""

from typing import Protocol

from rowcast.core.events import REPLAYED, Event
from rowcast.subscriptions.subscribed_filter import SubscribedFilter


class Addressed(Event):
    """An event for ``interest``; None for all filters of the subscription."""

    __slots__ = ("interest",)

    interest: SubscribedFilter | None


class Source(Protocol):
    """What replays events to one reader."""

    def took(self, event: "Replayed") -> bool:
        """Note that an event is delivered now; return whether it still should be."""


class Replayed(Addressed):
    """An event of the past, as its reader sees it, in ``original``: a copy, a record or a mark.

    It has neither number nor version, so that it moves no position, and no latency is measured.
    ``turn`` tells events before a seek from those after it.
    """

    __slots__ = ("original", "source", "turn")

    def __init__(
        self, original: Event, interest: SubscribedFilter, source: Source, turn: int
    ) -> None:
        super().__init__("", REPLAYED, original.payload)
        self.original = original
        self.interest = interest
        self.source = source
        self.turn = turn
