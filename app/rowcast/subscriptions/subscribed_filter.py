"""One filter of a subscription, with its delivery options.

It is where its events begin, and what its door wants of them; it knows neither the other filters of
the subscription (``subscribed_filters.py``) nor queues.
"""

from rowcast.core.events import Event
from rowcast.core.topic_tables import LogSource
from rowcast.core.topics import TopicFilter
from rowcast.rows.topic_rows import RowFilter
from rowcast.subscriptions.compacted_past import CompactedPast
from rowcast.subscriptions.live_query import LiveQuery
from rowcast.subscriptions.live_replay import LiveReplay

Pair = tuple[Event, "SubscribedFilter | None"]
"""An event and its interest; None for a mark that concerns all interests."""


class SubscribedFilter:
    """One filter of a subscription, with its delivery options.

    ``floor`` is the position after which logged events count for it. ``judged`` is the revision of
    rights by which it was authorised; -1: it goes with one that was. The rest belongs to the door:
    the MQTT options (3.8.3.1), which the kernel only stores.
    """

    __slots__ = (
        "asked",
        "commits",
        "conflate",
        "current",
        "doubt",
        "floor",
        "form",
        "gaps",
        "identifiers",
        "judged",
        "local_floor",
        "marks",
        "merged",
        "no_local",
        "of_stream",
        "past",
        "plain",
        "qos",
        "query",
        "replay",
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
        commits: bool = False,
        conflate: float | None = None,
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
        self.commits = commits
        """Whether the reader wants COMMIT after each transaction (C23)."""
        self.conflate = conflate
        """The seconds that the reader wants between values of a record, or what a table declares if
        that is longer; None: each value, whatever a table declares."""
        self.asked = ""
        """The filter as the reader wrote it, where ``topics`` differs: a hook, or a live query."""
        self.judged = -1
        self.floor = self.local_floor = 0
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
        self.of_stream = False
        """Whether the filters with its identifiers are one stream, which begins anew as a whole:
        its reader cannot tell of which filter a RESET is."""
        self.past: CompactedPast | None = None
        """What it begins with in place of a part of the log that was compacted (E16)."""
        self.sources: list[LogSource] = []
        """The sources that the filter can match: ``Reader.sources``."""
        self.rows: RowFilter | None = None
        """Its row filter of a topic table; None: it matches topics directly."""
        self.query: LiveQuery | None = None
        """Its live query, of which ``topics`` is only the name; None: it matches topics."""
        self.replay: LiveReplay | None = None
        """What it replays, of which ``topics`` is only the name; None: it is live."""
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
        if self.replay is not None:
            return self.replay.topics
        return self.topics if self.query is None else self.query.source

    @property
    def is_plain(self) -> bool:
        """Whether it selects topics, and neither records nor rows."""
        return self.query is None and self.rows is None and self.replay is None

    @property
    def is_window(self) -> bool:
        """Whether it is a live query with a limit, or with conditions on related records."""
        return self.query is not None and self.query.window is not None

    @property
    def tells_parts(self) -> bool:
        """Whether it is a live query that tells selected parts of records, or rows of ``$SYS``.

        They are made for its reader.
        """
        query = self.query
        return query is not None and (query.query.select is not None or not query.logged)

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
        self.commits, self.conflate = other.commits, other.conflate
        self.query, self.asked = other.query, other.asked

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
