"""Rows: events of undeclared topics as their topic's table shows them (F1, F3).

A topic table is a view, never a copy: a row is made of an event of the log when somebody reads it,
once for each event, and shared by all who do. A row is itself an event, at ``mqtt_home/<id>``, so
every door writes it as it writes any record. ``mqtt_sys_metrics`` is the same, of the current
records below ``$SYS/`` and keyed by topic.

It knows events and filters only: who watches rows is in ``row_views.py``, how a page of them is
read in ``row_reads.py``.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from rowcast.codecs import JSON, decode, encode
from rowcast.core.errors import Code, Error
from rowcast.core.event_cache import EventCache
from rowcast.core.events import DELETE, FIELDS, PUT, Event
from rowcast.core.tables import Attribute, Table, Type
from rowcast.core.topic_tables import (
    DATABASE,
    METRICS,
    TopicRoot,
    TopicTable,
    message_id,
    row_table,
)
from rowcast.core.topics import TopicFilter
from rowcast.core.transaction_parts import part_of
from rowcast.rows.compiled_table import CompiledTable
from rowcast.rows.transcoder import Transcoder, text_or_bytes

SYSTEM: Final = TopicRoot("$SYS")
"""The topics of the server's own figures."""

PAYLOAD: Final = "payload"
"""The column of the payload."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTENTS: Final = Transcoder({})
"""Of undeclared topics, which have no shapes."""


class Row(Event):
    """An event as a row of its topic's table."""

    __slots__ = ("about", "leads")

    def __init__(self, topic: str, kind: str, payload: bytes, about: Event) -> None:
        super().__init__(topic, kind, payload, JSON, about.qos, retain=True)
        self.client, self.seq, self.version = about.client, about.seq, about.version
        self.properties = part_of(about)
        self.about = about.topic
        """The topic that it is about: reading the row needs the right to read that topic."""
        self.leads = False
        """Whether the same reader is handed the event itself next, and the position with that."""

    def changed(self, **facts: object) -> Event:
        """Return a copy with other facts, which is still about the same topic."""
        copy = super().changed(**facts)
        row = Row(copy.topic, copy.kind, copy.payload, copy)
        for name in FIELDS:
            setattr(row, name, getattr(copy, name))
        row.about, row.leads = self.about, self.leads
        return row


RowFields = tuple[EventCache[Row], EventCache[Row]]


def _row_fields() -> RowFields:
    return EventCache("row"), EventCache("leading row")


class View(Protocol):
    """The rows of one topic table."""

    shape: CompiledTable
    branch: TopicRoot
    """The topics that the rows are about."""
    rows: RowFields
    """The fields that keep an event's row: one that does not lead, and one that does."""

    @property
    def table(self) -> Table:
        """The columns of the rows."""

    def source(self, topics: TopicFilter) -> TopicFilter | None:
        """Return the filter of the topics that a filter of rows is about; None for no topic."""

    def outline(self, event: Event) -> dict[str, object]:
        """Return an event's row without the columns that need decoding."""

    def value(self, event: Event) -> dict[str, object]:
        """Return an event's row as a value."""

    def topic(self, event: Event) -> str:
        """Return the topic of an event's row."""

    def kind(self, _event: Event, /) -> str:
        """Return the kind of change that an event makes to its row."""

    def hint(self) -> str:
        """Return where to write, because rows cannot be written."""


class LogView:
    """The rows of an ordinary topic table: every event of its branch in the log."""

    def __init__(self, table: TopicTable) -> None:
        self.branch = table.branch
        self.shape = CompiledTable(row_table(table))
        self.rows = _row_fields()
        self._prefix = table.name + "/"

    @property
    def table(self) -> Table:
        """The columns of the rows."""
        return self.shape.table

    def source(self, topics: TopicFilter) -> TopicFilter | None:
        """Return the branch's filter, if a row can be meant: ids have no levels."""
        return self.branch.topics if topics.has_depth(2) else None

    def outline(self, event: Event) -> dict[str, object]:
        """Return the columns of an event, of which the payload is still empty."""
        return {
            "id": message_id(event.version, event.seq),
            "topic": event.topic,
            PAYLOAD: None,
            "qos": event.qos,
            "retain": event.retain,
            "timestamp": time_of(event.version),
            "client_id": event.client or None,
        }

    def value(self, event: Event) -> dict[str, object]:
        """Return the seven columns of an event."""
        return self.outline(event) | {PAYLOAD: _CONTENTS.value(event)}

    def topic(self, event: Event) -> str:
        """Return the topic of an event's row."""
        return self._prefix + message_id(event.version, event.seq)

    def kind(self, _event: Event) -> str:
        """Return that every event is a new row, also one that ends a retained value."""
        return PUT

    def hint(self) -> str:
        """Return where to write instead."""
        level = self.branch.level
        where = "a topic without '/'" if level is None else f"a topic such as '{level}/...'"
        return f"publish to {where}, and the message becomes a row"


