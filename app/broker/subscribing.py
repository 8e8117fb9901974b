"""SUBSCRIBE and UNSUBSCRIBE: filters become interests of the client's subscription, and end.

A filter that is refused costs nothing but itself: its reason stands in SUBACK, and the words for it
in the reason string.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from app.broker.forms import Form, media_type_wanted
from app.broker.messages import user_properties
from app.core.callers import Caller
from app.core.errors import Code, Error
from app.core.limits import MQTT_SUBSCRIPTIONS_MAX
from app.core.topics import SHARE_PREFIX, TopicFilter
from app.engine.subscription import Interest
from app.engine.subscription import Subscription as LiveCursor
from app.mqtt.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from app.mqtt.reasons import Reason
from app.mqtt.violations import Violation

if TYPE_CHECKING:
    from app.broker.client import Client
    from app.broker.session import Session

_REASONS: dict[Code, Reason] = {
    Code.DENIED: Reason.NOT_AUTHORIZED,
    Code.UNAUTHENTICATED: Reason.NOT_AUTHORIZED,
    Code.BUSY: Reason.QUOTA_EXCEEDED,
    Code.INTERNAL: Reason.UNSPECIFIED_ERROR,
}
"""Codes as the reasons of a SUBACK; for all else 0x83, because the filter itself is in order."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What one SUBSCRIBE says of all its filters: who, in which form, from where on."""

    client: "Client"
    session: "Session"
    caller: Caller
    form: Form
    identifiers: tuple[int, ...]
    since: str | None


def on_subscribe(client: "Client", packet: Subscribe) -> None:
    """Begin or change interests; SUBACK goes before the first message of them."""
    session, caller, form = client.session, client.caller, client.form
    if session is None or caller is None or form is None:  # the table of legal packets refuses it
        return
    reasons: list[Reason] = []
    problems: list[str] = []
    try:
        wish = Wish(client, session, caller, _form(client, form, packet), *_begin(packet))
    except Error as error:
        reasons += [_reason(error)] * len(packet.subscriptions)
        problems.append(error.message)
    else:
        for wanted in packet.subscriptions:
            try:
                reasons.append(_subscribe(wish, wanted))
            except Error as error:
                reasons.append(_reason(error))
                problems.append(f"{wanted.filter[:100]!r}: {error.message}")
    properties = client.explain("; ".join(problems)) if problems else None
    if client.tells_seq:  # M1: the position that what follows begins at
        properties = (properties or {}) | {"user_property": (("seq", client.broker.engine.head),)}
    client.send_saved(Suback(packet.packet_id, tuple(reasons), properties))


def _begin(packet: Subscribe) -> tuple[tuple[int, ...], str | None]:
    """Return the subscription identifiers, and the cursor to continue after."""
    identifier = (packet.properties or {}).get("subscription_identifier")
    identifiers = (identifier,) if isinstance(identifier, int) else ()
    return identifiers, user_properties(packet.properties).get("since")


def _form(client: "Client", form: Form, packet: Subscribe) -> Form:
    """Return the form of these filters: their own user properties win over CONNECT's."""
    users = user_properties(packet.properties)
    if not users:
        return form
    media_type = media_type_wanted(users["accept"]) if "accept" in users else form.media_type
    tells = form.tells_seq or "seq" in users or "since" in users
    return client.broker.forms.form(form.version, media_type, tells_seq=tells)


def _subscribe(wish: Wish, wanted: Subscription) -> Reason:
    """Begin one interest; return the reason of success: the QoS that is granted."""
    if wanted.filter.startswith(SHARE_PREFIX):  # CONNACK said they are not available
        raise Violation(
            Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, "shared subscriptions are not offered"
        )
    topics = _filter(wanted.filter)
    session = wish.session
    known = _interest(session, topics)
    subscription = cast("LiveCursor", session.subscription)
    if known is None and len(subscription.interests) >= MQTT_SUBSCRIPTIONS_MAX:
        raise Error(Code.BUSY, f"a client may have {MQTT_SUBSCRIPTIONS_MAX} subscriptions")
    interest = Interest(
        topics,
        wanted.qos,
        wanted.no_local,
        wanted.retain_as_published,
        wish.identifiers,
        marks=wish.form.tells_seq,
        form=wish.form,
    )
    handling = wanted.retain_handling  # MQTT-3.3.1-9, -10, -11
    fresh = handling == 0 or (handling == 1 and known is None)
    broker = wish.client.broker
    broker.engine.watch(
        subscription,
        interest,
        wish.caller,
        wish.since,
        current=fresh,
    )
    before = known.qos if known is not None else 0
    session.reliable += (interest.qos > 0) - (before > 0)
    if session.kept:
        broker.retain_for(session, topics, before, interest.qos)
        broker.keeper.put_filter(session, interest)
    return Reason(interest.qos)


def _filter(text: str) -> TopicFilter:
    try:
        return TopicFilter(text)
    except Error as error:
        raise Violation(Reason.TOPIC_FILTER_INVALID, error.message) from None  # MQTT-4.7.1-1


def _interest(session: "Session", topics: TopicFilter) -> Interest | None:
    if session.subscription is None or topics.text not in session.subscription.interests:
        return None
    return session.subscription.interests[topics.text]


def _reason(error: Error) -> Reason:
    if isinstance(error, Violation):
        return error.reason
    return _REASONS.get(error.code, Reason.IMPLEMENTATION_SPECIFIC_ERROR)


def on_unsubscribe(client: "Client", packet: Unsubscribe) -> None:
    """End interests; each filter is told whether there was one (MQTT-3.10.4-1, MQTT-3.11.3-1)."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    reasons = tuple(_unsubscribe(client, session, text) for text in packet.filters)
    client.send_saved(Unsuback(packet.packet_id, reasons))


def _unsubscribe(client: "Client", session: "Session", text: str) -> Reason:
    try:
        topics = TopicFilter(text)
    except Error:
        return Reason.TOPIC_FILTER_INVALID
    known = _interest(session, topics)
    if known is None:
        return Reason.NO_SUBSCRIPTION_EXISTED
    client.broker.engine.unwatch(cast("LiveCursor", session.subscription), topics)
    client.broker.forget_filter(session, known)
    return Reason.SUCCESS
