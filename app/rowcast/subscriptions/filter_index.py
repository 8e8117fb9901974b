"""An index of the filters of one subscription that has many of them.

Without it each new topic would be compared with every filter, which takes milliseconds for ten
thousand. It knows the texts of filters and which topics they select, and nothing of their options.
"""

from collections.abc import Iterator
from itertools import count

from rowcast.bus.trie import Trie
from rowcast.core.topics import TopicFilter


class FilterIndex:
    """The texts of filters, found by topic in the order in which they were added."""

    __slots__ = ("_places", "_texts", "_trie", "_unused")

    def __init__(self) -> None:
        self._trie: Trie[int] = Trie()
        self._texts: dict[int, str] = {}
        self._places: dict[str, tuple[int, TopicFilter]] = {}
        """By its text, the number of a filter and the topics that it is found by."""
        self._unused = count()

    def add(self, text: str, topics: TopicFilter) -> None:
        """Add a filter that selects these topics; one that is there keeps its place."""
        known = self._places.get(text)
        if known is not None and known[1].text == topics.text:
            return
        number = next(self._unused) if known is None else known[0]
        if known is not None:
            self._trie.remove(known[1], number)
        self._places[text] = number, topics
        self._texts[number] = text
        self._trie.add(topics, number)

    def remove(self, text: str) -> None:
        """Remove a filter, if it is there."""
        known = self._places.pop(text, None)
        if known is not None:
            del self._texts[known[0]]
            self._trie.remove(known[1], known[0])

    def find(self, topic: str) -> Iterator[str]:
        """Yield the texts of the filters that match a topic."""
        return map(self._texts.__getitem__, sorted(self._trie.match(topic)))
