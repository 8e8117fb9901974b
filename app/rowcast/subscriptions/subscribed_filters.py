"""What a subscription wants: its filters, and for which of them an event is.

A subscription may have one filter or ten thousand, so the answer for a topic is remembered until
the filters change. Overlapping filters give one delivery with the options of all of them (MQTT 5,
3.3.4).

It knows topics and positions; it knows nothing of queues, pages or who reads.
"""

from collections.abc import Iterator

from rowcast.core.bounded import ClearedCache
from rowcast.core.events import Event
from rowcast.core.limits import SUBSCRIPTION_TOPICS_CACHED_MAX
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import RowFilter

Pair = tuple[Event, "SubscribedFilter | None"]
"""An event and the interest it is for; a mark that concerns all interests has None."""


class SubscribedFilter:
    """One filter of a subscription, and how its reader wants what it selects.

    ``floor`` is the position after which logged events count for it. The rest is the edge's: the
    MQTT options (3.8.3.1), which the kernel only carries.
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
        """The edge's own: in which form it wants what is delivered."""
        self.gaps = gaps
        """Whether the reader asked to be told what it does not get, where that must be asked."""
        self.asked = ""
        """The filter that was asked for, where a hook put ``topics`` in its place."""
        self.floor = 0
        self.local_floor = 0
        """The position after which ``no_local`` counts: before, the reader's own were wanted."""
        self.doubt = 0
        """Up to where events may have been handed over before the server was killed: those of QoS 0
        are left out, because they are not to come twice."""
        self.plain = 0
        """Up to where it was of QoS 0 itself, if it is no more: what is in doubt there is left out,
        whatever QoS it would have now."""
        self.current: str | None = None
        """The last topic of the current records that were handed over; None when none are owed."""
        self.since: int | None = None
        """Where the part of the log before ``floor`` begins that is owed; None when none is."""
        self.sources: list[LogSource] = []
        """What the filter can reach: ``Reader.sources``."""
        self.rows: RowFilter | None = None
        """Which rows of a topic table it selects; None: it selects topics as they are."""
        self.merged: tuple[SubscribedFilter, ...] = ()
        """The overlapping interests that this one stands for."""

    @property
    def filter(self) -> str:
        """The filter as it is written, such as ``Dog/#``; a hook may set another one."""
        return self.topics.text

    @filter.setter  # noqa: A003 - the property above, not the builtin
    def filter(self, text: str) -> None:
        self.topics = TopicFilter(text)

    def selects(self, topic: str) -> bool:
        """Tell whether events at a topic may be for it."""
        rows = self.rows
        return self.topics.matches(topic) if rows is None else rows.has(topic)

    def seen(self, event: Event) -> Event | None:
        """Return what an event is to it: a row where it selects those; None if nothing."""
        if self.rows is not None:
            return self.rows.row(event)
        return event if self.topics.matches(event.topic) else None

    def take(self, other: "SubscribedFilter") -> None:
        """Want what another interest wants; where it begins and in which form stays."""
        self.topics, self.qos = other.topics, other.qos
        self.no_local, self.retain_as_published = other.no_local, other.retain_as_published
        self.identifiers, self.marks, self.gaps = other.identifiers, other.marks, other.gaps

    def follow(self, old: "SubscribedFilter", announced: int, *, current: bool) -> None:
        """Go on where another interest of the same filter is (MQTT-3.8.4-3)."""
        self.floor, self.doubt, self.sources, self.rows = (
            old.floor,
            old.doubt,
            old.sources,
            old.rows,
        )
        self.plain = old.plain if old.qos else old.doubt
        self.current, self.since = "" if current else old.current, old.since
        self.local_floor = old.local_floor if old.no_local else announced


