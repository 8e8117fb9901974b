"""What was sent to a client, as long as it may have to be sent, or told of, again.

Flights of a clean session are light: there is nothing to send again, so a QoS 1 message is its
number and a QoS 2 message a ``CompactInflight``. Those of other sessions are ``Sent``.
"""

from collections.abc import Iterable
from enum import Enum

from rowcast.codecs import JSON
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.query_topics import QUERY_PREFIX
from rowcast.core.topic_tables import PREFIX
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.mqtt.window import Flight
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.live_query import PARTS, Step, as_step, step_of
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


class Sent:
    """A message as it was sent to one client.

    ``event`` is None for one that was in flight when the server stopped, until it is read from the
    log; ``seq`` is 0 for an unlogged event, which can only be sent again by this process.
    """

    __slots__ = (
        "assignment",
        "event",
        "form",
        "identifiers",
        "named",
        "order",
        "payload",
        "qos",
        "retain",
        "seq",
        "topic",
    )

    def __init__(
        self,
        event: Event | None,
        form: DeliveryFormat,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        order: int,
        seq: int = 0,
        topic: str = "",
    ) -> None:
        self.event = event
        self.form = form
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.order = order
        self.seq = event.seq if event is not None else seq
        step = step_of(event) if event is not None else None
        self.topic = topic
        if event is not None:
            self.topic = event.topic if step is None else f"{QUERY_PREFIX}{step}/{event.topic}"
        self.named = retain or event is None or isinstance(event, Row) or step is not None
        """Whether it is looked up by its topic, too, not only by its number."""
        self.payload = b""
        """The payload, if it is in no log: selected parts of records, as of one moment."""
        self.assignment: Assignment | None = None
        """The assignment of a group, completed with this flight."""


def step_topic(sent: Sent) -> str:
    """Return the topic of a step of a live query; empty for any other message."""
    if not sent.topic.startswith(QUERY_PREFIX):
        return ""
    return sent.topic.removeprefix(QUERY_PREFIX).partition("/")[2]


def step_again(sent: Sent, event: Event | None, shown: Event | None) -> Event | None:
    """Return what was delivered for a live query; else ``shown``, the client's form of an event.

    ``event`` is that of the log at its topic; None if it was trimmed.
    """
    topic = step_topic(sent)
    if sent.payload and shown is not None:
        shown = shown.changed(
            kind=PUT, payload=sent.payload, content_type=JSON, table=None, seq=sent.seq
        )
        PARTS.put(shown, True)
    if not topic:
        return shown
    step = Step(sent.topic.removeprefix(QUERY_PREFIX).partition("/")[0])
    repeated = event or Event(topic, DELETE, b"", qos=sent.qos) if step is Step.LEAVE else shown
    if repeated is None:
        return None
    made = as_step(step, repeated)
    made.seq = sent.seq  # of the event that moved it in or out of a window
    return made


class CompactInflight(Enum):
    """A QoS 2 message in flight to a clean session; ends with the connection (MQTT 5, 4.1)."""

    SENT = "sent"
    RELEASED = "released"


def sent_of(flight: Flight) -> Sent | None:
    """Return the state of a flight; None for compact ones of clean sessions."""
    return flight.item if isinstance(flight.item, Sent) else None


def note_rows(filters: Iterable[SubscribedFilter], flight: Flight, position: int) -> None:
    """Note after a kill the rows that were sent without their events at the same position."""
    sent = sent_of(flight)
    if sent is None or sent.seq <= position or not sent.topic.startswith(PREFIX):
        return
    for interest in filters:
        if interest.topics.matches(sent.topic):
            interest.floor = max(interest.floor, sent.seq)
