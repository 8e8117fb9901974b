"""The stage of a reader with replays: applies the reader's rights to each event of the past.

They are those at the time of delivery, as for live events. A mark concerns the replay itself.
"""

from rowcast.core.events import Event
from rowcast.subscriptions.addressed import Replayed
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import Pair


class ReplayStage:
    """Around the stage for other filters: ``plain`` shows single events."""

    def __init__(self, plain: Stage | None, inner: Stage | None) -> None:
        self._plain = plain
        self._inner = inner

    @property
    def compares(self) -> bool:
        """Whether the result for an event depends on earlier events."""
        return self._inner is not None and self._inner.compares

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed."""
        return self._inner is None or self._inner.counts(event)

    def show(self, event: Event, granted: int) -> Event | None:
        """Return an event as the inner stage shows it."""
        return event if self._inner is None else self._inner.show(event, granted)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the caller's events, in order."""
        through: list[Pair] = []
        others: list[Pair] = []
        for pair in pairs:
            event = pair[0]
            if not isinstance(event, Replayed):
                others.append(pair)
                continue
            through += self._passed(others)
            others = []
            if event.source.took(event) and self._shows(event):
                through.append(pair)
        through += self._passed(others)
        return through

    def _passed(self, pairs: list[Pair]) -> list[Pair]:
        return self._inner.pass_on(pairs) if self._inner is not None and pairs else pairs

    def _shows(self, event: Replayed) -> bool:
        """Put the caller's form in a replayed event; return whether there is one."""
        if self._plain is None or not event.original.topic:
            return True
        shown = self._plain.show(event.original, 0)
        if shown is None:
            return False
        event.original = shown
        return True
