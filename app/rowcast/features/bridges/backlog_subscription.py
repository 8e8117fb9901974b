"""A subscription that tells a backlog of all that it is offered, whether it has room or not."""

from collections.abc import Callable

from rowcast.core.events import Event
from rowcast.core.gateway_limits import GATEWAY_QUEUE_EVENTS
from rowcast.core.limits import LOG_PAGE_EVENTS
from rowcast.features.bridges.backlog import NOTHING, Backlog, Waiting
from rowcast.features.bridges.outbox import Outbox
from rowcast.kernel.reader import Reader
from rowcast.kernel.watch.subscription import Subscription
from rowcast.rows.topic_rows import Row


class Counted(Subscription):
    """A bridge's cursor."""

    def __init__(
        self,
        reader: Reader,
        client_id: str,
        on_ready: Callable[[], None],
        backlog: Backlog,
        outbox: Outbox,
        queue_size: int = 0,
    ) -> None:
        super().__init__(reader, client_id, on_ready)
        self._usual = queue_size or reader.queue_events or GATEWAY_QUEUE_EVENTS, reader.queue_bytes
        self._late_since: float | None = None
        """Since when memory has not held what comes."""
        self.hold_at_most(0, 0)
        self._backlog = backlog
        self._outbox = outbox
        self.cold = False
        """Whether it reads everything from the log."""

    @property
    def from_memory(self) -> bool:
        """Whether what comes next is in memory, and not to be read from the log."""
        return not (self._behind or self._page or self._task or self._preludes)

    def keeps_up(self, now: float, patience_seconds: float) -> bool:
        """Tell whether memory holds what comes, or has not for a short time only."""
        if self.from_memory:
            self._late_since = None
            return True
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since < patience_seconds

    def hold_at_most(self, events: int, size: int) -> None:
        """Let so much wait; 0 is what is usual for a bridge."""
        usual, usual_bytes = self._usual
        super().hold_at_most(min(events or usual, usual), size or usual_bytes)

    async def waiting_between(self, since: int, until: int) -> list[Waiting]:
        """Return what counts of the events that it wants between two places of the log."""
        found: list[Waiting] = []
        while since < until and self.interests:
            needs = list(self.interests.needs(since))
            page = await self._reader.page(since, LOG_PAGE_EVENTS, needs)
            found += (
                waiting(event)
                for event in page.events
                if event.seq <= until and self.interests.wanting(event, self.client_id) is not None
            )
            since = max(page.upto, since + 1)
        return found

    def offer(self, event: Event) -> None:
        """Count an event that is logged and not its own, and take it."""
        if event.seq and event.client != self.client_id:
            held = self._outbox.waits if self._backlog.caps.some else NOTHING
            self._backlog.add(waiting(event), held)
        if self.cold and event.seq:
            self._behind = True
            self._signal()
        else:
            super().offer(event)


def waiting(event: Event) -> Waiting:
    """Return what counts of an event."""
    topic = event.about if isinstance(event, Row) else event.topic
    return Waiting(event.seq, event.version, len(event.payload), topic)
