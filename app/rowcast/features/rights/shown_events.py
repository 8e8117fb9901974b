"""The stage that applies a caller's rights to events (M9)."""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.rights.compiled_policy import CompiledPolicy
from rowcast.subscriptions.subscribed_filters import Pair


class Policies(Protocol):
    """Returns compiled policies, which may change."""

    def compiled(self, caller: Caller) -> CompiledPolicy | None:
        """Return the compiled policy of a caller; None if only its grants apply."""


class RightsStage:
    """The stage of one caller."""

    __slots__ = ("_caller", "_policies")

    def __init__(self, policies: Policies, caller: Caller) -> None:
        self._policies = policies
        self._caller = caller

    @property
    def compares(self) -> bool:
        """Whether the result for an event depends on earlier events."""
        compiled = self._policies.compiled(self._caller)
        return compiled is not None and compiled.compares

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed."""
        return self.show(event, 0) is not None

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the visible pairs, in order, and all marks, which have no topic."""
        compiled = self._policies.compiled(self._caller)
        if compiled is None:
            return pairs
        untouched = compiled.untouched
        if all(untouched(event) for event, _ in pairs):
            return pairs
        through: list[Pair] = []
        for event, interest in pairs:
            seen = compiled.show(event) if event.topic and interest is not None else event
            if seen is not None:
                through.append((seen, interest))
        return through

    def show(self, event: Event, granted: int) -> Event | None:  # noqa: ARG002 - rights know no QoS
        """Return an event as the caller sees it: itself, another, or None."""
        compiled = self._policies.compiled(self._caller)
        return event if compiled is None else compiled.show(event)
