"""The delivery filter: hooks that withhold or change events for one reader.

It exists only if a hook has a read or delivery point (G6, G8). An event is shared by all readers,
so a hook gets a copy, and only a changed copy is sent in the event's place. The order is that of
D65: read right, QoS, transformation. Hooks see events after the caller's rights. It knows no queue
and no position.
"""

from copy import deepcopy

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.hooks.hooks import Hooks
from rowcast.subscriptions.subscribed_filters import Pair


class HookStage:
    """The stage of one caller."""

    __slots__ = ("_caller", "_hooks")

    compares = False

    def __init__(self, hooks: Hooks, caller: Caller) -> None:
        self._hooks = hooks
        self._caller = caller

    def counts(self, event: Event) -> bool:
        """Whether the caller may learn that an event existed."""
        return self._hooks.may_read(self._caller, event.topic)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return the allowed pairs, in order, and all marks, which have no topic."""
        through: list[Pair] = []
        for event, interest in pairs:
            if event.topic and interest is not None:
                became = self.show(event, interest.qos)
            else:
                became = event
            if became is not None:
                through.append((became, interest))
        return through

    def show(self, event: Event, granted: int) -> Event | None:
        """Return the event, a changed copy, or None."""
        if not self._hooks.delivering:
            return event
        if not self._hooks.may_see(self._caller, event):
            return None
        qos = min(event.qos, granted)
        shown = event.changed(qos=qos, properties=deepcopy(event.properties))
        became = self._hooks.deliver(self._caller, shown)
        if became is None or _same(event, became, qos):
            return None if became is None else event
        became.seq, became.version, became.table = event.seq, event.version, event.table
        became.kind, became.client = event.kind, event.client
        return became


def _same(event: Event, became: Event, qos: int) -> bool:
    return (
        became.topic == event.topic
        and became.payload == event.payload
        and became.content_type == event.content_type
        and became.qos == qos
        and became.retain == event.retain
        and became.properties == event.properties
        and became.expires_at == event.expires_at
    )
