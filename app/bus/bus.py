"""The bus: offers an event to every subscriber whose filter matches.

It is synchronous and remembers nothing but who listens: the log is the memory, and the bus is a
cache of the log's head (DESIGN, section 1). Matches are cached for each topic and forgotten when
subscriptions change, so a steady state costs one dictionary lookup for each event.

It knows nothing of positions, permissions, protocols or disks.
"""

import logging
from typing import Protocol

from app.bus.trie import Trie
from app.core.events import Event
from app.core.limits import MATCH_CACHE_TOPICS_MAX, TOPIC_CACHED_BYTES_MAX
from app.core.topics import TopicFilter

log = logging.getLogger("rowcast.bus")


class Subscriber(Protocol):
    """Whoever takes events; ``offer`` must not block, raise or call back into the bus."""

    def offer(self, event: Event) -> None:
        """Take an event or refuse it."""


class Bus:
    """Subscribers by topic filter."""

    __slots__ = ("_cache", "_trie", "generation")

    def __init__(self) -> None:
        self._trie: Trie[Subscriber] = Trie()
        self._cache: dict[str, tuple[Subscriber, ...]] = {}
        self.generation = 0
        """Counts subscription changes, so that others can cache what they derive from matches."""

    @property
    def subscriptions(self) -> int:
        """How many (filter, subscriber) pairs there are."""
        return len(self._trie)

    def add(self, topics: TopicFilter, subscriber: Subscriber) -> bool:
        """Begin to offer: nothing is missed from now on. Return whether it is new."""
        added = self._trie.add(topics, subscriber)
        self._forget(topics)
        return added

    def remove(self, topics: TopicFilter, subscriber: Subscriber) -> bool:
        """Stop to offer; return whether it was there."""
        removed = self._trie.remove(topics, subscriber)
        self._forget(topics)
        return removed

    def _forget(self, topics: TopicFilter) -> None:
        self.generation += 1
        if topics.exact:
            self._cache.pop(topics.text, None)
        else:
            self._cache.clear()

    def match(self, topic: str) -> tuple[Subscriber, ...]:
        """Return who wants this topic, each once."""
        found = self._cache.get(topic)
        if found is None:
            found = self._trie.match(topic)
            if len(self._cache) >= MATCH_CACHE_TOPICS_MAX:
                self._cache.clear()
            if len(topic) <= TOPIC_CACHED_BYTES_MAX:  # a stranger's topics have up to 64 KB
                self._cache[topic] = found
        return found

    def publish(self, event: Event) -> None:
        """Offer the event to everyone who wants its topic."""
        for subscriber in self.match(event.topic):
            try:
                subscriber.offer(event)
            except Exception:  # its own mistake: neither the others nor the writer pay for it
                log.exception("a subscriber failed to take an event of %r", event.topic)
