"""Delivery: what a subscription has for a client becomes frames, as far as there is room for them.

There are three kinds of room: the client's Receive Maximum (MQTT-3.3.4-7), the socket, and a fair
share of the loop's turn. What has no room stays in the subscription, where it is bounded and, if it
is logged, never lost. One PUBLISH is a dictionary lookup and an append: the frame is shared.
"""

from math import ceil
from typing import TYPE_CHECKING, cast

from app.broker.flights import Light, Sent, send_again
from app.broker.forms import Form, Frame, Parts
from app.broker.session import Session
from app.broker.sharing import Sharing
from app.codecs import JSON, encode
from app.core.events import CURRENT, GAP, RESET, SNAPSHOT, Event
from app.core.limits import MQTT_FLUSH_EVENTS
from app.engine.deals import Deal
from app.engine.subscription import Interest, Pair
from app.mqtt.encode import publish_head_tail
from app.mqtt.packets import MQTT_5
from app.mqtt.window import Flight

if TYPE_CHECKING:
    from app.broker.client import Client

MARKS = {CURRENT: "$snapshot/end", RESET: "$reset", GAP: "$gap"}
"""Topics of the server's own messages about a subscription (FEATURES C12, M1)."""


def deliver(client: "Client", session: Session) -> None:
    """Encode what the subscription has, as far as there is room; the rest is for the next turn."""
    subscription = session.subscription
    if subscription is None or len(client.later) >= MQTT_FLUSH_EVENTS:
        return  # it is being opened; or the disk is slow: it calls again when it has caught up
    if session.resend:
        send_again(client, session)
        if session.resend:
            return  # what was sent before goes first (MQTT-4.6.0-1)
    if session.sharing is not None:
        _send_deals(client, session, session.sharing)
    limit = MQTT_FLUSH_EVENTS
    if session.reliable or subscription.paging:
        limit = min(limit, session.window.receive_maximum - len(session.window))
        if limit <= 0:
            client.blocked = True  # an acknowledgement calls again
            return
    pairs = subscription.take(limit)
    if pairs:
        frames: list[bytes] = []
        certain = _encode(client, session, pairs, frames)
        _post(client, session, frames, certain=certain and session.kept)
    if subscription.ready:
        client.ready()


def _post(client: "Client", session: Session, frames: list[bytes], *, certain: bool) -> None:
    """Send frames now, or, if that is to be certain, when what they are is on disk."""
    if session.kept:
        client.broker.keeper.touch(session)
    if certain or client.later or client.saving:  # QoS 2, or in order behind it
        client.later += frames
    else:
        client.out += frames


def _send_deals(client: "Client", session: Session, sharing: Sharing) -> None:
    """Send what groups dealt; what cannot be sent is done (MQTT-3.1.2-25, MQTT-3.3.2-5)."""
    frames: list[bytes] = []
    certain = False
    while sharing.given:
        deal = sharing.given.popleft()
        let = sharing.let(deal)
        if let is None:
            deal.group.done(deal)
            continue
        event, interest = let
        qos = deal.qos = min(deal.qos, event.qos)
        retain = interest.retain_as_published and event.retain
        frame = _frame(client, event, interest, qos, retain=retain)
        if frame is None:
            deal.group.done(deal)
            continue
        client.sent += 1
        if not qos:
            frames.append(cast("bytes", frame))
            deal.group.done(deal)
            continue
        deal.sent = True
        head, tail = cast("Parts", frame)
        number = _begin(client, session, event, interest, qos, retain=retain, deal=deal)
        sharing.sent(deal, number)
        frames.append(head + number.to_bytes(2, "big") + tail)
        # Saved for a clean session too: after a kill nobody else is sent it (MQTT-4.8.2-5).
        certain |= qos == 2 and (session.kept or deal.group.durable)
    if frames:
        _post(client, session, frames, certain=certain)
    sharing.ready()


def _frame(
    client: "Client", event: Event, interest: Interest, qos: int, *, retain: bool
) -> Frame | None:
    """Return what to send; None when it expired, is too large, or cannot be written."""
    frame: Frame
    if interest.identifiers or event.expires_at:
        parts = _own(client, event, interest, qos, retain=retain)
        if parts is None:
            return None
        frame = parts if qos else parts[0] + parts[1]
    else:
        form = cast("Form", interest.form)
        key = form.keys[qos * 2 + retain]
        known = event.encodings.get(key) if event.encodings is not None else None
        if known is None:
            frame = client.broker.forms.frame(event, form, qos, retain)
        else:
            frame = cast("Frame", known)
    if not frame or not frame[0]:  # UNSENDABLE
        return None
    return _fitted(client, event, cast("Form", interest.form), frame)


