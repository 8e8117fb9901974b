"""The bus: offers an event to every subscriber whose filter matches.

It is synchronous and stores nothing but subscribers: the log is the memory, and the bus is a
cache of the log's head.

It knows nothing of positions, permissions, protocols or disks.
"""

import logging
from collections.abc import Callable

from rowcast.bus.matches import Matches
from rowcast.bus.missed_while_offline import MissedWhileOffline
from rowcast.bus.subscriber import Subscriber
from rowcast.core.events import Event
from rowcast.core.limits import MATCH_CACHE_TOPICS_MAX

log = logging.getLogger("rowcast.bus")


class Bus(Matches[Subscriber]):
    """Subscribers by topic filter. From ``add`` on a subscriber misses no event."""

    __slots__ = ("absences",)

    def __init__(self, cached_max: int = MATCH_CACHE_TOPICS_MAX) -> None:
        super().__init__(cached_max)
        self.absences = MissedWhileOffline()
        """Readers that are away, for whom unlogged events are counted."""

    @property
    def subscriptions(self) -> int:
        """How many (filter, subscriber) pairs there are."""
        return len(self._trie)

    def publish(self, event: Event) -> None:
        """Offer the event to every subscriber whose filter matches its topic."""
        found = self._cache.get(event.topic)  # nearly always known: a call less for each event
        for subscriber in self.match(event.topic) if found is None else found:
            try:
                subscriber.offer(event)
            except Exception:  # its own mistake: neither the others nor the writer pay for it
                log.exception("a subscriber failed to take an event of %r", event.topic)
        if not event.seq and self.absences.by_filters:
            self.absences.miss(event)

    def publish_run(self, events: list[Event]) -> None:
        """Offer events of one topic, each subscriber all of them; none of them is logged."""
        topic = events[0].topic
        size = sum([len(event.payload) for event in events])
        for subscriber in self.match(topic):
            try:
                subscriber.offer_run(events, size)
            except Exception:
                log.exception("a subscriber failed to take %d events of %r", len(events), topic)
        if self.absences.by_filters:
            for event in events:
                self.absences.miss(event)

    def fall_behind(self, event: Event, path: str, has: Callable[[str], bool]) -> None:
        """Tell whom it concerns that the log has events below a path that are not offered.

        ``event`` is the first of them; ``has`` tells whether one of them is at a topic.
        """
        for subscriber in self._trie.match_below(path, has):
            try:
                subscriber.fall_behind(event)
            except Exception:
                log.exception("a subscriber failed to fall behind at %r", event.topic)

    def named(self, path: str, rest: str) -> tuple[Subscriber, ...]:
        """Return those whose filters name a path without wildcards, and select what is below it."""
        return self._trie.match_named(path, rest)

    def names(self, path: str) -> bool:
        """Return whether a filter names a path without wildcards, or something below it."""
        return self._trie.names(path)

    def show(self, event: Event, path: str) -> None:
        """Offer the event to those alone whose filters name the path that it is below."""
        for subscriber in self.named(path, event.topic[len(path) + 1 :]):
            try:
                subscriber.offer(event)
            except Exception:
                log.exception("a subscriber failed to take a row at %r", event.topic)
