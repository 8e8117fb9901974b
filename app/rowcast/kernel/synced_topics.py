"""Synced topics: those that bridges keep equal at several sites (K3)."""

from collections.abc import Callable

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.topics import TopicFilter


class SyncedTopics:
    """The filters of synced topics, each counted as often as it was added."""

    def __init__(self) -> None:
        self._filters = DurableFilters()
        self._count = 0
        self.on_change: list[Callable[[], None]] = []
        """Called when there are some for the first time, and when there are none any more."""

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, topics: TopicFilter) -> None:
        """Keep what the filter selects equal from now on."""
        self._filters.add(topics)
        self._set_count(self._count + 1)

    def remove(self, topics: TopicFilter) -> None:
        """Take back one ``add`` of this filter."""
        self._filters.remove(topics)
        self._set_count(self._count - 1)

    def has(self, topic: str) -> bool:
        """Whether a topic is one of them."""
        return self._filters.wanted(topic)

    def _set_count(self, count: int) -> None:
        changed = (count > 0) is not bool(self)
        self._count = count
        for call in self.on_change if changed else ():
            call()
