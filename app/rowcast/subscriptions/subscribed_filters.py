"""The filters of a subscription, and which of them an event matches.

A subscription may have one filter or ten thousand, so the matches of a topic are cached until the
filters change. Overlapping filters cause one delivery with the options of all of them (MQTT 5,
3.3.4).

**A filter that joins others.** While the others read the log, it reads the log with them; a page
that was requested without it is discarded and requested again. Otherwise its floor is the last
announced position, because the queue contains only events of the other filters; if it begins
earlier, a Replay delivers the part in between. Current records come from a CurrentRecords backfill,
as of the position where the filter begins; those of several filters are read together, each with
its own limit. Whether the log was trimmed is checked after each read, not before: a part that is
complete then was complete during the read.

The module knows topics and positions, but neither queues nor pages nor readers.
"""

from collections.abc import Iterator, Sequence
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
from rowcast.subscriptions.filter_index import FilterIndex
from rowcast.subscriptions.subscribed_filter import Pair, SubscribedFilter

__all__ = ["ANY_QUERY", "Pair", "SubscribedFilter", "SubscribedFilters"]


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
        "_renamed",
        "generation",
        "only",
        "queries",
        "replays",
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
        self.replays: dict[str, SubscribedFilter] = {}
        """The interests that replay the past."""
        self._queried: dict[str, TopicFilter] = {}
        """The topics of their tables."""
        self._renamed: dict[str, list[SubscribedFilter]] | None = None
        """Interests whose filters were written differently, by what was written."""
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
        self.put_all((interest,))

    def put_all(self, interests: Sequence[SubscribedFilter]) -> None:
        """Add or replace several; what was found before is forgotten once."""
        for interest in interests:
            self._put(interest)
        self._changed()

    def _put(self, interest: SubscribedFilter) -> None:
        if (known := self._by_filter.get(interest.topics.text)) is not None:
            self._forget_asked(known)
        self._by_filter[interest.topics.text] = interest
        if interest.asked:
            if self._renamed is None:
                self._renamed = {}
            self._renamed.setdefault(interest.asked, []).append(interest)
        if self._index is not None:
            self._index.add(interest.topics.text, _source(interest))
        self.rows.pop(interest.topics.text, None)
        if interest.rows is not None:
            self.rows[interest.topics.text] = None
        if interest.replay is not None:
            self.replays[interest.topics.text] = interest
        if interest.query is not None:
            self.queries[interest.topics.text] = interest
            others = (TopicFilter.below(table.path or "") for table in interest.query.related)
            for source in (interest.query.source, *others):
                self._queried[source.text] = source

    def pop(self, text: str) -> SubscribedFilter | None:
        """Remove and return an interest."""
        interest = self._by_filter.pop(text, None)
        if interest is not None:
            self._forget_asked(interest)
            if self._index is not None:
                self._index.remove(text)
        self.rows.pop(text, None)
        self.replays.pop(text, None)
        if self.queries.pop(text, None) is not None and not self.queries:
            self._queried.clear()
        self._changed()
        return interest

    def _forget_asked(self, interest: SubscribedFilter) -> None:
        if self._renamed is not None and interest in (several := self.asked_as(interest.asked)):
            several.remove(interest)
            if not several:
                del self._renamed[interest.asked]

    def asked_as(self, text: str) -> list[SubscribedFilter]:
        """Return the interests whose filter was written so, and became another."""
        return self._renamed.get(text, []) if self._renamed is not None else []

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
        if len(items) < self._indexed_min:
            found = [item for item in items.values() if item.query is None and item.selects(topic)]
            return tuple(found)
        index = self._index
        if index is None:
            index = self._index = FilterIndex()
            for item in items.values():
                index.add(item.topics.text, _source(item))
        found = [items[text] for text in index.find(topic)]
        if self.rows:
            found = [item for item in found if item.rows is None or item.selects(topic)]
        return tuple(found)

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
        known = self._by_filter
        return self.as_one(
            tuple([it for it in interest.merged if it.topics.text in known or it is ANY_QUERY])
        )

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
        """Return the interests that need a part of the log that was trimmed, with their streams."""
        needing = [
            interest
            for interest in self._by_filter.values()
            if any(lost.get(item, 0) > max(position, interest.floor) for item in interest.sources)
        ]
        return self.whole_streams(needing)

    def whole_streams(self, interests: list[SubscribedFilter]) -> list[SubscribedFilter]:
        """Return interests with all others of their streams, in order."""
        streams = {item.identifiers for item in interests if item.of_stream}
        if not streams:
            return interests
        wanted = set(interests)
        return [
            item
            for item in self._by_filter.values()
            if item in wanted or (item.of_stream and item.identifiers in streams)
        ]


def _source(interest: SubscribedFilter) -> TopicFilter:
    """Return the topics at which events may be for a filter: of rows, those that they are about."""
    source = interest.rows.source if interest.rows is not None else None
    return interest.topics if source is None else source


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
