"""An index of the filters of one subscription that has many of them.

Without it each new topic would be compared with every filter, which takes milliseconds for ten
thousand. It knows the texts of filters, and nothing of their options.
"""

from collections.abc import Iterable

from rowcast.bus.trie import Trie
from rowcast.core.topics import TopicFilter


class FilterIndex:
    """The texts of filters, found by topic in the order in which they were added."""

    __slots__ = ("_next", "_ranks", "_trie")

    def __init__(self, filters: Iterable[TopicFilter] = ()) -> None:
        self._trie: Trie[str] = Trie()
        self._ranks: dict[str, int] = {}
        self._next = 0
        for topics in filters:
            self.add(topics)

    def add(self, topics: TopicFilter) -> None:
        """Add a filter; one that is there keeps its place."""
        if self._trie.add(topics, topics.text):
            self._ranks[topics.text] = self._next
            self._next += 1

    def remove(self, topics: TopicFilter) -> None:
        """Remove a filter, if it is there."""
        if self._trie.remove(topics, topics.text):
            del self._ranks[topics.text]

    def find(self, topic: str) -> list[str]:
        """Return the texts of the filters that match a topic."""
        return sorted(self._trie.match(topic), key=self._ranks.__getitem__)
