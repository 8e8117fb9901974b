"""A subscription that tells a backlog of all that it is offered, whether it has room or not."""

from collections.abc import Callable

from app.core.events import Event
from app.core.limits import LOG_PAGE_EVENTS
from app.engine.branches.topic_rows import Row
from app.engine.reader import Reader
from app.engine.watch.subscription import Subscription
from app.gateway.backlog import NOTHING, Backlog, Waiting
from app.gateway.outbox import Outbox


class Counted(Subscription):
    """A bridge's cursor."""

    def __init__(
        self,
        reader: Reader,
        client_id: str,
        on_ready: Callable[[], None],
        backlog: Backlog,
        outbox: Outbox,
    ) -> None:
        super().__init__(reader, client_id, on_ready)
        self._backlog = backlog
        self._outbox = outbox
        self.cold = False
        """Whether it reads everything from the log."""

    @property
    def from_memory(self) -> bool:
        """Whether what comes next is in memory, and not to be read from the log."""
        return not (self._behind or self._page or self._task or self._preludes)

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
