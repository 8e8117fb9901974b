"""The seam of replays: what a filter that names a part of the past needs; here it is refused.

The feature ``replay`` extends ``ReplayPoints``, and replaces ``Views.replays``.
"""

from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.seams.query_points import QueryReader
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.stage import Stage
from rowcast.subscriptions.subscribed_filter import SubscribedFilter


class ReplayReader(QueryReader, Protocol):
    """The part of a subscription used here."""

    queue: EventQueue
    closed: bool

    def signal(self) -> None:
        """Notify the reader that there are events."""


class ReplayPoints:
    """What the kernel asks about replays."""

    def plan(self, interest: SubscribedFilter, caller: Caller) -> None:  # noqa: ARG002
        """Set the replay that an interest names; raises an Error for one that cannot be."""
        raise Error(
            Code.UNSUPPORTED,
            f"this server replays nothing; read the past of {interest.topics.text[:200]!r} with "
            "from, to and asof over REST",
            filter=interest.topics.text,
        )

    async def find(self, interest: SubscribedFilter) -> None:
        """Find the positions of a planned replay in the log; raises INVALID, GONE."""

    def enter(self, reader: ReplayReader, interest: SubscribedFilter) -> None:
        """Begin a replay to a reader; raises BUSY."""

    def leave(self, reader: ReplayReader, interest: SubscribedFilter) -> None:
        """End it."""

    def stage(self, plain: Stage | None, inner: Stage | None, /) -> Stage | None:  # noqa: ARG002
        """Return the stage of a reader with replays.

        ``plain`` shows a caller single events; ``inner`` is the stage for other filters.
        """
        return inner
