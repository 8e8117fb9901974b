"""PUBLISH and its answers: submits messages to the kernel, and acknowledges them.

The kernel decides whether it is allowed, valid and stored; this module maps the result to MQTT.
Answers are sent in the order of the publishes (MQTT-4.6.0-2), although a refusal is immediate and a
commit takes time: each publish of QoS 1 and 2 has a number, and its answer waits for earlier ones.
"""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PUT, Event
from rowcast.core.topics import TRANSACTIONS
from rowcast.doors.mqtt.delivery.ack_latency import end_timing
from rowcast.doors.mqtt.delivery.sent import CompactInflight, Sent
from rowcast.doors.mqtt.packets.error_reasons import PUBACK_REASONS
from rowcast.doors.mqtt.packets.hook_checks import reason_of
from rowcast.doors.mqtt.packets.messages import condition_of, describe, mark_from, stamp_from
from rowcast.mqtt.packets import MQTT_5, Puback, Publish, Pubrec
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation, protocol_error
from rowcast.mqtt.window import Flight
from rowcast.writes.write import Done, Outcome, Receipt

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session

PUBACK, PUBREC = 0x40, 0x50
"""First bytes of the answers to a PUBLISH of QoS 1 and 2."""
_ACKNOWLEDGEMENT: Final = Struct("!BBH").pack
"""Packs its first byte, its length and the packet identifier: all of it where it says success."""
_WITH_SEQ: Final = Struct("!BBHBB7sB").pack
"""Packs the same and, for MQTT 5, success, the length of the properties and the user property
``seq`` up to its value. A busy table answers every write so; the general encoder takes five times
as long."""
_SEQ: Final = b"\x26\x00\x03seq\x00"
"""A user property (MQTT 5, 3.4.2.2.3), its name, and the first byte of the length of its value."""

_TRANSACTIONS: Final = frozenset({TRANSACTIONS, f"/{TRANSACTIONS}"})

_NOT_STORED: Final = frozenset({Code.BUSY, Code.INTERNAL})
"""Errors of the server, not of the message: a retry may succeed."""


def on_publishes(client: "Client", packets: list[Publish]) -> None:
    """Submit PUBLISH packets.

    Those without properties are submitted together, but for QoS 2 to a session that is on disk:
    the identifier of each is written with its message. Those behind a transaction wait for it.
    """
    caller = cast("Caller", client.caller)  # known, or a PUBLISH is not legal
    events, dones = list[Event](), list[Done]()
    try:
        for position, packet in enumerate(packets):
            if client.closing or client.awaits_store:
                client.held += () if client.closing else packets[position:]
                break
            topic, qos, payload, retain = packet.topic, packet.qos, packet.payload, packet.retain
            alone = packet.properties is not None or topic in _TRANSACTIONS
            if alone or (qos == 2 and not _may_join(client, packet)):
                if events:
                    client.submit_run(events, dones, caller)
                    events, dones = [], []
                _on_publish(client, packet, caller)
                continue
            kind = MESSAGE if not retain else PUT if payload else DELETE
            done: Done = client.no_reply
            if qos == 1:
                done = partial(acknowledge, client, _number(client), PUBACK, packet.packet_id)
            elif qos:
                done = _receipt(client, packet)
            events.append(Event(topic, kind, payload, None, qos, retain, None, caller.client_id))
            dones.append(done)
    finally:
        if len(events) == 1:
            client.submit(events[0], caller, dones[0])
        elif events:
            client.submit_run(events, dones, caller)


def _may_join(client: "Client", packet: Publish) -> bool:
    """Whether a PUBLISH of QoS 2 is a message like any other: new, and with no fact beside it."""
    session = client.session
    return session is not None and not session.kept and packet.packet_id not in session.inbound


def _receipt(client: "Client", packet: Publish) -> Done:
    """Take the identifier of a new PUBLISH of QoS 2; return what answers it."""
    session, number, packet_id = cast("Session", client.session), _number(client), packet.packet_id
    session.inbound[packet_id] = None
    session.taking[packet_id] = []
    done = partial(_received, client, session, number, packet_id)
    return _holding(client, done) if packet.topic in _TRANSACTIONS else done


