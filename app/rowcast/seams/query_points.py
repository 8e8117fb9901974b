"""The seam of live queries: what a filter that selects by conditions needs; here it is refused.

The feature ``live_queries`` extends ``QueryPoints``, and replaces ``Kernel.queries``.
"""

from typing import Protocol

from rowcast.bus.subscriber import Subscriber
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters


class QueryReader(Subscriber, Protocol):
    """The part of a subscription used here."""

    interests: SubscribedFilters
    caller: Caller
    stage: Stage | None

    @property
    def position(self) -> int:
        """The position up to which all logged events were delivered."""

    def begin_anew(self, interests: list[SubscribedFilter], reason: str) -> None:
        """Send some filters a RESET, and then the current records."""

    def go_on_after(self, window: SubscribedFilter, position: int) -> None:
        """Send what happened to a window after a position, which was not offered."""


class QueryPoints:
    """What the kernel asks about live queries."""

    def plan(self, interest: SubscribedFilter, caller: Caller) -> None:  # noqa: ARG002
        """Set the query that an interest names; raises an Error for one that cannot be."""
        raise Error(
            Code.UNSUPPORTED,
            f"this server has no live queries; subscribe to the table instead of "
            f"{interest.topics.text[:200]!r}",
            filter=interest.topics.text,
        )

    def enter(self, reader: QueryReader, interest: SubscribedFilter) -> None:
        """Offer the events that concern a query to its reader from now on; raises BUSY."""

    def leave(self, reader: QueryReader, interest: SubscribedFilter) -> None:
        """Offer them no longer."""

    def stage(self, _reader: QueryReader, _caller: Caller, inner: Stage | None, /) -> Stage | None:
        """Return the stage of a reader with live queries, around its stage for other filters."""
        return inner
