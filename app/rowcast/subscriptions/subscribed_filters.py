"""The filters of a subscription, and which of them an event matches.

A subscription may have one filter or ten thousand, so the matches of a topic are cached until the
filters change. Overlapping filters cause one delivery with the options of all of them (MQTT 5,
3.3.4).

The module knows topics and positions, but neither queues nor pages nor readers.
"""

from collections.abc import Iterator
from typing import Final

from rowcast.core.bounded import ClearedCache
from rowcast.core.events import Event
from rowcast.core.fairness_limits import (
    SUBSCRIPTION_INDEXED_FILTERS_MIN,
    SUBSCRIPTION_MATCHES_CACHED_MAX,
)
from rowcast.core.limits import SUBSCRIPTION_TOPICS_CACHED_MAX
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import RowFilter
from rowcast.subscriptions.filter_index import FilterIndex
from rowcast.subscriptions.live_query import LiveQuery

Pair = tuple[Event, "SubscribedFilter | None"]
"""An event and its interest; None for a mark that concerns all interests."""


class SubscribedFilter:
    """One filter of a subscription, with its delivery options.

    ``floor`` is the position after which logged events count for it. The rest belongs to the door:
    the MQTT options (3.8.3.1), which the kernel only stores.
    """

    __slots__ = (
        "asked",
        "current",
        "doubt",
        "floor",
        "form",
        "gaps",
        "identifiers",
        "local_floor",
        "marks",
        "merged",
        "no_local",
        "plain",
        "qos",
        "query",
        "retain_as_published",
        "rows",
        "since",
        "sources",
        "topics",
    )

    def __init__(
        self,
        topics: TopicFilter,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        identifiers: tuple[int, ...] = (),
        marks: bool = True,
        form: object = None,
        gaps: bool = False,
    ) -> None:
        self.topics = topics
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.marks = marks
        """Whether the reader wants CURRENT after the current records."""
        self.form = form
        """The delivery format, opaque to the kernel."""
        self.gaps = gaps
        """Whether the reader opted in to gap notices, where they are opt-in."""
        self.asked = ""
        """The requested filter, if a hook replaced it with ``topics``."""
        self.floor = 0
        self.local_floor = 0
        """The position after which ``no_local`` applies."""
        self.doubt = 0
        """The position up to which events may have been delivered before the server was killed:
        with QoS 0 they are left out, because they must not be delivered twice."""
        self.plain = 0
        """The position up to which the filter had QoS 0, if it has no longer: doubtful events up to
        it are left out, whatever the QoS now."""
        self.current: str | None = None
        """The last topic of the delivered current records; None if none are pending."""
        self.since: int | None = None
        """The start of the pending replay before ``floor``; None if there is none."""
        self.sources: list[LogSource] = []
        """The sources that the filter can match: ``Reader.sources``."""
        self.rows: RowFilter | None = None
        """Its row filter of a topic table; None: it matches topics directly."""
        self.query: LiveQuery | None = None
        """Its live query, of which ``topics`` is only the name; None: it matches topics."""
        self.merged: tuple[SubscribedFilter, ...] = ()
        """The overlapping interests merged into this one."""

    @property
    def filter(self) -> str:
        """The filter's text, such as ``Dog/#``; a hook may set another one."""
        return self.topics.text

    @filter.setter  # noqa: A003 - the property above, not the builtin
    def filter(self, text: str) -> None:
        self.topics = TopicFilter(text)

    @property
    def left_out(self) -> int:
        """The position up to which every event is left out as possibly delivered before a kill."""
        return min(self.doubt, self.plain) if self.qos else self.doubt

    @property
    def watched(self) -> TopicFilter:
        """The filter of the topics that it is about."""
        return self.topics if self.query is None else self.query.source

    def selects(self, topic: str) -> bool:
        """Whether events at a topic may match."""
        rows = self.rows
        return self.topics.matches(topic) if rows is None else rows.has(topic)

    def seen(self, event: Event) -> Event | None:
        """Return the filter's form of an event: itself, or a row; None if it does not match."""
        if self.rows is not None:
            return self.rows.row(event)
        return event if self.watched.matches(event.topic) else None

    def take(self, other: "SubscribedFilter") -> None:
        """Copy the options of another interest, except its start and format."""
        self.topics, self.qos = other.topics, other.qos
        self.no_local, self.retain_as_published = other.no_local, other.retain_as_published
        self.identifiers, self.marks, self.gaps = other.identifiers, other.marks, other.gaps
        self.query = other.query

    def follow(self, old: "SubscribedFilter", announced: int, *, current: bool) -> None:
        """Take over the position of another interest of the same filter (MQTT-3.8.4-3)."""
        self.floor, self.doubt, self.sources, self.rows = (
            old.floor,
            old.doubt,
            old.sources,
            old.rows,
        )
        self.plain = old.plain if old.qos else old.doubt
        self.current, self.since = "" if current else old.current, old.since
        self.local_floor = old.local_floor if old.no_local else announced


