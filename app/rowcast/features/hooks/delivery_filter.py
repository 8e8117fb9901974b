"""The gate between a subscription and its reader: rights and hooks say what goes through, as what.

It exists only where rules are about the reader, or where a hook decides what is read or looks at
what is delivered (G6, G8, M9). What rights make of an event comes before all hooks. An
event is shared by all readers, so a hook is shown a copy, and only a copy that it changed is sent
in the event's place. The order is that of D65: may it be read, at which QoS, what becomes of it.
It knows no queue and no position.
"""

from copy import deepcopy
from typing import TYPE_CHECKING

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.hooks.hooks import Hooks
from rowcast.kernel.watch.subscribed_filters import Pair

if TYPE_CHECKING:
    from rowcast.features.rights.rights import Rights


class Gate:
    """What one caller is let have."""

    __slots__ = ("_caller", "_hooks", "_rights")

    def __init__(self, rights: "Rights", hooks: Hooks, caller: Caller) -> None:
        self._rights = rights
        self._hooks = hooks
        self._caller = caller

    @classmethod
    def between(cls, rights: "Rights", hooks: Hooks, caller: Caller) -> "Gate | None":
        """Return what stands between events and a caller; nothing, if nobody looks at reads."""
        if hooks.delivering or rights.sight(caller) is not None:
            return cls(rights, hooks, caller)
        return None

    @property
    def compares(self) -> bool:
        """Whether what an event is to the caller depends on what it saw before."""
        return self._rights.sight(self._caller) is not None

    def counts(self, event: Event) -> bool:
        """Tell whether the caller may know that there was an event."""
        if self._rights.shown(self._caller, event) is None:
            return False
        return self._hooks.may_read(self._caller, event.topic)

    def pass_on(self, pairs: list[Pair]) -> list[Pair]:
        """Return what goes through, in order; marks, which have no topic, always do."""
        sight = self._rights.sight(self._caller)
        if sight is not None and not self._hooks.delivering:
            untouched = sight.untouched
            if all(untouched(event) for event, _ in pairs):
                return pairs
        through = []
        for pair in pairs:
            event, interest = pair
            if event.topic and interest is not None:
                became = self.show(event, interest.qos)
                if became is None:
                    continue
                pair = became, interest  # noqa: PLW2901 - the same pair, as it goes on
            through.append(pair)
        return through

    def show(self, event: Event, granted: int) -> Event | None:
        """Return what the reader is sent of an event: itself, a changed copy, or nothing."""
        seen = self._rights.shown(self._caller, event)
        if seen is None or not self._hooks.delivering:
            return seen
        event = seen
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
