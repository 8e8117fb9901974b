"""PUBLISH and PUBACK: a message goes to the engine, and its answer back to who sent it.

The engine decides whether it is allowed, valid and stored; here is only which words of MQTT say so.
Answers go out in the order of the publishes (MQTT-4.6.0-2), although a refusal is known at once and
a commit takes a while: each publish of QoS 1 has a number, and an answer waits for those before it.
"""

from functools import partial
from typing import TYPE_CHECKING

from app.broker.messages import condition_of, describe
from app.core.errors import Code, Error
from app.core.events import DELETE, MESSAGE, PUT, Event
from app.engine.write import Done, Outcome, Receipt
from app.mqtt.packets import MQTT_5, Puback, Publish
from app.mqtt.reasons import Reason
from app.mqtt.violations import Violation

if TYPE_CHECKING:
    from app.broker.client import Client

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
"""The engine's codes as the reasons that a PUBACK may carry (app/README.md; MQTT 5, 3.4.2.1)."""

_NOT_STORED = frozenset({Code.BUSY, Code.INTERNAL})
"""Refusals that are the server's, not the message's: sent again, it may succeed."""


def on_publish(client: "Client", packet: Publish) -> None:
    """Make an event of a PUBLISH and submit it."""
    caller = client.caller
    if caller is None:  # the table of legal packets refuses it before
        return
    qos = packet.qos
    retain = packet.retain
    payload = packet.payload
    kind = MESSAGE if not retain else PUT if payload else DELETE
    event = Event(packet.topic, kind, payload, None, qos, retain, None, caller.client_id)
    done: Done = client.unheard if not qos else _answer_to(client, packet)
    properties = packet.properties
    if properties is None:
        client.submit(event, caller, done)
        return
    describe(event, properties)
    try:
        condition = condition_of(properties, client.broker.engine.reader.epoch)
    except Error as error:
        done(error)
    else:
        client.submit(event, caller, done, condition)


def _answer_to(client: "Client", packet: Publish) -> Done:
    """Return what answers a PUBLISH of QoS 1 when it is done."""
    if packet.qos == 2:  # CONNACK said Maximum QoS 1 (MQTT-3.2.2-11)
        raise Violation(Reason.QOS_NOT_SUPPORTED, "QoS 2 is not offered; publish with QoS 0 or 1")
    number = client.taken = client.taken + 1
    if number - client.answered > client.quota:  # MQTT-3.3.4-9
        raise Violation(
            Reason.RECEIVE_MAXIMUM_EXCEEDED,
            f"more than {client.quota} publishes are not acknowledged",
        )
    return partial(acknowledge, client, number, packet.packet_id)


def acknowledge(client: "Client", number: int, packet_id: int, outcome: Outcome) -> None:
    """Answer a QoS 1 PUBLISH when it is done: durable if it is to be stored (FEATURES D15)."""
    if number != client.answered + 1:  # MQTT-4.6.0-2
        client.early[number] = packet_id, outcome
        return
    client.answered = number
    _answer(client, packet_id, outcome)
    early = client.early
    while early:
        following = early.pop(client.answered + 1, None)
        if following is None:
            return
        client.answered += 1
        _answer(client, *following)


def _answer(client: "Client", packet_id: int, outcome: Outcome) -> None:
    if type(outcome) is not Receipt:
        _answer_refusal(client, packet_id, outcome)  # type: ignore[arg-type]
    elif outcome.event.seq and client.tells_seq:  # D51, M1
        frame = _stored(packet_id, client.broker.engine.cursor(outcome.event.seq))
        if 0 < client.packet_bytes_max < len(frame):  # MQTT-3.4.2-3
            frame = b"\x40\x02" + packet_id.to_bytes(2, "big")
        client.write(frame)
    else:
        client.write(b"\x40\x02" + packet_id.to_bytes(2, "big"))


def _stored(packet_id: int, cursor: str) -> bytes:
    """Return a PUBACK with the user property ``seq``.

    Written out because a busy table answers every write with one, and the general way takes five
    times as long.
    """
    text = cursor.encode()
    size = len(text)  # at most 28: the epoch, a colon and 64 bits
    return b"".join(
        (
            bytes((0x40, size + 12)),
            packet_id.to_bytes(2, "big"),
            bytes((0, size + 8)),  # success, and the length of the properties
            b"\x26\x00\x03seq\x00",
            bytes((size,)),
            text,
        )
    )


def _answer_refusal(client: "Client", packet_id: int, error: Error) -> None:
    """Say that a PUBLISH was refused, as far as the version has words for it (FEATURES D43)."""
    client.note_refusal(error)
    if client.connection.version == MQTT_5:
        properties = client.explain(error.message)
        current = error.detail.get("seq")
        if properties is not None and isinstance(current, int):  # A16: what the loser needs
            properties["user_property"] = (("seq", client.broker.engine.cursor(current)),)
        client.send(Puback(packet_id, REASONS[error.code], properties))
    elif error.code in _NOT_STORED:
        # There is no word for "not stored" before MQTT 5. Not acknowledging makes the client send
        # it again when it reconnects; acknowledging would lose it.
        client.disconnect(Reason.SERVER_BUSY)
    else:
        client.write(b"\x40\x02" + packet_id.to_bytes(2, "big"))


def on_puback(client: "Client", packet: Puback) -> None:
    """End a flight; an unknown identifier is ignored, as a late one may be."""
    if client.session is None:  # the table of legal packets refuses it
        return
    client.session.window.acknowledge(packet.packet_id)
    if client.blocked:
        client.blocked = False
        client.ready()
