"""Messages in flight to a client: what it takes to send one again, on this connection or another.

Flights of a clean session are light: there is nothing to send again, so a QoS 1 message is its
number and a QoS 2 message a ``CompactInflight``. Of the others, QoS 1 and 2 are the same but for
one thing: a QoS 2 message that was answered with PUBREC is never sent again, only its PUBREL is
(MQTT-4.3.3-6, MQTT-4.4.0-1).
"""

from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, cast

from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.limits import MQTT_FLUSH_EVENTS, SUBSCRIPTION_TAKE_BYTES_MAX
from rowcast.core.topic_tables import PREFIX
from rowcast.doors.mqtt.delivery.delivery_format import UNSENDABLE, DeliveryFormat, Parts
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Pubrel
from rowcast.mqtt.window import Flight
from rowcast.rows.topic_rows import Row, row_again
from rowcast.subscriptions.backfill import snapshot_of
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session

_DUP = 0x08
_PUBREL_BYTES = 4


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


def begin_again(session: "Session") -> None:
    """Queue everything in flight to be sent again, in the order in which it was (MQTT-4.6.0-1)."""
    session.resend.clear()
    session.resend.extend(packet_id for packet_id, _ in session.window)


def begin_flight(
    client: "Client",
    session: "Session",
    event: Event,
    interest: SubscribedFilter | None,
    qos: int,
    *,
    retain: bool,
    deal: Assignment | None = None,
) -> int:
    """Put a message in flight with all it takes to send it again; return its identifier."""
    wanted = cast("SubscribedFilter", interest)
    form = cast("DeliveryFormat", wanted.form)
    sent = Sent(event, form, qos, retain, wanted.identifiers, session.next_order())
    sent.deal = deal
    number = session.window.begin(Flight(sent, client.broker.now()))
    if session.kept:
        session.changed.add(number)
    return number


def send_again(client: "Client", session: "Session") -> None:
    """Send flights of an earlier connection again, as far as the Receive Maximum permits.

    It counts anew on each connection (MQTT 5, 4.9); PUBRELs need no room. One turn sends about as
    much of it as of new messages, so that the socket can say when it is full.
    """
    window, waiting = session.window, session.resend
    left, left_bytes = MQTT_FLUSH_EVENTS, SUBSCRIPTION_TAKE_BYTES_MAX
    while waiting:
        if left <= 0 or left_bytes <= 0:
            client.ready()
            return
        left -= 1
        flight = window.flight(waiting[0])
        if flight is None:
            waiting.popleft()
            continue
        if not flight.released and len(window) - len(waiting) >= window.receive_maximum:
            client.blocked = True  # an acknowledgement calls again
            return
        left_bytes -= _send_one(client, session, waiting.popleft(), flight)


def _send_one(client: "Client", session: "Session", packet_id: int, flight: Flight) -> int:
    """Send one flight again; return how many bytes that are."""
    sent = sent_of(flight)
    flight.sent_again(client.broker.now())
    if flight.released:
        client.write(_pubrel(client, packet_id))
        return _PUBREL_BYTES
    parts = UNSENDABLE if sent is None or sent.event is None else _parts(client, sent, sent.event)
    size = len(parts[0]) + len(parts[1]) + 2
    if not parts[0] or 0 < client.packet_bytes_max < size:  # nothing that could be sent
        _missed(client, session, sent, parts)
        return _give_up(client, session, packet_id, sent)
    head = bytes((parts[0][0] | _DUP,)) + parts[0][1:]  # MQTT-3.3.1-1
    client.write(head + packet_id.to_bytes(2, "big") + parts[1])
    if sent is not None and sent.event is not None:
        client.traffic.sent(1, client.broker.forms.size(sent.event, sent.form))
    return size


def _give_up(client: "Client", session: "Session", packet_id: int, sent: Sent | None) -> int:
    """End a flight that cannot be sent any more; return how many bytes that takes.

    With QoS 2 the client may have the message, and then it holds the identifier: it would take the
    next message with it for this one. PUBREL lets go of it, whether it is held or not.
    """
    session.changed.add(packet_id)
    if session.sharing is not None and sent is not None:
        session.sharing.done(sent)
    if sent is None or sent.qos < 2:
        session.window.acknowledge(packet_id)
        return 0
    session.window.release(packet_id, client.broker.now())
    sent.order = session.next_order()
    client.write_saved((_pubrel(client, packet_id),))
    return _PUBREL_BYTES


def _pubrel(client: "Client", packet_id: int) -> bytes:
    return encode(Pubrel(packet_id), client.connection.version)


def _missed(client: "Client", session: "Session", sent: Sent | None, parts: Parts) -> None:
    """Note what is not sent again; what is kept from the client is no gap."""
    kernel = client.broker.kernel
    kept = kernel.hooks.delivering or kernel.rights.active
    if sent is None or (sent.event is None and (not sent.seq or kept)):
        return
    why = (
        GapCause.TRIMMED
        if sent.event is None
        else GapCause.TOO_LARGE
        if parts[0]
        else GapCause.UNSENDABLE
    )
    event = sent.event or Event(sent.topic, MESSAGE, b"", seq=sent.seq)
    session.gaps.miss(event, None, why)


def _parts(client: "Client", sent: Sent, event: Event) -> Parts:
    """Return the PUBLISH anew: its delivery has begun, so it is completed although it expired."""
    left = -1
    if event.expires_at:
        left = max(0, ceil(event.expires_at - client.broker.now()))
    return client.broker.forms.own_parts(
        event,
        sent.form,
        sent.qos,
        retain=sent.retain,
        identifiers=sent.identifiers,
        left_seconds=left,
    )


async def read_again(client: "Client", session: "Session") -> None:
    """Read from the log what was in flight when the server ended.

    What the log has no more is looked for among the current records; what is gone for good cannot
    be sent, and its flight ends when its turn comes.
    """
    wanted: dict[int, list[Sent]] = {}
    for _, flight in session.window:
        sent = sent_of(flight)
        if sent is not None and sent.event is None and sent.seq and not flight.released:
            wanted.setdefault(sent.seq, []).append(sent)
    if not wanted:
        return
    kernel = client.broker.kernel
    found = await kernel.reader.pick(sorted(wanted))
    stage = kernel.stage(client.caller) if client.caller is not None else None
    for seq, flights in wanted.items():
        event = found.get(seq)
        topic = next((sent.topic for sent in flights if sent.topic), "")
        if event is None and topic:
            with suppress(Error):
                record = await kernel.read(topic, SERVER)
                event = snapshot_of(record) if record.seq == seq else None
        for sent in flights:
            again = row_again(event, sent.topic) if event is not None else None
            if again is not None and stage is not None:
                sent.event = stage.show(again, sent.qos)
            else:
                sent.event = again
