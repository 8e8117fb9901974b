"""An index of the filters of one subscription that has many of them.

Without it each new topic would be compared with every filter, which takes milliseconds for ten
thousand. It knows the texts of filters, and nothing of their options.
"""

from collections.abc import Iterable, Iterator
from itertools import count

from rowcast.bus.trie import Trie
from rowcast.core.topics import TopicFilter


class FilterIndex:
    """The texts of filters, found by topic in the order in which they were added."""

    __slots__ = ("_numbers", "_texts", "_trie", "_unused")

    def __init__(self, filters: Iterable[TopicFilter] = ()) -> None:
        self._trie: Trie[int] = Trie()
        self._texts: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._unused = count()
        for topics in filters:
            self.add(topics)

    def add(self, topics: TopicFilter) -> None:
        """Add a filter; one that is there keeps its place."""
        if topics.text not in self._numbers:
            number = self._numbers[topics.text] = next(self._unused)
            self._texts[number] = topics.text
            self._trie.add(topics, number)

    def remove(self, topics: TopicFilter) -> None:
        """Remove a filter, if it is there."""
        number = self._numbers.pop(topics.text, None)
        if number is not None:
            del self._texts[number]
            self._trie.remove(topics, number)

    def find(self, topic: str) -> Iterator[str]:
        """Yield the texts of the filters that match a topic."""
        return map(self._texts.__getitem__, sorted(self._trie.match(topic)))
