"""Synced topics: those that bridges keep equal at several sites (K3)."""

from collections.abc import Callable

from rowcast.bus.durable_filters import DurableFilters
from rowcast.core.topics import TopicFilter


class SyncedTopics:
    """The filters of synced topics, each counted as often as it was added."""

    def __init__(self) -> None:
        self._filters = DurableFilters()
        self._known: list[TopicFilter] = []
        self.on_change: list[Callable[[], None]] = []
        """Called when there are some for the first time, and when there are none any more."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, topics: TopicFilter) -> None:
        """Keep what the filter selects equal from now on."""
        self._filters.add(topics)
        self._set_known([*self._known, topics])

    def remove(self, topics: TopicFilter) -> None:
        """Take back one ``add`` of this filter."""
        self._filters.remove(topics)
        left = list(self._known)
        left.remove(topics)
        self._set_known(left)

    def has(self, topic: str) -> bool:
        """Whether a topic is one of them."""
        return self._filters.wanted(topic)

    def concern(self, topics: TopicFilter) -> bool:
        """Whether a topic that a filter selects may be one of them."""
        return any(topics.overlaps(known) for known in self._known)

    def _set_known(self, known: list[TopicFilter]) -> None:
        changed = bool(known) is not bool(self)
        self._known = known
        for call in self.on_change if changed else ():
            call()
