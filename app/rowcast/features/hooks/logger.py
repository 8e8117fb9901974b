"""The logger: connects, disconnects, subscriptions and, optionally, publishes (G20).

Untrusted text is formatted with ``%r``, so that it cannot forge a line of the log.
"""

import logging

from rowcast.core.callers import Caller
from rowcast.core.events import Event
from rowcast.features.hooks.hook import Hook
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

log = logging.getLogger("rowcast.access")


class Logger(Hook):
    """Writes lines at level INFO; ``publishes``: also one for each requested write."""

    id = "logger"

    def __init__(self, *, publishes: bool) -> None:
        self._publishes = publishes

    def provides(self, point: str) -> bool:
        """Listen to writes only if they are logged."""
        return super().provides(point) and (self._publishes or point != "on_publish")

    def on_connected(self, caller: Caller) -> None:
        """Log a connect."""
        log.info("%s connected over %s", _who(caller), caller.door)

    def on_disconnect(self, caller: Caller, error: str | None) -> None:
        """Log a disconnect with its reason."""
        log.info("%s disconnected: %s", _who(caller), error or "it wished to")

    def on_subscribe(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Log a subscription."""
        log.info("%s subscribes to %r", _who(caller), interest.topics.text)

    def on_publish(self, caller: Caller, event: Event) -> None:
        """Log a write without its payload."""
        size = len(event.payload)
        log.info("%s: %s of %d bytes to %r", _who(caller), event.kind, size, event.topic)


def _who(caller: Caller) -> str:
    client = f" as {caller.client_id!r}" if caller.client_id else ""
    return f"{caller.user!r}{client} from {caller.peer or 'here'}"
