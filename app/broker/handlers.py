"""What each packet of a client does: one function each, and the table that names them.

A handler translates: it makes an event or a filter of a packet, asks the engine, and answers with
what the engine said. It decides nothing about rights, types or storage.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from app.core.callers import Caller
from app.core.cursors import parse_cursor
from app.core.errors import Code, Error
from app.core.events import DELETE, MESSAGE, PUT, Event
from app.core.limits import CURSORS_IN_CONDITION_MAX, MQTT_SUBSCRIPTIONS_MAX
from app.core.topics import SHARE_PREFIX, TopicFilter
from app.engine.subscription import Interest
from app.engine.write import Condition, Outcome, Receipt
from app.mqtt.packets import (
    MQTT_5,
    Auth,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from app.mqtt.reasons import Reason
from app.mqtt.violations import Violation, protocol_error

if TYPE_CHECKING:
    from app.broker.client import Client
    from app.broker.session import Session

REASONS: dict[Code, Reason] = {
    Code.INVALID: Reason.PAYLOAD_FORMAT_INVALID,
    Code.UNPROCESSABLE: Reason.PAYLOAD_FORMAT_INVALID,
    Code.UNAUTHENTICATED: Reason.NOT_AUTHORIZED,
    Code.DENIED: Reason.NOT_AUTHORIZED,
    Code.NOT_FOUND: Reason.TOPIC_NAME_INVALID,
    Code.NOT_ALLOWED: Reason.TOPIC_NAME_INVALID,
    Code.CONFLICT: Reason.QUOTA_EXCEEDED,
    Code.PRECONDITION: Reason.QUOTA_EXCEEDED,
    Code.GONE: Reason.UNSPECIFIED_ERROR,
    Code.TOO_LARGE: Reason.QUOTA_EXCEEDED,
    Code.UNSUPPORTED: Reason.PAYLOAD_FORMAT_INVALID,
    Code.NOT_ACCEPTABLE: Reason.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.BUSY: Reason.QUOTA_EXCEEDED,
    Code.INTERNAL: Reason.UNSPECIFIED_ERROR,
}
"""The engine's codes as the reasons that a PUBACK may carry (DESIGN, section 9; MQTT 5, 3.4.2.1)."""

KEPT = frozenset(
    {
        "payload_format_indicator",
        "message_expiry_interval",
        "response_topic",
        "correlation_data",
        "user_property",
    }
)
"""Publish properties that travel with the payload (MQTT-3.3.2-4, -15, -16, -17, -20)."""


