"""What hooks let a reader have of the events that it watches, and as what.

It exists only where a hook decides what is read, or looks at what is delivered (G6, G8). An event
is shared by all readers, so a hook is shown a copy, and only a copy that it changed is sent in the
event's place. The order is that of D65: may it be read, at which QoS, what becomes of it. Hooks are
shown what the caller's rights let through. It knows no queue and no position.
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
        """Tell whether the caller may know that there was an event."""
        return self._hooks.may_read(self._caller, event.topic)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return what goes through, in order; marks, which have no topic, always do."""
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
        """Return what the reader is sent of an event: itself, a changed copy, or nothing."""
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
