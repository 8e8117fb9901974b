"""Delivery: encodes a subscription's events as frames, within the client's limits.

There are three limits: the client's Receive Maximum (MQTT-3.3.4-7), the socket, and a fair share of
the loop's turn. Other events stay in the subscription, whose queue is bounded and which never loses
logged events. One PUBLISH is a dictionary lookup and an append: the frame is shared.
"""

from math import ceil
from typing import cast

from rowcast.core.events import SNAPSHOT, Event
from rowcast.doors.mqtt.delivery.ack_latency import begin_timing, begin_timing_assignment
from rowcast.doors.mqtt.delivery.delivery_format import SIZE, DeliveryFormat, Frame, Parts
from rowcast.doors.mqtt.delivery.gap_notices import is_large, mark, send_gap, send_gaps
from rowcast.doors.mqtt.delivery.inflight import begin_flight, send_again
from rowcast.doors.mqtt.delivery.outgoing import Outgoing
from rowcast.doors.mqtt.delivery.sent import CompactInflight
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.doors.mqtt.sessions.sharing import Sharing
from rowcast.features.shared_subscriptions.assignments import Assignment
from rowcast.subscriptions.gaps import Gap, GapCause
from rowcast.subscriptions.subscription import Pair, SubscribedFilter


def deliver(client: Outgoing, session: Session) -> None:
    """Encode the subscription's events, within the limits; the rest follows in the next turn."""
    subscription, limit = session.subscription, client.deliveries.flush_events
    if subscription is None or len(client.later) >= limit:
        return  # CONNECT is being answered, or the disk is slow, which calls again
    if session.resend:
        send_again(client, session)
    if session.gaps.marks:
        _report_unsendable(client, session)
    if session.resend:
        return  # flights to send again go first (MQTT-4.6.0-1)
    if session.sharing is not None:
        _send_assignments(client, session, session.sharing)
    if session.reliable or subscription.progress.page:
        limit = min(limit, session.window.receive_maximum - len(session.window))
        if limit <= 0:
            client.blocked = True  # an acknowledgement calls again
            subscription.note_blocked()
            return
    pairs = subscription.take(limit) if subscription.ready else ()
    if pairs:
        frames, before = list[bytes](), client.traffic.publishes_out
        after_save = _encode(client, session, pairs, frames)
        if session.reliable and client.traffic.publishes_out - before == len(pairs):
            begin_timing(client, session.window.latest, *pairs[-1])  # of this session
        if session.kept or client.later or client.saving:
            _post(client, session, frames, after_save=after_save and session.kept)
        else:
            client.out += frames
    if subscription.ready:
        client.ready()


def _report_unsendable(client: Outgoing, session: Session) -> None:
    """Report flights that could not be sent again, within the limits (MQTT-3.3.4-7)."""
    window, frames = session.window, list[bytes]()
    room = window.receive_maximum - (len(window) - len(session.resend or ()))
    if room <= 0:
        client.blocked = True  # an acknowledgement calls again
        return
    after_save = send_gaps(client, session, frames, room)
    _post(client, session, frames, after_save=after_save)


def _post(client: Outgoing, session: Session, frames: list[bytes], *, after_save: bool) -> None:
    """Send frames now, or, if ``after_save``, after their state is on disk."""
    if session.kept:
        client.deliveries.touch(session)
    if after_save or client.later or client.saving:  # QoS 2, or after it in order
        client.later += frames
    else:
        client.out += frames


def _send_assignments(client: Outgoing, session: Session, sharing: Sharing) -> None:
    """Send the assignments of groups."""
    frames: list[bytes] = []
    after_save = False
    while sharing.assigned:
        assignment = sharing.assigned.popleft()
        after_save |= _send_assignment(client, session, sharing, assignment, frames)
        if not assignment.sent:  # nobody waits for an acknowledgement of it
            assignment.group.done(assignment)
    after_save |= send_gaps(client, session, frames)
    if frames:
        _post(client, session, frames, after_save=after_save)
    sharing.ready()


def _send_assignment(
    client: Outgoing,
    session: Session,
    sharing: Sharing,
    assignment: Assignment,
    frames: list[bytes],
) -> bool:
    """Append the frame of an assignment; return whether it is sent after a save.

    One that cannot be sent is done (MQTT-3.1.2-25, MQTT-3.3.2-5).
    """
    delivered = sharing.deliverable(assignment)
    if delivered is None:
        return False
    event, interest = delivered
    qos = assignment.qos = min(assignment.qos, event.qos)
    retain = interest.retain_as_published and event.retain
    if isinstance(event, Gap):
        event.interest = interest
        return send_gap(client, session, event, frames)
    missed = session.gaps.losses.total if assignment.sent_before else 0
    frame = _frame(client, event, interest, qos, retain=retain)
    if frame is None:
        if assignment.sent_before and session.gaps.losses.total > missed:
            session.gaps.take_back()
        return False
    after_save = send_gaps(client, session, frames)
    size = client.deliveries.forms.size(event, cast("DeliveryFormat", interest.form))
    client.traffic.sent(1, size)
    number = 0
    if qos:
        assignment.sent = True
        number = begin_flight(
            client, session, event, interest, qos, retain=retain, assignment=assignment
        )
        sharing.sent(assignment, number)
        head, tail = cast("Parts", frame)
        frame = head + number.to_bytes(2, "big") + tail
    begin_timing_assignment(client, session, assignment, event, interest, number)
    frames.append(cast("bytes", frame))
    # Saved for a clean session, too: after a kill no other member gets it (MQTT-4.8.2-5).
    return after_save or (qos == 2 and (session.kept or assignment.group.durable))