def _on_publish(client: "Client", packet: Publish, caller: Caller) -> None:
    """Translate a PUBLISH to an event and submit it."""
    qos = packet.qos
    retain = packet.retain
    payload = packet.payload
    kind = MESSAGE if not retain else PUT if payload else DELETE
    event = Event(packet.topic, kind, payload, None, qos, retain, None, caller.client_id)
    properties = packet.properties
    done: Done = client.no_reply
    if qos == 1:
        done = partial(acknowledge, client, _number(client), PUBACK, packet.packet_id)
    elif qos == 2:
        _take(client, packet, event, caller)
        return
    if packet.topic in _TRANSACTIONS:
        done = _holding(client, done)
    if properties is None:
        client.submit(event, caller, done)
        return
    describe(event, properties)
    try:
        stamp_from(event, properties)
        mark_from(event, properties)
        condition = condition_of(properties, client.broker.kernel.reader.epoch)
    except Error as error:
        done(error)
    else:
        client.submit(event, caller, done, condition)


def _holding(client: "Client", done: Done) -> Done:
    """Return what answers a transaction; until then later packets of the client are buffered.

    It writes at other topics, in a task, so that a write behind it would be in the log before it.
    """
    client.awaits_store = True

    def ended(outcome: Outcome) -> None:
        done(outcome)
        _open(client)

    return ended


def _open(client: "Client") -> None:
    """Have the client go on soon, not within ``on_publishes``: it may be refused there."""
    client.loop.call_soon(client.opened)


def _number(client: "Client") -> int:
    """Return the number of a publish of QoS 1 or 2; raises when too many are unanswered."""
    number = client.taken = client.taken + 1
    if number - client.answered + len(client.unreleased) > client.quota:  # MQTT-3.3.4-9
        raise Violation(
            Reason.RECEIVE_MAXIMUM_EXCEEDED,
            f"more than {client.quota} publishes are not acknowledged",
        )
    return number


def _take(client: "Client", packet: Publish, event: Event, caller: Caller) -> None:
    """Process a PUBLISH of QoS 2 once: its identifier is stored until PUBREL (MQTT-4.3.3-10).

    The message is submitted at once and not with PUBREL (MQTT 5, 4.3.3 allows both): identifier and
    event are one transaction, and PUBREC can contain the reason of a refusal.
    """
    session, packet_id = client.session, packet.packet_id
    if session is None:
        return
    if packet_id in session.inbound:  # a repeat: PUBREC again, after the first one is done
        again = partial(_received_again, client, session, _number(client), packet_id, event)
        waiting = session.taking.get(packet_id)
        if waiting is None:
            again()
        elif packet.topic in _TRANSACTIONS:  # that runs on, from a connection before this one
            client.awaits_store = True
            waiting.append(again)
            waiting.append(partial(_open, client))
        else:
            waiting.append(again)
        return
    done = _receipt(client, packet)
    condition = None
    if packet.properties is not None:
        describe(event, packet.properties)
        try:
            stamp_from(event, packet.properties)
            mark_from(event, packet.properties)
            condition = condition_of(packet.properties, client.broker.kernel.reader.epoch)
        except Error as error:
            done(error)
            return
    changes = client.broker.keeper.taken(session, packet_id)
    client.submit(event, caller, done, condition, changes)


def _received(
    client: "Client", session: "Session", number: int, packet_id: int, outcome: Outcome
) -> None:
    """Answer a QoS 2 PUBLISH; a refused one frees its identifier (MQTT-4.3.3-9)."""
    if isinstance(outcome, Error):
        explains = client.connection.version == MQTT_5  # otherwise PUBREC only confirms receipt
        if explains or outcome.code in _NOT_STORED:
            session.inbound.pop(packet_id, None)
    acknowledge(client, number, PUBREC, packet_id, outcome)
    for again in session.taking.pop(packet_id, ()):
        again()


def _received_again(
    client: "Client", session: "Session", number: int, packet_id: int, event: Event
) -> None:
    """Answer a repeated QoS 2 PUBLISH, after the first one is done."""
    if packet_id in session.inbound:
        acknowledge(client, number, PUBREC, packet_id, Receipt(event))
    else:  # it was refused
        error = Error(Code.BUSY, "the first copy of this message was refused; send a new one")
        acknowledge(client, number, PUBREC, packet_id, error)


def acknowledge(
    client: "Client", number: int, first: int, packet_id: int, outcome: Outcome
) -> None:
    """Answer a PUBLISH when it is done: durable if it is to be stored (D15).

    ``first`` is the answer's first byte: PUBACK or PUBREC.
    """
    if number != client.answered + 1:  # MQTT-4.6.0-2, MQTT-4.6.0-3
        client.early[number] = first, packet_id, outcome
        return
    client.answered = number
    _answer(client, first, packet_id, outcome)
    early = client.early
    while early:
        following = early.pop(client.answered + 1, None)
        if following is None:
            return
        client.answered += 1
        _answer(client, *following)