def on_publish(client: "Client", packet: Publish) -> None:
    """Make an event of a PUBLISH: retained is put, retained and empty is delete, else a message."""
    caller = client.caller
    if caller is None:  # the table of legal packets refuses it before
        return
    qos = packet.qos
    payload = packet.payload
    kind = MESSAGE if not packet.retain else PUT if payload else DELETE
    event = Event(packet.topic, kind, payload, None, qos, packet.retain, None, caller.client_id)
    condition = None
    if packet.properties is not None:
        condition = _take_properties(event, packet.properties)
    if qos == 0:
        client.broker.engine.submit(event, caller, client.broker.refused, condition)
    elif qos == 1:
        if client.publishing >= client.broker.settings.receive_maximum:
            _check_quota(client)
        client.publishing += 1
        packet_id = packet.packet_id
        client.broker.engine.submit(
            event, caller, lambda outcome: acknowledge(client, packet_id, outcome), condition
        )
    else:  # CONNACK said Maximum QoS 1 (MQTT-3.2.2-11)
        raise Violation(Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered; publish with QoS 0 or 1")


def _check_quota(client: "Client") -> None:
    """Refuse more publishes in flight than CONNACK allowed (MQTT-3.3.4-9)."""
    if client.connection.version == MQTT_5:
        raise Violation(
            Reason.RECEIVE_MAXIMUM_EXCEEDED,
            f"more than {client.broker.settings.receive_maximum} publishes are not acknowledged",
        )


def _take_properties(event: Event, properties: dict[str, object]) -> Condition | None:
    """Give an event what the properties say of it; return the condition they set."""
    content_type = properties.get("content_type")
    if isinstance(content_type, str) and content_type:
        event.content_type = content_type
    kept = {name: value for name, value in properties.items() if name in KEPT}
    condition = None
    users = cast("tuple[tuple[str, str], ...]", kept.get("user_property", ()))
    for name, value in users:
        if name == "if-match":
            condition = _condition(value)
    event.properties = kept or None
    return condition


def _condition(text: str) -> Condition:
    """Read the user property ``if-match``: a cursor, ``*`` or, for no record, ``none`` (A16)."""
    if text == "*":
        return Condition(exists=True)
    if text == "none":
        return Condition(exists=False)
    tokens = text.split(",", CURSORS_IN_CONDITION_MAX)
    return Condition(seqs=frozenset(parse_cursor(token).seq for token in tokens))


def acknowledge(client: "Client", packet_id: int, outcome: Outcome) -> None:
    """Answer a QoS 1 PUBLISH when it is done: durable if it is to be stored (FEATURES D15)."""
    client.publishing -= 1
    if client.closing:
        return
    v5 = client.connection.version == MQTT_5
    if isinstance(outcome, Receipt):
        if v5 and outcome.event.seq:
            seq = client.broker.engine.cursor(outcome.event.seq)
            client.send(Puback(packet_id, Reason.SUCCESS, {"user_property": (("seq", seq),)}))
        else:
            client.write(b"\x40\x02" + packet_id.to_bytes(2, "big"))
        return
    client.broker.refused(outcome)
    if v5:
        properties = client.explain(outcome.message) or {}
        current = outcome.detail.get("seq")
        if isinstance(current, int):
            properties["user_property"] = (("seq", client.broker.engine.cursor(current)),)
        client.send(Puback(packet_id, REASONS[outcome.code], properties or None))
    elif outcome.code in {Code.BUSY, Code.INTERNAL}:
        # There is no word for "not stored" before MQTT 5. Not acknowledging makes the client send it
        # again when it reconnects; acknowledging would lose it.
        client.disconnect(Reason.SERVER_BUSY)
    else:
        client.write(b"\x40\x02" + packet_id.to_bytes(2, "big"))


def on_puback(client: "Client", packet: Puback) -> None:
    """End a flight; an unknown identifier is ignored, as a late one may be."""
    session = _session(client)
    session.window.acknowledge(packet.packet_id)
    client.acknowledged()


def _session(client: "Client") -> "Session":
    if client.session is None:
        raise protocol_error("CONNECT has not been accepted yet.")
    return client.session


def on_subscribe(client: "Client", packet: Subscribe) -> None:
    """Begin or change interests; SUBACK goes before the first message of them."""
    session = _session(client)
    properties = packet.properties or {}
    users = dict(cast("tuple[tuple[str, str], ...]", properties.get("user_property", ())))
    identifier = properties.get("subscription_identifier")
    identifiers = (identifier,) if isinstance(identifier, int) else ()
    reasons: list[Reason] = []
    problems: list[str] = []
    for wanted in packet.subscriptions:
        try:
            reasons.append(_subscribe(client, session, wanted, identifiers, users))
        except Error as error:
            reasons.append(_filter_reason(error))
            problems.append(error.message)
    explained = client.explain("; ".join(problems)[:1000]) if problems else None
    told = {"user_property": (("seq", client.broker.engine.head),)} if users else {}
    client.send(Suback(packet.packet_id, tuple(reasons), (explained or {}) | told or None))


def _subscribe(
    client: "Client",
    session: "Session",
    wanted: Subscription,
    identifiers: tuple[int, ...],
    users: dict[str, str],
) -> Reason:
    """Begin one interest; returns the reason of success: the QoS that is granted."""
    if wanted.filter.startswith(SHARE_PREFIX):  # CONNACK said they are not available
        raise Violation(
            Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, "shared subscriptions are not offered"
        )
    subscription = session.subscription
    known = wanted.filter in subscription.interests
    if not known and len(subscription.interests) >= MQTT_SUBSCRIPTIONS_MAX:
        raise Error(Code.BUSY, f"a client may have {MQTT_SUBSCRIPTIONS_MAX} subscriptions")
    form = client.broker.form_of(client, users)
    qos = min(wanted.qos, 1)
    interest = Interest(
        TopicFilter(wanted.filter),
        qos,
        wanted.no_local,
        wanted.retain_as_published,
        identifiers,
        marks=form.tells_seq,
        form=form,
    )
    handling = wanted.retain_handling  # MQTT-3.3.1-9, -10, -11
    client.broker.engine.watch(
        subscription,
        interest,
        cast("Caller", client.caller),
        users.get("since"),
        current=handling == 0 or (handling == 1 and not known),
    )
    session.qos_max = max(session.qos_max, qos)
    return Reason(qos)


def _filter_reason(error: Error) -> Reason:
    if isinstance(error, Violation):
        return error.reason
    if error.code in {Code.DENIED, Code.UNAUTHENTICATED}:
        return Reason.NOT_AUTHORIZED
    if error.code is Code.BUSY:
        return Reason.QUOTA_EXCEEDED
    return Reason.TOPIC_FILTER_INVALID


def on_unsubscribe(client: "Client", packet: Unsubscribe) -> None:
    """End interests; each filter is told whether there was one (MQTT 5, 3.11.3)."""
    session = _session(client)
    reasons: list[Reason] = []
    for text in packet.filters:
        try:
            found = client.broker.engine.unwatch(session.subscription, TopicFilter(text))
            reasons.append(Reason.SUCCESS if found else Reason.NO_SUBSCRIPTION_EXISTED)
        except Error:
            reasons.append(Reason.TOPIC_FILTER_INVALID)
    session.qos_changed()
    client.send(Unsuback(packet.packet_id, tuple(reasons)))


def on_connect(client: "Client", packet: Connect) -> None:
    """Admit a client."""
    client.broker.connect(client, packet)


def on_pingreq(client: "Client", _packet: Pingreq) -> None:
    """Answer a sign of life (MQTT-3.12.4-1)."""
    client.send(Pingresp())


def on_disconnect(client: "Client", packet: Disconnect) -> None:
    """End as the client wishes: its will is forgotten unless it asks for it (MQTT-3.14.4-3)."""
    if packet.reason != Reason.DISCONNECT_WITH_WILL_MESSAGE:
        client.will = None
    client.end()


def on_pubrel(client: "Client", packet: Pubrel) -> None:
    """Answer a PUBREL of a message that was never taken (MQTT 5, 3.7.2.1)."""
    client.send(Pubcomp(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))


def on_pubrec(client: "Client", packet: Pubrec) -> None:
    """Answer a PUBREC of a message that was never sent with QoS 2 (MQTT 5, 3.6.2.1)."""
    client.send(Pubrel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))


def on_pubcomp(_client: "Client", _packet: Pubcomp) -> None:
    """Take a PUBCOMP: the answer to the PUBREL above."""


def on_auth(_client: "Client", _packet: Auth) -> None:
    """Refuse AUTH: no method was accepted in CONNACK (MQTT-4.12.0-7)."""
    raise protocol_error("AUTH must not be sent: no authentication method is in use")


HANDLERS: dict[type, Callable[..., None]] = {
    Connect: on_connect,
    Publish: on_publish,
    Puback: on_puback,
    Pubrec: on_pubrec,
    Pubrel: on_pubrel,
    Pubcomp: on_pubcomp,
    Subscribe: on_subscribe,
    Unsubscribe: on_unsubscribe,
    Pingreq: on_pingreq,
    Disconnect: on_disconnect,
    Auth: on_auth,
}
"""Packet class to what it does (FEATURES D12)."""