def _frame(
    client: Outgoing, event: Event, interest: SubscribedFilter, qos: int, *, retain: bool
) -> Frame | None:
    """Return the frame to send; None if it expired, is too large, or cannot be encoded.

    None is recorded as a gap.
    """
    frame: Frame
    if interest.identifiers or event.expires_at:
        own = _own(client, event, interest, qos, retain=retain)
        if own is None:
            return None
        frame = own
    else:
        form = cast("DeliveryFormat", interest.form)
        key = form.keys[qos * 2 + retain]
        known = event.encodings.get(key) if event.encodings is not None else None
        if event.first_key is key:
            frame = event.first_frame
        elif known is None:
            frame = client.deliveries.forms.frame(event, form, qos, retain)
        else:
            frame = cast("Frame", known)
    if not frame or not frame[0]:  # UNSENDABLE
        _unsendable(client, event, interest, frame)
        return None
    return _fitted(client, event, interest, frame)


def _encode(client: Outgoing, session: Session, pairs: list[Pair], frames: list[bytes]) -> bool:
    """Append the frames of messages; return whether any has QoS 2, which requires a save.

    Long because it is the hot path: a call for each message would cost as much as the message.
    """
    forms, window, after_save = client.deliveries.forms, session.window, False
    asks_more = client.packet_bytes_max > 0 or client.aliases is not None
    light, marks, sent, payload_bytes = not session.kept, session.gaps.marks, 0, 0
    last: SubscribedFilter | None = None
    for event, interest in pairs:
        if not event.topic:
            after_save |= send_gaps(client, session, frames) | mark(
                client, session, event, interest, frames
            )
            continue
        if interest is not last:  # usually the same as for the one before
            if interest is None:
                continue
            last = interest
            form: DeliveryFormat = interest.form  # type: ignore[assignment]
            keys, granted, as_it_came = form.keys, interest.qos, form.media_type is None
            own, as_published = interest.identifiers, interest.retain_as_published
        qos, encodings = event.qos, event.encodings
        if qos > granted:  # noqa: PLR1730 - min() costs more than all the rest # MQTT-3.8.4-8
            qos = granted
        retain = event.kind is SNAPSHOT or (as_published and event.retain)  # MQTT-3.3.1-12, -13
        if own or event.expires_at:
            frame: Frame | None = _own(
                client, event, cast("SubscribedFilter", interest), qos, retain=retain
            )
        else:
            key = keys[qos * 2 + retain]
            made = encodings.get(key) if encodings is not None else None
            made = event.first_frame if event.first_key is key else made
            frame = made  # type: ignore[assignment]
            if frame is None:
                frame = forms.frame(event, form, qos, retain)
        if asks_more and frame:
            frame = _fitted(client, event, cast("SubscribedFilter", interest), frame)
        if not frame or not frame[0]:  # UNSENDABLE
            _unsendable(client, event, cast("SubscribedFilter", interest), frame)
            continue
        if marks:
            after_save |= send_gaps(client, session, frames)
        if qos:
            pair: Parts = frame  # type: ignore[assignment]
            if light:
                number = window.begin(event.seq if qos == 1 else CompactInflight.SENT)
            else:
                number = begin_flight(client, session, event, interest, qos, retain=retain)
                after_save |= qos == 2
            frames.append(pair[0] + number.to_bytes(2, "big") + pair[1])
        else:
            frames.append(frame)  # type: ignore[arg-type]
        sent += 1
        size = (  # ``DeliveryFormats.size``, inlined
            None if as_it_came and event.table is None else (event.encodings or {}).get(keys[SIZE])
        )
        payload_bytes += size if isinstance(size, int) else len(event.payload)
    client.traffic.publishes_out += sent
    client.traffic.payload_out += payload_bytes
    return after_save | send_gaps(client, session, frames) if marks else after_save


def _own(
    client: Outgoing, event: Event, interest: SubscribedFilter, qos: int, *, retain: bool
) -> Frame | None:
    """Return a rare variant of a frame; None when the message has expired (MQTT-3.3.2-5)."""
    left = -1
    if event.expires_at:
        left = ceil(event.expires_at - client.deliveries.now())
        if left <= 0:
            client.deliveries.expired += 1
            if client.session is not None:
                client.session.gaps.miss(event, interest, GapCause.EXPIRED)
            return None
    parts = client.deliveries.forms.own_parts(
        event,
        cast("DeliveryFormat", interest.form),
        qos,
        retain=retain,
        identifiers=interest.identifiers,
        left_seconds=left,
    )
    return parts if qos else parts[0] + parts[1]


def _unsendable(
    client: Outgoing, event: Event, interest: SubscribedFilter, frame: Frame | None
) -> None:
    """Record a gap for an event that cannot be sent, unless it is not for MQTT."""
    session = client.session
    if session is None or frame is None:  # the reason was recorded
        return
    if not client.deliveries.forms.withholds(event):
        session.gaps.miss(event, interest, GapCause.UNSENDABLE)


def _fitted(
    client: Outgoing, event: Event, interest: SubscribedFilter, frame: Frame
) -> Frame | None:
    """Return a frame for this client: with a Topic Alias if it supports them (D42).

    None for one over its limit, which counts as sent (MQTT-3.1.2-25).
    """
    aliases, form = client.aliases, cast("DeliveryFormat", interest.form)
    if aliases is not None and frame and frame[0]:  # not UNSENDABLE
        topic = event.topic
        number = aliases.find(topic)
        known = number > 0
        if known or (number := aliases.assign(topic)):
            aliased = client.deliveries.forms.aliased(event, form, frame, number, known=known)
            if not is_large(client, aliased):
                return aliased
            if not known:
                aliases.forget(topic)
    if is_large(client, frame):
        client.deliveries.dropped_large += 1
        if client.session is not None:
            client.session.gaps.miss(event, interest, GapCause.TOO_LARGE)
        return None
    return frame
