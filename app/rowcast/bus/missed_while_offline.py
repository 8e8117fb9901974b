"""Counts the unlogged events that disconnected sessions miss (M4).

A disconnected session is not on the bus; logged events wait for it in the log. Unlogged events are
only counted, once for all sessions with the same filters, to report a gap after the reconnect.
Logged events cost nothing here, and nothing costs anything while every session is connected.

A session may have ten thousand filters, which take a tenth of a second to enter: ``walk`` may do so
in slices. Until one is entered, its events are looked for by itself, so each counts once.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from rowcast.bus.matches import Matches
from rowcast.core.events import Event
from rowcast.core.topics import TopicFilter

Counts = Callable[[Event], bool]
Walk = Callable[[Sequence[TopicFilter], Callable[[TopicFilter], None]], None]
"""Calls a function with each filter, in order, now or in later turns of the loop."""


def at_once(filters: Sequence[TopicFilter], call: Callable[[TopicFilter], None]) -> None:
    """Call a function with each filter now."""
    for topics in filters:
        call(topics)


_NO_TEXTS: Final[set[str]] = set()
_NO_FILTERS: Final[dict[str, dict[str, TopicFilter]]] = {}
"""Of all whose filters are entered; nothing is put in."""


class Absence:
    """Counts of the events that one set of filters selected."""

    __slots__ = ("_counts", "_wild", "entering", "filters", "key", "missed", "readers")

    def __init__(
        self, key: object, filters: tuple[TopicFilter, ...], counts: Counts | None
    ) -> None:
        self.key = key
        self.filters = filters
        self._counts = counts
        self.missed = 0
        self.readers = 0
        self.entering = {item.text for item in filters}
        """The texts of its filters that are still to be entered."""
        self._wild: dict[str, dict[str, TopicFilter]] = {}
        """Those of them with wildcards, by their literal prefixes, and texts."""
        for topics in filters:
            if not topics.exact:
                self._wild.setdefault(topics.prefix, {})[topics.text] = topics

    def miss(self, event: Event) -> None:
        """Count an event, if it is one of those that count."""
        if self._counts is None or self._counts(event):
            self.missed += 1

    def waits_for(self, topic: str) -> bool:
        """Whether a filter that is still to be entered selects a topic."""
        if topic in self.entering:
            return True
        ends = [0, len(topic)]
        for at, letter in enumerate(topic):
            if letter == "/":
                ends += (at, at + 1)
        for prefix in {topic[:end] for end in ends}:
            for item in self._wild.get(prefix, {}).values():
                if item.matches(topic):
                    return True
        return False

    def entered(self, topics: TopicFilter) -> bool:
        """Note that a filter is being entered; return whether it was still to be."""
        if topics.text not in self.entering:
            return False
        self.entering.discard(topics.text)
        if not self.entering:  # as nearly always: who is away for long needs no memory for it
            self.entering, self._wild = _NO_TEXTS, _NO_FILTERS
        elif not topics.exact:
            self._wild[topics.prefix].pop(topics.text, None)
        return True


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

    __slots__ = ("_entering", "_matches", "by_filters", "walk")

    def __init__(self) -> None:
        self.by_filters: dict[object, Absence] = {}
        """Who is away; looked at for each unlogged event, so without a call."""
        self._matches: Matches[Absence] = Matches()
        self._entering: dict[Absence, None] = {}
        """Those with filters that are still to be entered."""
        self.walk: Walk = at_once
        """How many filters are entered, or removed."""

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
            self._entering[absence] = None
            self.walk(wanted, partial(self._enter, absence))
        absence.readers += 1
        return OfflineSessions(absence)

    def end(self, away: OfflineSessions) -> int:
        """See a reader back, or gone for good; return how many events it missed."""
        absence = away.absence
        absence.readers -= 1
        if not absence.readers:
            del self.by_filters[absence.key]
            self._entering.pop(absence, None)
            absence.entering.clear()
            self.walk(absence.filters, partial(self._remove, absence))
        return away.missed

    def _enter(self, absence: Absence, topics: TopicFilter) -> None:
        """Enter a filter, unless its absence is over by now."""
        if absence.entered(topics):
            self._matches.add(topics, absence)
            if not absence.entering:
                del self._entering[absence]

    def _remove(self, absence: Absence, topics: TopicFilter) -> None:
        self._matches.remove(topics, absence)

    def miss(self, event: Event) -> None:
        """Count an unlogged event for the sessions that would have received it."""
        found = self._matches.match(event.topic)
        for absence in found:
            absence.miss(event)
        for absence in self._entering:
            if absence not in found and absence.waits_for(event.topic):
                absence.miss(event)
