"""A bridge's cursor on the log; counts every offered event, queued or not."""

from collections.abc import Callable

from rowcast.core.events import Event
from rowcast.core.gateway_limits import GATEWAY_QUEUE_EVENTS
from rowcast.features.bridges.backlog import NOTHING, Backlog, Waiting
from rowcast.features.bridges.outbox import Outbox
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscription import Subscription


class BridgeCursor:
    """The subscription of a bridge, with its backlog."""

    def __init__(
        self,
        reader: Reader,
        client_id: str,
        on_ready: Callable[[], None],
        backlog: Backlog,
        outbox: Outbox,
        *,
        cold: bool = False,
        queue_size: int = 0,
    ) -> None:
        """``cold``: read everything from the log. ``queue_size``: events in memory; 0: default."""
        self.subscription = Subscription(
            reader,
            client_id,
            on_ready,
            on_offer=self._offered,
            queue_events_max=queue_size or reader.queue_events or GATEWAY_QUEUE_EVENTS,
        )
        self._reader = reader
        self._backlog = backlog
        self._outbox = outbox
        self._cold = cold
        self._late_since: float | None = None
        """The time since when the queue has been overflowing."""

    def keeps_up(self, now: float, patience_seconds: float) -> bool:
        """Whether the queue keeps up, or has overflowed only for a short time."""
        if self.subscription.from_memory:
            self._late_since = None
            return True
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since < patience_seconds

    async def waiting_between(self, since: int, until: int) -> list[Waiting]:
        """Return the counted properties of matching events between two positions."""
        found: list[Waiting] = []
        filters, client_id = self.subscription.interests, self.subscription.client_id
        while since < until and filters:
            needs = list(filters.needs(since))
            page = await self._reader.page(since, self._reader.log_page_events, needs)
            found += (
                waiting(event)
                for event in page.events
                if event.seq <= until and filters.wanting(event, client_id) is not None
            )
            since = max(page.upto, since + 1)
        return found

    def _offered(self, event: Event) -> bool:
        """Count a logged event that is not its own; return whether to queue it."""
        if event.seq and event.client != self.subscription.client_id:
            held = self._outbox.waits if self._backlog.caps.some else NOTHING
            self._backlog.add(waiting(event), held)
        return not self._cold


def waiting(event: Event) -> Waiting:
    """Return the counted properties of an event."""
    topic = event.about if isinstance(event, Row) else event.topic
    return Waiting(event.seq, event.version, len(event.payload), topic)
