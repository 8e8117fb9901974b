"""Notices to a client about its subscriptions, at the server's own topics.

Marks are sent to clients that requested them (C12, M1). Gaps (M4) are sent to clients that
requested them with a user property, at ``$gap/<subscription identifier>``, with the QoS of the
subscription concerned, and to subscribers of ``$gap/#``, with the QoS of that; plain clients get
neither.
"""

from typing import Final, cast

from rowcast.codecs import JSON, encode
from rowcast.core.events import COMMIT, CURRENT, MESSAGE, RESET, Event
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat, Frame
from rowcast.doors.mqtt.delivery.inflight import begin_flight
from rowcast.doors.mqtt.delivery.notice_frame import NoticeFrame
from rowcast.doors.mqtt.delivery.outgoing import Outgoing
from rowcast.doors.mqtt.delivery.sent import CompactInflight
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.mqtt.encode import publish_head_tail
from rowcast.mqtt.packets import MQTT_5
from rowcast.subscriptions.addressed import Replayed
from rowcast.subscriptions.gaps import Gap
from rowcast.subscriptions.subscription import SubscribedFilter

MARKS: Final = {CURRENT: "$snapshot/end", RESET: "$reset"}
"""Topics of marks."""
COMMITS: Final = "$commit"
"""The topic of marks after transactions (C23)."""
GAPS: Final = "$gap/"
"""The prefix of topics of gaps."""


def mark(
    client: Outgoing,
    session: Session,
    event: Event,
    interest: SubscribedFilter | None,
    frames: list[bytes],
) -> bool:
    """Send a mark to a client that requested it; return whether it has QoS 2."""
    if isinstance(event, Replayed):
        return send_replayed(client, event, interest, frames)
    if isinstance(event, Gap):
        return send_gap(client, session, event, frames)
    if event.kind == COMMIT:
        form = cast("DeliveryFormat", interest.form) if interest is not None else client.form
        for number in (interest.identifiers if interest is not None else ()) or (0,):
            _send_mark(client, cast("DeliveryFormat", form), event, f"{COMMITS}/{number}", frames)
        return False
    if interest is None:  # it concerns all: use the options of one that requested it
        asked = (item for item in session.interests if cast("DeliveryFormat", item.form).tells_seq)
        first = next(asked, None)
        form = client.form if first is None else cast("DeliveryFormat", first.form)
        if form is not None and form.tells_seq:
            _send_mark(client, form, event, f"{MARKS[event.kind]}/0", frames)
        return False
    for one in interest.merged or (interest,):  # several filters began anew together
        _send_mark_of(client, event, one, frames)
    return False


def _send_mark_of(
    client: Outgoing, event: Event, interest: SubscribedFilter, frames: list[bytes]
) -> None:
    """Send a mark about one filter; a RESET names it, since identifiers are shared or missing."""
    form = cast("DeliveryFormat | None", interest.form)
    if form is None or not form.tells_seq:
        return
    name = interest.identifiers[0] if interest.identifiers else 0
    filters = interest.asked or interest.topics.text if event.kind == RESET else ""
    _send_mark(client, form, event, f"{MARKS[event.kind]}/{name}", frames, filters)


def _send_mark(
    client: Outgoing,
    form: DeliveryFormat,
    event: Event,
    topic: str,
    frames: list[bytes],
    filters: str = "",
) -> None:
    """Append the message of a mark, with its position, and the text of its filter."""
    facts = dict(event.decoded) if isinstance(event.decoded, dict) else {}
    if filters:
        facts["filter"] = filters
    facts["cursor"] = cursor = client.deliveries.kernel.cursor(event.seq)
    content: dict[str, object] = {}
    if form.version == MQTT_5:
        content["user_property"] = (("seq", cursor),)
    payload = encode(facts, form.media_type or JSON)
    head, tail = publish_head_tail(form.version, topic, payload, 0, False, False, content)
    if is_large(client, head + tail):
        client.deliveries.dropped_large += 1
    else:
        frames.append(NoticeFrame(head + tail))


