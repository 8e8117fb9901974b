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
    """The frame of what is no message; ``gap`` is what it tells of, if a lost frame loses that."""

    gap: Gap | None = None


class Sent:
    """A message as it was sent to one client.

    ``event`` is None for one that was in flight when the server ended, until it is read from the
    log again; ``seq`` is 0 for what is not logged, which can be sent again only by this process.
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
        """Whether it is found again by its topic too, not by its number alone."""
        self.deal: Assignment | None = None
        """What a group dealt and is to be told of."""


class CompactInflight(Enum):
    """A QoS 2 message in flight to a clean session: it ends with the connection (MQTT 5, 4.1)."""

    SENT = "sent"
    RELEASED = "released"


def sent_of(flight: Flight) -> Sent | None:
    """Return what a flight carries; None for the light ones of clean sessions."""
    return flight.item if isinstance(flight.item, Sent) else None


def note_rows(filters: Iterable[SubscribedFilter], flight: Flight, position: int) -> None:
    """Note after a kill which rows were sent whose events, at the same position, were not."""
    sent = sent_of(flight)
    if sent is None or sent.seq <= position or not sent.topic.startswith(PREFIX):
        return
    for interest in filters:
        if interest.topics.matches(sent.topic):
            interest.floor = max(interest.floor, sent.seq)
