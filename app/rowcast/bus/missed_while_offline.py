"""Counts the unlogged events that disconnected sessions miss (M4).

A disconnected session is not on the bus; logged events wait for it in the log. Unlogged events are
only counted, once for all sessions with the same filters, to report a gap after the reconnect.
Logged events cost nothing here, and nothing costs anything while every session is connected.
"""

from collections.abc import Callable, Iterable

from rowcast.bus.matches import Matches
from rowcast.core.events import Event
from rowcast.core.topics import TopicFilter

Counts = Callable[[Event], bool]


class Absence:
    """Counts of the events that one set of filters selected."""

    __slots__ = ("_counts", "filters", "key", "missed", "readers")

    def __init__(
        self, key: object, filters: tuple[TopicFilter, ...], counts: Counts | None
    ) -> None:
        self.key = key
        self.filters = filters
        self._counts = counts
        self.missed = 0
        self.readers = 0

    def miss(self, event: Event) -> None:
        """Count an event, if it is one of those that count."""
        if self._counts is None or self._counts(event):
            self.missed += 1


class OfflineSessions:
    """One reader's absence: from now until ``MissedWhileOffline.end``."""

    __slots__ = ("_before", "absence")

    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self._before = absence.missed

    @property
    def missed(self) -> int:
        """How many events it missed so far."""
        return self.absence.missed - self._before


class MissedWhileOffline:
    """All readers that are away, by the set of their filters."""

    __slots__ = ("_matches", "by_filters")

    def __init__(self) -> None:
        self.by_filters: dict[object, Absence] = {}
        """Who is away; looked at for each unlogged event, so without a call."""
        self._matches: Matches[Absence] = Matches()

    def __len__(self) -> int:
        return len(self.by_filters)

    def begin(
        self, filters: Iterable[TopicFilter], counts: Counts | None = None
    ) -> OfflineSessions:
        """Count the events that these filters select; ``counts`` restricts them further.

        An absence with ``counts`` is its reader's own; the others are shared.
        """
        wanted = tuple(filters)
        key: object = frozenset(item.text for item in wanted) if counts is None else object()
        absence = self.by_filters.get(key)
        if absence is None:
            absence = self.by_filters[key] = Absence(key, wanted, counts)
            for topics in wanted:
                self._matches.add(topics, absence)
        absence.readers += 1
        return OfflineSessions(absence)

    def end(self, away: OfflineSessions) -> int:
        """See a reader back, or gone for good; return how many events it missed."""
        absence = away.absence
        absence.readers -= 1
        if not absence.readers:
            del self.by_filters[absence.key]
            for topics in absence.filters:
                self._matches.remove(topics, absence)
        return away.missed

    def miss(self, event: Event) -> None:
        """Count an unlogged event for the sessions that would have received it."""
        for absence in self._matches.match(event.topic):
            absence.miss(event)