class SubscribedFilters:
    """The interests of one subscription, by the text of their filters."""

    __slots__ = ("_by_filter", "_by_set", "_by_topic", "generation", "only", "rows")

    def __init__(self) -> None:
        self._by_filter: dict[str, SubscribedFilter] = {}
        self._by_topic: ClearedCache[str, tuple[SubscribedFilter, ...]] = ClearedCache(
            SUBSCRIPTION_TOPICS_CACHED_MAX
        )
        self._by_set: dict[tuple[SubscribedFilter, ...], SubscribedFilter] = {}
        self.only: SubscribedFilter | None = None
        """The interest, if there is exactly one: then every event is for it."""
        self.rows: set[str] = set()
        """The filters of those that select rows."""
        self.generation = 0
        """Another number each time a filter joins, or selects something else."""

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
        self.rows.discard(interest.topics.text)
        if interest.rows is not None:
            self.rows.add(interest.topics.text)
        self._changed()

    def pop(self, text: str) -> SubscribedFilter | None:
        """Remove and return an interest."""
        interest = self._by_filter.pop(text, None)
        self.rows.discard(text)
        self._changed()
        return interest

    def _changed(self) -> None:
        self._by_topic.clear()
        self._by_set.clear()
        one = len(self._by_filter) == 1 and not self.rows
        self.only = next(iter(self._by_filter.values())) if one else None

    def matching(self, topic: str) -> tuple[SubscribedFilter, ...]:
        """Return the interests that select a topic."""
        found = self._by_topic.get(topic)
        if found is None:
            found = tuple(item for item in self._by_filter.values() if item.selects(topic))
            self._by_topic.put(topic, found)
        return found

    def wanting(self, event: Event, client_id: str) -> SubscribedFilter | None:
        """Return for which interest an event is; several are merged (MQTT-3.3.4-2)."""
        if self.rows:
            return next((interest for _, interest in self.due(event, client_id)), None)
        local = bool(client_id) and event.client == client_id
        found = self._by_topic.get(event.topic)
        if found is None:
            found = self.matching(event.topic)
        if len(found) == 1:  # nearly always, and asked for each event of a page
            only = found[0]
            return only if _counts(only, event, local) else None
        wanted = tuple(interest for interest in found if _counts(interest, event, local))
        return self.as_one(wanted)

    def due(self, event: Event, client_id: str) -> list[Pair]:
        """Return what a reader is handed of an event, in order: a row it is, then itself.

        Both, where the filters select both; the row then leads, and comes first.
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
        """Return for which interest an event is left out because it may have been had before."""
        found = (item for item in self.matching(event.topic) if item.rows is None)
        found = (item for item in found if item.floor < event.seq <= item.doubt)
        return self.as_one(tuple(item for item in found if not _comes_again(item, event)))

    def had(self, interest: SubscribedFilter | None, seq: int) -> None:
        """Note that an interest was handed its row of an event that is still to come as itself."""
        for item in interest.merged or (interest,) if interest is not None else ():
            item.floor = max(item.floor, seq)

    def as_one(self, wanted: tuple[SubscribedFilter, ...]) -> SubscribedFilter | None:
        """Return one interest that stands for several; the same one for the same several."""
        if len(wanted) < 2:
            return wanted[0] if wanted else None
        merged = self._by_set.get(wanted)
        if merged is None:
            merged = self._by_set[wanted] = _merge(wanted)
        return merged

    def without(self, interest: SubscribedFilter, text: str) -> SubscribedFilter | None:
        """Return for whom an event still is, now that the filter ``text`` is gone."""
        if not interest.merged:
            return None if interest.topics.text == text else interest
        return self.as_one(
            tuple(item for item in interest.merged if item.topics.text in self._by_filter)
        )

    def renewed(
        self, known: SubscribedFilter | None, old: SubscribedFilter, new: SubscribedFilter
    ) -> SubscribedFilter | None:
        """Return for whom an event is, now that one interest has taken another's place."""
        if known is None or not known.merged:
            return new if known is old else known
        return self.as_one(tuple(new if item is old else item for item in known.merged))

    def needs(self, position: int) -> dict[LogSource, int]:
        """Return from where each source's part of the log is needed by a reader at a position."""
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
    """Tell whether an event is for an interest; ``local``: its reader wrote it (MQTT-3.8.3-3)."""
    seq = event.seq
    if local and interest.no_local and not 0 < seq <= interest.local_floor:
        return False
    if not seq:
        return True
    return seq > interest.floor and (seq > interest.doubt or _comes_again(interest, event))


def _comes_again(interest: SubscribedFilter, event: Event) -> bool:
    """Tell whether an event that is in doubt is handed over, though it may be once more."""
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
