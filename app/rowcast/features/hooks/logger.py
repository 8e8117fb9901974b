"""The logger: who connects and disconnects, subscribes and, if wished, publishes (G20).

What strangers have chosen is written with ``%r``, so that it cannot forge a line of the log.
"""

import logging

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

log = logging.getLogger("rowcast.access")


class Logger(Hook):
    """Writes lines at level info; ``publishes``: also one for each write that was asked for."""

    id = "logger"

    def __init__(self, *, publishes: bool) -> None:
        self._publishes = publishes

    def provides(self, point: str) -> bool:
        """Hear of writes only if they are to be told."""
        return super().provides(point) and (self._publishes or point != "on_publish")

    def on_connected(self, caller: Caller) -> None:
        """Tell who came."""
        log.info("%s connected over %s", _who(caller), caller.door)

    def on_disconnect(self, caller: Caller, error: str | None) -> None:
        """Tell who went, and why."""
        log.info("%s disconnected: %s", _who(caller), error or "it wished to")

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Tell who asks for what."""
        log.info("%s subscribes to %r", _who(caller), interest.topics.text)

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Tell who writes what, not the payload."""
        size = len(event.payload)
        log.info("%s: %s of %d bytes to %r", _who(caller), event.kind, size, event.topic)


def _who(caller: Caller) -> str:
    client = f" as {caller.client_id!r}" if caller.client_id else ""
    return f"{caller.user!r}{client} from {caller.peer or 'here'}"
