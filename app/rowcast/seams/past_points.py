"""The seam of the past: what a replay needs of the log and the records before; here it is refused.

The feature ``history`` extends ``PastPoints``, and replaces ``Seams.past``.
"""

from collections.abc import AsyncIterator

from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.moments import Moment
from rowcast.core.topics import TopicFilter


class PastPoints:
    """What the kernel asks about the past; callers are not checked here."""

    async def place(
        self,
        topics: TopicFilter,  # noqa: ARG002
        moment: Moment,  # noqa: ARG002
        *,
        kept: bool = True,  # noqa: ARG002
    ) -> int:
        """Return the position before the first event of a moment at a filter's topics.

        Raises GONE for a cursor of another log; with ``kept``, for one whose events were trimmed.
        """
        raise _refused()

    def then(
        self,
        topics: TopicFilter,  # noqa: ARG002
        position: int,  # noqa: ARG002
    ) -> AsyncIterator[list[Record]]:
        """Yield the records as of a position that a filter selects; raises GONE, TOO_LARGE."""
        raise _refused()

    def gone(self, what: str, trimmed: int) -> Error:  # noqa: ARG002
        """Return the GONE Error for trimmed events."""
        raise _refused()


def _refused() -> Error:
    return Error(
        Code.UNSUPPORTED,
        "reads of past events are not available: they need the feature history, which is not "
        "installed",
    )