def _answer(client: "Client", first: int, packet_id: int, outcome: Outcome) -> None:
    if type(outcome) is not Receipt:
        _answer_refusal(client, first, packet_id, outcome)  # type: ignore[arg-type]
        return
    if first == PUBREC:
        client.unreleased[packet_id] = None
    event, tells_seq = outcome.event, client.tells_seq
    if (outcome.late or outcome.unfit) and client.connection.version == MQTT_5:
        _answer_unchanged(client, first, packet_id, outcome)
        return
    if event.table is None and tells_seq:  # D51, M1: at an undeclared topic only on request
        tells_seq = client.form is not None and client.form.tells_seq
    frame = b""
    if tells_seq and event.seq:
        cursor = b"%s:%d" % (client.broker.epoch, event.seq)
        size = len(cursor)  # at most 29: the epoch, a colon and 64 bits
        if not 0 < client.packet_bytes_max < size + 14:  # MQTT-3.4.2-3
            frame = _WITH_SEQ(first, size + 12, packet_id, 0, size + 8, _SEQ, size) + cursor
    client.out.append(frame or _ACKNOWLEDGEMENT(first, 2, packet_id))
    if not client.scheduled:  # ``write``, inlined
        client.scheduled = True
        client.loop.call_soon(client.flush)


def _answer_unchanged(client: "Client", first: int, packet_id: int, receipt: Receipt) -> None:
    """Answer a PUBLISH that changed nothing: a newer one was there, or its value does not fit."""
    name, text = "rowcast-late", str(receipt.late)
    why = client.explain("it came late: a newer value is there, and nothing was changed") or {}
    if receipt.unfit:
        name, text = "rowcast-unfit", receipt.unfit
        why = client.explain("the value does not fit the table, and nothing was changed") or {}
    noted = {"user_property": ((name, text),)}
    answer = Puback if first == PUBACK else Pubrec
    properties = why | noted if client.problems else None  # MQTT-3.1.2-29
    client.send(answer(packet_id, Reason.SUCCESS, properties))


def _answer_refusal(client: "Client", first: int, packet_id: int, error: Error) -> None:
    """Answer a refused PUBLISH, as far as the version allows (D43)."""
    client.note_refusal(error)
    if error.detail.get("elsewhere"):
        # With an answer it would be done for the client (MQTT 5, 4.4). Without one it sends it
        # again, to the node that takes its connection.
        client.disconnect(Reason.SERVER_BUSY, error.message)
    elif client.connection.version == MQTT_5:
        properties = client.explain(error.message)
        current = error.detail.get("seq")
        if properties is not None and isinstance(current, int):  # A16: the current cursor
            properties["user_property"] = (("seq", client.broker.kernel.cursor(current)),)
        answer = Puback if first == PUBACK else Pubrec
        reason = reason_of(error, PacketType.PUBACK, PUBACK_REASONS[error.code])
        client.send(answer(packet_id, reason, properties))
    elif error.code in _NOT_STORED:
        # Before MQTT 5 there is no reason code. Without an acknowledgement the client sends it
        # again after a reconnect; with one it would be lost.
        client.disconnect(Reason.SERVER_BUSY)
    else:
        client.write(bytes((first, 2)) + packet_id.to_bytes(2, "big"))


def on_pubacks(client: "Client", packets: list[Puback]) -> None:
    """Complete flights of QoS 1. Unknown identifiers are ignored, because they may be late."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    window = session.window
    for packet in packets:
        known = window.item(packet.packet_id)
        item = known.item if type(known) is Flight else known
        if type(item) is CompactInflight or (type(item) is Sent and item.qos == 2):
            raise protocol_error("A PUBLISH of QoS 2 must be answered with PUBREC, not PUBACK.")
        window.acknowledge(packet.packet_id)
        if client.timed:
            end_timing(client, session, packet.packet_id)
        if session.sharing is not None and type(item) is Sent:
            session.sharing.done(item)
        if session.kept:
            session.changed[packet.packet_id] = None
    if session.kept:
        client.broker.keeper.touch(session)
    if client.blocked:
        client.blocked = False
        client.ready()
