"""Messages in flight: beginning a flight, and sending it again on the next connection.

QoS 1 and 2 are the same but for one thing: a QoS 2 message that was answered with PUBREC is never
sent again, only its PUBREL is (MQTT-4.3.3-6, MQTT-4.4.0-1).
"""

from collections import deque
from contextlib import suppress
from math import ceil
from typing import Final, cast

from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.limits import SUBSCRIPTION_TAKE_BYTES_MAX
from rowcast.doors.mqtt.delivery.delivery_format import UNSENDABLE, DeliveryFormat, Parts
from rowcast.doors.mqtt.delivery.outgoing import Outgoing
from rowcast.doors.mqtt.delivery.sent import Sent, sent_of, step_again, step_topic
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.encode import encode
from rowcast.mqtt.packets import Pubrel
from rowcast.mqtt.window import Flight
from rowcast.rows.topic_rows import row_again
from rowcast.subscriptions.backfill import snapshot_of
from rowcast.subscriptions.gaps import GapCause
from rowcast.subscriptions.live_query import PARTS
from rowcast.subscriptions.subscribed_filters import SubscribedFilter

_DUP: Final = 0x08
_PUBREL_BYTES: Final = 4


def begin_again(session: Session) -> None:
    """Queue all flights to be sent again, in their order (MQTT-4.6.0-1)."""
    session.resend = deque(packet_id for packet_id, _ in session.window) or None


def begin_flight(
    client: Outgoing,
    session: Session,
    event: Event,
    interest: SubscribedFilter | None,
    qos: int,
    *,
    retain: bool,
    assignment: Assignment | None = None,
) -> int:
    """Add a flight with the state to send it again; return its identifier."""
    wanted = cast("SubscribedFilter", interest)
    form = cast("DeliveryFormat", wanted.form)
    sent = Sent(event, form, qos, retain, wanted.identifiers, session.next_order())
    sent.assignment = assignment
    if event.encodings is not None and PARTS in event.encodings:
        sent.payload = event.payload
    number = session.window.begin(Flight(sent, client.deliveries.now()))
    if session.kept:
        session.changed[number] = None
    return number


def send_again(client: Outgoing, session: Session) -> None:
    """Send flights of an earlier connection again, within the Receive Maximum.

    It is reset on each connection (MQTT 5, 4.9); PUBRELs do not count. One turn sends as much as of
    new messages, so that a full socket is noticed.
    """
    window, waiting = session.window, session.resend or deque[int]()
    left, left_bytes = client.deliveries.flush_events, SUBSCRIPTION_TAKE_BYTES_MAX
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


def _send_one(client: Outgoing, session: Session, packet_id: int, flight: Flight) -> int:
    """Send one flight again; return its size in bytes."""
    sent = sent_of(flight)
    flight.sent_again(client.deliveries.now())
    if flight.released:
        client.write(_pubrel(client, packet_id))
        return _PUBREL_BYTES
    parts = UNSENDABLE if sent is None or sent.event is None else _parts(client, sent, sent.event)
    size = len(parts[0]) + len(parts[1]) + 2
    if not parts[0] or 0 < client.packet_bytes_max < size:  # nothing to send
        _missed(client, session, sent, parts)
        return _give_up(client, session, packet_id, sent)
    head = bytes((parts[0][0] | _DUP,)) + parts[0][1:]  # MQTT-3.3.1-1
    client.write(head + packet_id.to_bytes(2, "big") + parts[1])
    if sent is not None and sent.event is not None:
        client.traffic.sent(1, client.deliveries.forms.size(sent.event, sent.form))
    return size


def _give_up(client: Outgoing, session: Session, packet_id: int, sent: Sent | None) -> int:
    """End a flight that can no longer be sent; return the bytes sent for that.

    With QoS 2 the client may have the message, and remember the identifier: it would take the next
    message with it for a duplicate. PUBREL releases it in either case.
    """
    session.changed[packet_id] = None
    if session.sharing is not None and sent is not None:
        session.sharing.done(sent)
    if sent is None or sent.qos < 2:
        session.window.acknowledge(packet_id)
        return 0
    session.window.release(packet_id, client.deliveries.now())
    sent.order = session.next_order()
    client.write_saved((_pubrel(client, packet_id),))
    return _PUBREL_BYTES


def _pubrel(client: Outgoing, packet_id: int) -> bytes:
    return encode(Pubrel(packet_id), client.connection.version)


def _missed(client: Outgoing, session: Session, sent: Sent | None, parts: Parts) -> None:
    """Record a gap for a flight that is not sent again, unless the event is withheld."""
    kernel = client.deliveries.kernel
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


def _parts(client: Outgoing, sent: Sent, event: Event) -> Parts:
    """Encode the PUBLISH again; started deliveries are completed even if expired."""
    left = -1
    if event.expires_at:
        left = max(0, ceil(event.expires_at - client.deliveries.now()))
    return client.deliveries.forms.own_parts(
        event,
        sent.form,
        sent.qos,
        retain=sent.retain,
        identifiers=sent.identifiers,
        left_seconds=left,
    )


async def read_again(client: Outgoing, session: Session) -> None:
    """Read the events from the log that were in flight when the server stopped.

    Trimmed events are looked up in the current records; flights of lost events end in their turn.
    """
    wanted: dict[int, list[Sent]] = {}
    for _, flight in session.window:
        sent = sent_of(flight)
        if sent is not None and sent.event is None and sent.seq and not flight.released:
            wanted.setdefault(sent.seq, []).append(sent)
    if not wanted:
        return
    kernel = client.deliveries.kernel
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
            known = await _of_step(kernel, sent, event)
            if known is None and sent.payload and stage is None:  # trimmed, and nobody may object
                known = Event(step_topic(sent) or sent.topic, MESSAGE, b"", None, sent.qos, True)
            again = row_again(known, sent.topic) if known is not None else None
            if again is not None and stage is not None:
                again = stage.show(again, sent.qos)
            sent.event = step_again(sent, known, again)


async def _of_step(kernel: Kernel, sent: Sent, event: Event | None) -> Event | None:
    """Return the event at the topic of a step, which another one's may have moved; else itself."""
    topic = step_topic(sent)
    if not topic or (event is not None and event.topic == topic):
        return event
    table = kernel.registry.route(topic).table
    if table is None:
        return None
    record = await kernel.reader.get(table, topic)
    if record is not None and record.seq <= sent.seq:
        return record
    return await kernel.reader.change(table, topic, sent.seq)