ANY_QUERY: Final = SubscribedFilter(TopicFilter("$query"))
"""Stands for those of ``SubscribedFilters.queries`` that an event concerns; a stage finds them."""


class SubscribedFilters:
    """The interests of one subscription, by the text of their filters.

    With at least ``indexed_min`` filters, they are found by an index. ``topics_cached`` topics are
    remembered, with at most ``matches_cached`` matches in all.
    """

    __slots__ = (
        "_by_filter",
        "_by_set",
        "_by_topic",
        "_cached",
        "_cached_max",
        "_index",
        "_indexed_min",
        "_queried",
        "generation",
        "only",
        "queries",
        "rows",
    )

    def __init__(
        self,
        topics_cached: int = SUBSCRIPTION_TOPICS_CACHED_MAX,
        indexed_min: int = SUBSCRIPTION_INDEXED_FILTERS_MIN,
        matches_cached: int = SUBSCRIPTION_MATCHES_CACHED_MAX,
    ) -> None:
        self._by_filter: dict[str, SubscribedFilter] = {}
        self._by_topic: ClearedCache[str, tuple[SubscribedFilter, ...]] = ClearedCache(
            topics_cached
        )
        self._by_set: dict[tuple[SubscribedFilter, ...], SubscribedFilter] = {}
        self._cached = 0
        """Matches in the two caches."""
        self._cached_max = matches_cached
        self._indexed_min = indexed_min
        self._index: FilterIndex | None = None
        """Of all filters, once a topic was looked up among many."""
        self.only: SubscribedFilter | None = None
        """The interest, if there is exactly one: then it matches every event."""
        self.rows: dict[str, None] = {}
        """The filters that select rows."""
        self.queries: dict[str, SubscribedFilter] = {}
        """The interests that are live queries."""
        self._queried: dict[str, TopicFilter] = {}
        """The topics of their tables."""
        self.generation = 0
        """Incremented each time a filter is added or changed."""

    def __len__(self) -> int:
        return len(self._by_filter)

    def __contains__(self, text: object) -> bool:
        return text in self._by_filter

    def __getitem__(self, text: str) -> SubscribedFilter:
        return self._by_filter[text]

    def __iter__(self) -> Iterator[SubscribedFilter]:
        return iter(list(self._by_filter.values()))

    def put(self, interest: SubscribedFilter) -> None:
        """Add an interest, or replace the one of the same filter."""
        self._by_filter[interest.topics.text] = interest
        if self._index is not None:
            self._index.add(interest.topics)
        self.rows.pop(interest.topics.text, None)
        if interest.rows is not None:
            self.rows[interest.topics.text] = None
        if interest.query is not None:
            self.queries[interest.topics.text] = interest
            self._queried[interest.query.source.text] = interest.query.source
        self._changed()

    def pop(self, text: str) -> SubscribedFilter | None:
        """Remove and return an interest."""
        interest = self._by_filter.pop(text, None)
        if interest is not None and self._index is not None:
            self._index.remove(interest.topics)
        self.rows.pop(text, None)
        if self.queries.pop(text, None) is not None and not self.queries:
            self._queried.clear()
        self._changed()
        return interest

    def _changed(self) -> None:
        self._forget()
        one = len(self._by_filter) == 1 and not self.rows
        self.only = next(iter(self._by_filter.values())) if one else None

    def matching(self, topic: str) -> tuple[SubscribedFilter, ...]:
        """Return the interests that match a topic."""
        found = self._by_topic.get(topic)
        if found is None:
            found = self._find(topic)
            self._make_room(len(found))
            self._by_topic.put(topic, found)
        return found

    def _make_room(self, matches: int) -> None:
        """Forget what was found before, when it is too much: a topic may match every filter."""
        self._cached += matches
        if self._cached > self._cached_max:
            self._forget()
            self._cached = matches

    def _forget(self) -> None:
        self._by_topic.clear()
        self._by_set.clear()
        self._cached = 0

    def _find(self, topic: str) -> tuple[SubscribedFilter, ...]:
        queried = any(source.matches(topic) for source in self._queried.values())
        return (*self._plain(topic), ANY_QUERY) if queried else self._plain(topic)

    def _plain(self, topic: str) -> tuple[SubscribedFilter, ...]:
        items = self._by_filter
        if self.rows or len(items) < self._indexed_min:
            found = [item for item in items.values() if item.query is None and item.selects(topic)]
            return tuple(found)
        if self._index is None:
            self._index = FilterIndex(item.topics for item in items.values())
        return tuple(map(items.__getitem__, self._index.find(topic)))

    def wanting(self, event: Event, client_id: str) -> SubscribedFilter | None:
        """Return the interest that an event matches; several are merged (MQTT-3.3.4-2)."""
        if self.rows:
            return next((interest for _, interest in self.due(event, client_id)), None)
        local = bool(client_id) and event.client == client_id
        found = self._by_topic.get(event.topic)
        if found is None:
            found = self.matching(event.topic)
        if len(found) == 1:  # the common case, for each event of a page
            only = found[0]
            return only if _counts(only, event, local) else None
        if not event.seq and not local:
            return self.as_one(found)
        wanted = tuple(interest for interest in found if _counts(interest, event, local))
        return self.as_one(wanted)

    def due(self, event: Event, client_id: str) -> list[Pair]:
        """Return the pairs to deliver for an event, in order: its row, then itself.

        Both if the filters match both; then the row comes first.
        """
        if not self.rows:
            interest = self.wanting(event, client_id)
            return [] if interest is None else [(event, interest)]
        local = bool(client_id) and event.client == client_id
        found = [item for item in self.matching(event.topic) if _counts(item, event, local)]
        itself = self.as_one(tuple(item for item in found if item.rows is None))
        pairs: list[Pair] = [] if itself is None else [(event, itself)]
        leads = itself is not None
        rows = [(item.rows.row(event, leads=leads), item) for item in found if item.rows]
        for_row = self.as_one(tuple(item for row, item in rows if row is not None))
        if for_row is not None:
            pairs[:0] = [(next(row for row, _ in rows if row is not None), for_row)]
        return pairs

    def doubted(self, event: Event) -> SubscribedFilter | None:
        """Return the interest for which an event is left out as a possible duplicate."""
        found = (item for item in self.matching(event.topic) if item.rows is None)
        found = (item for item in found if item.floor < event.seq <= item.doubt)
        return self.as_one(tuple(item for item in found if not _comes_again(item, event)))

    def had(self, interest: SubscribedFilter | None, seq: int) -> None:
        """Note that an interest got the row of an event that is itself still pending."""
        for item in interest.merged or (interest,) if interest is not None else ():
            item.floor = max(item.floor, seq)

    def as_one(self, wanted: tuple[SubscribedFilter, ...]) -> SubscribedFilter | None:
        """Return the merged interest of several; cached."""
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        merged = self._by_set.get(wanted)
        if merged is None:
            self._make_room(len(wanted))
            merged = self._by_set[wanted] = _merge(wanted)
        return merged

    def without(self, interest: SubscribedFilter, text: str) -> SubscribedFilter | None:
        """Return an interest without the removed filter ``text``; None if nothing is left."""
        if not interest.merged:
            return None if interest.topics.text == text else interest
        known = (*self._by_filter, ANY_QUERY.topics.text)
        return self.as_one(tuple([it for it in interest.merged if it.topics.text in known]))

    def renewed(
        self, known: SubscribedFilter | None, old: SubscribedFilter, new: SubscribedFilter
    ) -> SubscribedFilter | None:
        """Return an interest with one filter replaced by another."""
        if known is None or not known.merged:
            return new if known is old else known
        return self.as_one(tuple(new if item is old else item for item in known.merged))

    def needs(self, position: int) -> dict[LogSource, int]:
        """Return for each source the position from which the log is needed."""
        needs: dict[LogSource, int] = {}
        for interest in self._by_filter.values():
            need = max(position, interest.floor)
            for source in interest.sources:
                needs[source] = min(need, needs.get(source, need))
        return needs

    def needing(self, position: int, lost: dict[LogSource, int]) -> list[SubscribedFilter]:
        """Return the interests that need a part of the log that was trimmed."""
        return [
            interest
            for interest in self._by_filter.values()
            if any(lost.get(item, 0) > max(position, interest.floor) for item in interest.sources)
        ]


def _counts(interest: SubscribedFilter, event: Event, local: bool) -> bool:
    """Whether an event counts for an interest; ``local``: its reader wrote it (MQTT-3.8.3-3)."""
    seq = event.seq
    if local and interest.no_local and not 0 < seq <= interest.local_floor:
        return False
    if not seq:
        return True
    return seq > interest.floor and (seq > interest.doubt or _comes_again(interest, event))


def _comes_again(interest: SubscribedFilter, event: Event) -> bool:
    """Whether a doubtful event is delivered, although possibly a second time."""
    return bool(event.qos and interest.qos) and event.seq > interest.plain


def _merge(interests: tuple[SubscribedFilter, ...]) -> SubscribedFilter:
    """Merge overlapping interests: the highest QoS, every identifier (MQTT-3.3.4-2, -3, -4)."""
    merged = SubscribedFilter(
        interests[0].topics,
        qos=max(item.qos for item in interests),
        retain_as_published=any(item.retain_as_published for item in interests),
        identifiers=tuple(number for item in interests for number in item.identifiers),
        form=interests[0].form,
        gaps=any(item.gaps for item in interests),
    )
    merged.floor = min(item.floor for item in interests)
    merged.merged = interests
    return merged
