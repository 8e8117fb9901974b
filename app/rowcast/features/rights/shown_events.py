"""What a caller's rights let it see of the events that it watches (M9)."""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.rights.compiled_policy import CompiledPolicy
from rowcast.subscriptions.subscribed_filters import Pair


class Policies(Protocol):
    """Knows what callers may see; it may be another after a change of the policy."""

    def sight(self, caller: Caller) -> CompiledPolicy | None:
        """Return what a caller may do and see; None if there is no more to it than its grants."""


class RightsStage:
    """The stage of one caller."""

    __slots__ = ("_caller", "_sights")

    def __init__(self, sights: Policies, caller: Caller) -> None:
        self._sights = sights
        self._caller = caller

    @property
    def compares(self) -> bool:
        """Whether what an event is to the caller depends on what it saw before."""
        return self._sights.sight(self._caller) is not None

    def counts(self, event: Event) -> bool:
        """Tell whether the caller may know that there was an event."""
        return self.show(event, 0) is not None

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return what the caller may see, in order; marks, which have no topic, always."""
        sight = self._sights.sight(self._caller)
        if sight is None:
            return pairs
        untouched = sight.untouched
        if all(untouched(event) for event, _ in pairs):
            return pairs
        through: list[Pair] = []
        for event, interest in pairs:
            seen = sight.show(event) if event.topic and interest is not None else event
            if seen is not None:
                through.append((seen, interest))
        return through

    def show(self, event: Event, granted: int) -> Event | None:  # noqa: ARG002 - rights know no QoS
        """Return what an event is to the caller: itself, another, or nothing."""
        sight = self._sights.sight(self._caller)
        return event if sight is None else sight.show(event)
