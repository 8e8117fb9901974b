"""What was sent to a client, as long as it may have to be sent, or told of, again.

Flights of a clean session are light: there is nothing to send again, so a QoS 1 message is its
number and a QoS 2 message a ``CompactInflight``. Those of other sessions are ``Sent``.
"""

from collections.abc import Iterable
from enum import Enum

from rowcast.core.events import Event
from rowcast.core.topic_tables import PREFIX
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.mqtt.window import Flight
from rowcast.rows.topic_rows import Row
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.subscribed_filters import SubscribedFilter


class Mark(bytes):
    """The frame of a notice; ``gap`` is its content, to be repeated if the frame is lost."""

    gap: Gap | None = None


class Sent:
    """A message as it was sent to one client.

    ``event`` is None for one that was in flight when the server stopped, until it is read from the
    log; ``seq`` is 0 for an unlogged event, which can only be sent again by this process.
    """

    __slots__ = (
        "deal",
        "event",
        "form",
        "identifiers",
        "named",
        "order",
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
        self.topic = event.topic if event is not None else topic
        self.named = retain or event is None or isinstance(event, Row)
        """Whether it is looked up by its topic, too, not only by its number."""
        self.deal: Assignment | None = None
        """The assignment of a group, completed with this flight."""


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