def _encode(client: "Client", session: Session, pairs: list[Pair], frames: list[bytes]) -> bool:
    """Append the frames of some messages; return whether any has QoS 2 and must be sure of it.

    Long because it is the hot path: a call for each message would cost as much as the message.
    """
    out, begin = frames.append, session.window.begin
    asks_more = client.packet_bytes_max > 0 or client.aliases is not None
    light, certain = not session.kept, False
    make = client.broker.forms.frame
    last: Interest | None = None
    sent = 0
    for event, interest in pairs:
        if not event.topic:
            _mark(client, session, event, interest, frames)
            continue
        if interest is not last:  # nearly always it is the same as for the one before
            if interest is None:
                continue
            last = interest
            form: Form = interest.form  # type: ignore[assignment]
            keys, granted = form.keys, interest.qos
            own, as_published = interest.identifiers, interest.retain_as_published
        qos = event.qos
        if qos > granted:  # noqa: PLR1730 - min() costs more than all the rest # MQTT-3.8.4-8
            qos = granted
        retain = event.kind is SNAPSHOT or (as_published and event.retain)  # MQTT-3.3.1-12, -13
        encodings = event.encodings
        if own or event.expires_at:
            parts = _own(client, event, cast("Interest", interest), qos, retain=retain)
            if parts is None:
                continue
            frame: object = parts if qos else parts[0] + parts[1]
        else:
            frame = encodings.get(keys[qos * 2 + retain]) if encodings is not None else None
            if frame is None:
                frame = make(event, form, qos, retain)
        if asks_more:
            frame = _fitted(client, event, form, cast("Frame", frame))
            if frame is None:
                continue
        if qos:
            pair: Parts = frame  # type: ignore[assignment]
            if pair[0]:  # not UNSENDABLE
                if light:
                    number = begin(event.seq if qos == 1 else Light.SENT)
                else:
                    number = _begin(client, session, event, interest, qos, retain=retain)
                    certain |= qos == 2
                out(pair[0] + number.to_bytes(2, "big") + pair[1])
        else:
            out(frame)  # type: ignore[arg-type]
        sent += 1
    client.sent += sent
    return certain


def _begin(
    client: "Client",
    session: Session,
    event: Event,
    interest: Interest | None,
    qos: int,
    *,
    retain: bool,
    deal: Deal | None = None,
) -> int:
    """Put a message in flight with all it takes to send it again; return its identifier."""
    wanted = cast("Interest", interest)
    form = cast("Form", wanted.form)
    sent = Sent(event, form, qos, retain, wanted.identifiers, session.next_order())
    sent.deal = deal
    number = session.window.begin(Flight(sent, client.broker.now()))
    if session.kept:
        session.changed.add(number)
    return number


def _own(
    client: "Client", event: Event, interest: Interest, qos: int, *, retain: bool
) -> Parts | None:
    """Return a frame that few share; None when the message has expired (MQTT-3.3.2-5)."""
    left = -1
    if event.expires_at:
        left = ceil(event.expires_at - client.broker.now())
        if left <= 0:
            client.broker.expired += 1
            if client.session is not None:
                client.session.expired += 1
            return None
    return client.broker.forms.own_parts(
        event,
        cast("Form", interest.form),
        qos,
        retain=retain,
        identifiers=interest.identifiers,
        left_seconds=left,
    )


def _fitted(client: "Client", event: Event, form: Form, frame: Frame) -> Frame | None:
    """Return a frame as this client takes it: with a Topic Alias if it keeps some (FEATURES D42).

    None for one that is over its limit: then it counts as sent (MQTT-3.1.2-25).
    """
    aliases = client.aliases
    if aliases is not None and frame and frame[0]:  # not UNSENDABLE
        topic = event.topic
        number = aliases.find(topic)
        known = number > 0
        if known or (number := aliases.assign(topic)):
            aliased = client.broker.forms.aliased(event, form, frame, number, known=known)
            if not _is_large(client, aliased):
                return aliased
            if not known:
                aliases.forget(topic)
    if _is_large(client, frame):
        client.broker.dropped_large += 1
        return None
    return frame


def _is_large(client: "Client", frame: Frame) -> bool:
    """Tell whether a packet is over the client's limit (MQTT-3.1.2-24)."""
    most = client.packet_bytes_max
    size = len(frame) if isinstance(frame, bytes) else len(frame[0]) + len(frame[1]) + 2
    return 0 < most < size


def _mark(
    client: "Client",
    session: Session,
    event: Event,
    interest: Interest | None,
    frames: list[bytes],
) -> None:
    """Tell a client that asked for it where it stands, under a topic of the server's own."""
    if interest is None:  # it concerns all of them: one that asked says how to tell it
        asked = (item for item in session.interests if cast("Form", item.form).tells_seq)
        interest = next(asked, None)
        name = 0
    else:
        name = interest.identifiers[0] if interest.identifiers else 0
    form = client.form if interest is None else cast("Form", interest.form)
    if form is None or not form.tells_seq:
        return
    facts = dict(event.decoded) if isinstance(event.decoded, dict) else {}
    properties: dict[str, object] = {}
    if event.kind != GAP:  # what was lost has no position
        cursor = client.broker.engine.cursor(event.seq)
        facts["cursor"] = cursor
        if form.version == MQTT_5:
            properties["user_property"] = (("seq", cursor),)
    topic = f"{MARKS[event.kind]}/{name}"
    payload = encode(facts, form.media_type or JSON)
    head, tail = publish_head_tail(form.version, topic, payload, 0, False, False, properties)
    if _is_large(client, head + tail):
        client.broker.dropped_large += 1
    else:
        frames.append(head + tail)