class MetricsView:
    """The rows of METRICS: the server's own figures, one row for each topic."""

    def __init__(self) -> None:
        self.branch = SYSTEM
        self.rows = _row_fields()
        columns = (
            Attribute("id", Type.ID, required=True, primary_key=True),
            Attribute("topic", Type.STRING, required=True),
            Attribute("value", Type.ANY),
            Attribute("timestamp", Type.DATE, required=True),
        )
        self.shape = CompiledTable(Table(METRICS, METRICS, columns, DATABASE, sealed=True))

    @property
    def table(self) -> Table:
        """The columns of the rows."""
        return self.shape.table

    def source(self, topics: TopicFilter) -> TopicFilter | None:
        """Return the filter of the server's own topics that a filter of rows names."""
        if topics.literal(1) not in {SYSTEM.level, None}:
            return None
        if len(topics.levels) == 2 and topics.unbounded:
            return SYSTEM.topics
        return TopicFilter("/".join(("$SYS", *topics.levels[2:])))

    def outline(self, event: Event) -> dict[str, object]:
        """Return the whole row: there are few."""
        return self.value(event)

    def value(self, event: Event) -> dict[str, object]:
        """Return the four columns of a record; text that is a number becomes one."""
        return {
            "id": event.topic,
            "topic": event.topic,
            "value": _measured(_CONTENTS.value(event)),
            "timestamp": time_of(event.version),
        }

    def topic(self, event: Event) -> str:
        """Return the topic of a record's row."""
        return f"{METRICS}/{event.topic}"

    def kind(self, event: Event) -> str:
        """Return the kind of change that an event makes to its record, which is the row."""
        return event.kind

    def hint(self) -> str:
        """Return why there is nothing to write."""
        return "it is what the server tells of itself"


def row_of(view: View, event: Event, *, leads: bool = False) -> Row:
    """Return an event as a row; made once, kept with the event for all readers."""
    field = view.rows[leads]
    row = field.of(event, None)
    if row is None:
        row = field.put(event, _made(view, event))
        row.leads = leads
    return row


def made_of(view: View, event: Event, value: dict[str, object]) -> Row:
    """Return an event as a row whose value is known."""
    kind = view.kind(event)
    row = Row(view.topic(event), kind, b"", event)
    row.table = view.table
    if kind != DELETE:
        row.payload = _payload(view, event, value)
        row.decoded = value
    return row


def _made(view: View, event: Event) -> Row:
    return made_of(view, event, view.value(event))


def _payload(view: View, event: Event, value: dict[str, object]) -> bytes:
    """Return a row in JSON; values nested too deeply become text."""
    try:
        return encode(view.shape.spell(value, JSON), JSON)
    except Error:
        value[PAYLOAD] = text_or_bytes(event)
        return encode(view.shape.spell(value, JSON), JSON)


def time_of(version: int) -> datetime:
    """Return the time of a version, which is in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=version)


def version_of_time(moment: datetime) -> int:
    """Return the least version of a time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _measured(value: object) -> object:
    """Return the number that a text is, if it is one."""
    if not isinstance(value, str):
        return value
    try:
        number = decode(value.encode(), JSON)
    except Error:
        return value
    return number if type(number) in {int, float} else value


def read_only(view: View) -> Error:
    """Return the refusal of a write to rows."""
    return Error(
        Code.NOT_ALLOWED,
        f"the rows of {view.table.name} cannot be written: {view.hint()}",
        allow=["GET", "HEAD", "OPTIONS"],
    )


class RowFilter:
    """The part of a subscribed filter that selects rows of a view."""

    __slots__ = ("_topics", "_whole", "source", "view")

    def __init__(self, view: View, topics: TopicFilter) -> None:
        self.view = view
        self.source = view.source(topics)
        """The filter for the bus; None if it can select no row."""
        self._topics = topics
        self._whole = topics.literal(1) is None and isinstance(view, LogView)

    @property
    def exact(self) -> bool:
        """Whether it names one row, ``row_id``."""
        return self._topics.exact

    @property
    def row_id(self) -> str:
        """The id of the row that it names."""
        return self._topics.text.partition("/")[2]

    def has(self, topic: str) -> bool:
        """Whether such rows may be about an undeclared topic."""
        source = self.source
        return source is not None and self.view.branch.has(topic) and source.matches(topic)

    def row(self, event: Event, *, leads: bool = False) -> Row | None:
        """Return an event's row, if it is one that is selected."""
        if event.table is not None or not event.seq or not self.has(event.topic):
            return None
        if not self._whole and not self._topics.matches(self.view.topic(event)):
            return None
        return row_of(self.view, event, leads=leads)


def row_again(event: Event, topic: str) -> Event:
    """Return an event of the log as it was delivered under a topic: itself, or a row."""
    if topic in {"", event.topic} or event.table is not None:
        return event
    name = topic.partition("/")[0]
    view: View = MetricsView() if name == METRICS else LogView(TopicTable(name, TopicRoot(None)))
    return _made(view, event) if view.topic(event) == topic else event
