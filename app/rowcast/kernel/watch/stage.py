"""The stage between a live cursor and its reader: what each event is to the reader."""

from typing import Protocol

from rowcast.core.events import Event
from rowcast.kernel.watch.subscribed_filters import Pair


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
