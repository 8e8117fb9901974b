"""The part of a subscription that catch-up uses.

A subscription has its catch-up, which in turn reads and moves its position: this is what each may
know of the other, without a circle of imports.
"""

from typing import Protocol

from rowcast.core.events import Event
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.gaps import LossCounter
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import SubscribedFilters


class LiveCursor(Protocol):
    """The part of a subscription that catch-up uses."""

    client_id: str
    interests: SubscribedFilters
    queue: EventQueue
    progress: Progress
    losses: LossCounter
    stage: Stage | None
    closed: bool

    @property
    def settled(self) -> int:
        """The position to continue from."""

    def counts(self, event: Event) -> bool:
        """Whether a skipped event counts as a gap for the reader."""

    def sees(self, event: Event) -> bool:
        """Whether the reader may learn that an event existed."""

    def page_read(self) -> None:
        """Callback: a page was fetched, or failed."""
