"""A cache of the subscribers of each topic, until a filter changes.

A steady state costs one dictionary lookup for each event. It knows filters and opaque subscribers;
it knows nothing of events.
"""

from typing import Generic

from rowcast.bus.trie import S, Trie
from rowcast.core.bounded import ClearedCache
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.topics import TopicFilter


class Matches(Generic[S]):
    """A set of (filter, subscriber) pairs with a cache of its answers."""

    __slots__ = ("_cache", "_trie")

    def __init__(self, cached_max: int = MATCH_CACHE_TOPICS_MAX) -> None:
        self._trie: Trie[S] = Trie()
        self._cache: ClearedCache[str, tuple[S, ...]] = ClearedCache(cached_max)

    def add(self, topics: TopicFilter, subscriber: S) -> bool:
        """Add the pair; return whether it is new."""
        added = self._trie.add(topics, subscriber)
        self._forget(topics)
        return added

    def remove(self, topics: TopicFilter, subscriber: S) -> bool:
        """Remove the pair; return whether it was there."""
        removed = self._trie.remove(topics, subscriber)
        self._forget(topics)
        return removed

    def _forget(self, topics: TopicFilter) -> None:
        if topics.exact:
            self._cache.pop(topics.text, None)
        else:
            self._cache.clear()

    def match(self, topic: str) -> tuple[S, ...]:
        """Return the subscribers of this topic, each once."""
        found = self._cache.get(topic)
        if found is None:
            found = self._trie.match(topic)
            if len(topic) <= TOPIC_CACHED_BYTES_MAX:  # a stranger's topics have up to 64 KB
                self._cache.put(topic, found)
        return found
