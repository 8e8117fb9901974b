"""Filters of durable sessions: they select the messages that must be logged.

A session that outlives its connection keeps only a position, so its messages must be in the log
when the client reconnects. A message of QoS above 0 that one of these filters selects is logged,
whatever its table declares. Without such filters the check costs nothing.
"""

from collections.abc import Callable

from rowcast.bus.matches import Matches
from rowcast.core.topics import TopicFilter


class DurableFilters:
    """The filters of all durable readers, each counted as often as it was added."""

    __slots__ = ("_counts", "_matches", "on_change")

    def __init__(self) -> None:
        self.on_change: Callable[[TopicFilter, bool], None] = _nobody
        """Called when a filter is there for the first time, with True, and gone, with False."""
        self._counts: dict[str, int] = {}
        self._matches: Matches[None] = Matches()

    def add(self, topics: TopicFilter) -> None:
        """Log what the filter selects from now on. Pass a shared filter without its group."""
        count = self._counts.get(topics.text, 0)
        self._counts[topics.text] = count + 1
        if not count:
            self._matches.add(topics, None)
            self.on_change(topics, True)

    def remove(self, topics: TopicFilter) -> None:
        """Take back one ``add`` of this filter; the last of them ends the logging for it."""
        left = self._counts[topics.text] - 1
        if left:
            self._counts[topics.text] = left
        else:
            del self._counts[topics.text]
            self._matches.remove(topics, None)
            self.on_change(topics, False)

    def texts(self) -> list[str]:
        """Return all filters, each once."""
        return list(self._counts)

    def wanted(self, topic: str) -> bool:
        """Whether any filter selects the topic."""
        return bool(self._counts) and bool(self._matches.match(topic))


def _nobody(_topics: TopicFilter, _wanted: bool, /) -> None:
    """Tell nobody."""