def send_replayed(
    client: Outgoing, event: Replayed, interest: SubscribedFilter | None, frames: list[bytes]
) -> bool:
    """Send an event of the past, or a mark, below the replay's prefix (M6); it has no QoS 2."""
    if interest is None or interest.replay is None:
        return False
    forms, form, original = client.deliveries.forms, interest.form, event.original
    at = interest.replay.prefix + (original.topic or f"${original.kind}")
    frame = forms.replayed(original, at, cast("DeliveryFormat", form), interest.identifiers)
    if frame and is_large(client, frame):
        client.deliveries.dropped_large += 1
    elif frame:
        client.traffic.sent(1, len(original.payload))
        frames.append(NoticeFrame(frame))
    return False


def send_gaps(
    client: Outgoing, session: Session, frames: list[bytes], most: int | None = None
) -> bool:
    """Send pending gaps; return whether any is sent after a save: one of QoS 2."""
    after_save = False
    for gap in session.gaps.take(most):
        after_save |= send_gap(client, session, gap, frames)
    return after_save


def send_gap(client: Outgoing, session: Session, gap: Gap, frames: list[bytes]) -> bool:
    """Send a gap to a client that requested it; return whether it has QoS 2."""
    concerned = _concerned(session, gap.interest)
    numbers = gap.interest.identifiers if gap.interest is not None else ()
    topic = f"{GAPS}{numbers[0] if numbers else 0}"
    listening: tuple[SubscribedFilter, ...] = ()
    if session.subscription is not None:
        listening = session.subscription.interests.matching(topic)
    tellers = [*listening, *([concerned] if concerned is not None else ())]
    if not tellers:
        return False
    facts: dict[str, object] = {"gap": gap.facts(client.deliveries.kernel.cursor)}
    if gap.interest is not None and not gap.interest.merged:
        facts["filter"] = gap.interest.asked or gap.interest.topics.text
    event = Event(topic, MESSAGE, encode(facts, JSON), JSON)
    return _send(client, session, gap, event, tellers, frames)


def _send(
    client: Outgoing,
    session: Session,
    gap: Gap,
    event: Event,
    tellers: list[SubscribedFilter],
    frames: list[bytes],
) -> bool:
    """Append the message that tells of a gap; return whether it is sent after a save: QoS 2."""
    form = cast("DeliveryFormat", tellers[0].form)
    qos = max(item.qos for item in tellers)
    identifiers = tuple(number for item in tellers for number in item.identifiers)
    head, tail = client.deliveries.forms.own_parts(
        event, form, qos, retain=False, identifiers=identifiers, left_seconds=-1
    )
    if is_large(client, (head, tail)):
        client.deliveries.dropped_large += 1
        return False
    if not qos:
        frame = NoticeFrame(head + tail)
        frame.gap = gap
        frames.append(frame)
        return False
    if session.kept:
        number = begin_flight(client, session, event, tellers[0], qos, retain=False)
    else:
        number = session.window.begin(0 if qos == 1 else CompactInflight.SENT)
    frames.append(head + number.to_bytes(2, "big") + tail)
    return qos == 2 and session.kept


def _concerned(session: Session, interest: SubscribedFilter | None) -> SubscribedFilter | None:
    """Return the subscription concerned, or any if all are, if it requested gaps."""
    if interest is not None:
        return interest if interest.gaps else None
    shares = session.sharing.shares.values() if session.sharing is not None else ()
    interests = (*session.interests, *(item for _, item in shares))
    return next((item for item in interests if item.gaps), None)


def is_large(client: Outgoing, frame: Frame) -> bool:
    """Whether a packet is over the client's limit (MQTT-3.1.2-24)."""
    most = client.packet_bytes_max
    size = len(frame) if isinstance(frame, bytes) else len(frame[0]) + len(frame[1]) + 2
    return 0 < most < size
