"""The table of packet handlers, and the small handlers.

A handler translates: it calls the kernel and answers with the result. It makes no decision about
rights, types or storage.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rowcast.doors.mqtt.delivery.ack_latency import end_timing
from rowcast.doors.mqtt.delivery.sent import CompactInflight, Sent
from rowcast.doors.mqtt.packets.connect import on_connect
from rowcast.doors.mqtt.packets.publish import on_pubacks, on_publishes
from rowcast.doors.mqtt.packets.subscribe import on_subscribe
from rowcast.doors.mqtt.packets.unsubscribe import on_unsubscribe
from rowcast.doors.mqtt.sessions.wills import forget
from rowcast.mqtt.packets import (
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
    Subscribe,
    Unsubscribe,
)
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import protocol_error
from rowcast.mqtt.window import Flight

if TYPE_CHECKING:
    from rowcast.doors.mqtt.client import Client
    from rowcast.doors.mqtt.sessions.session import Session


def on_pingreq(client: "Client", _packet: Pingreq) -> None:
    """Answer a ping (MQTT-3.12.4-1)."""
    client.send(Pingresp())


def on_disconnect(client: "Client", packet: Disconnect) -> None:
    """Close at the client's request; only a normal disconnect discards the will (MQTT-3.14.4-3)."""
    session = client.session
    if session is not None:
        asked = (packet.properties or {}).get("session_expiry_interval")
        if isinstance(asked, int):
            _set_expiry(client, session, asked)
        if packet.reason == Reason.NORMAL_DISCONNECTION:
            forget(session)
    client.end()


def _set_expiry(client: "Client", session: "Session", seconds: int) -> None:
    """Change the session expiry interval (MQTT 5, 3.14.2.2.2)."""
    if seconds and not session.durable:  # it does not count as a DISCONNECT
        raise protocol_error(
            "A Session Expiry Interval that was 0 in CONNECT must not be set in DISCONNECT."
        )
    most = client.broker.settings.session_expiry_seconds_max
    session.expiry_seconds = min(seconds, most) if most else seconds


def on_pubrel(client: "Client", packet: Pubrel) -> None:
    """Release a QoS 2 identifier, on disk before PUBCOMP is sent (MQTT-4.3.3-11)."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    packet_id = packet.packet_id
    if packet_id not in session.inbound:  # MQTT 5, 3.7.2.1
        client.send(Pubcomp(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
        return
    session.inbound.pop(packet_id, None)
    client.unreleased.pop(packet_id, None)
    if session.kept:
        client.broker.keeper.released(session, packet_id)
    client.write_saved((b"\x70\x02" + packet_id.to_bytes(2, "big"),))


def on_pubrec(client: "Client", packet: Pubrec) -> None:
    """Note that a QoS 2 message arrived, and answer with PUBREL (MQTT-4.3.3-4).

    It is released on disk before PUBREL is sent: after that the client may reuse the identifier,
    and would take a repeat for a new message.
    """
    session, packet_id = client.session, packet.packet_id
    if session is None:  # the table of legal packets refuses it
        return
    window = session.window
    item = window.item(packet_id)
    failed = packet.reason >= Reason.UNSPECIFIED_ERROR
    if item is None:
        if not failed:  # MQTT 5, 3.6.2.1
            client.send(Pubrel(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
    elif not _is_qos_2(item):
        raise protocol_error("A PUBLISH of QoS 1 must be answered with PUBACK, not PUBREC.")
    elif failed:  # MQTT-4.3.3-4: it is over
        _complete(client, session, packet_id)
    elif isinstance(item, CompactInflight):
        window.exchange(packet_id, CompactInflight.RELEASED)
        client.write(b"\x62\x02" + packet_id.to_bytes(2, "big"))
    else:
        window.release(packet_id, client.broker.now())
        sent = cast("Sent", cast("Flight", item).item)
        if session.sharing is not None:
            session.sharing.done(sent)
        sent.order = session.next_order()
        if session.kept:
            session.changed[packet_id] = None
        client.write_saved((b"\x62\x02" + packet_id.to_bytes(2, "big"),))


def _is_qos_2(item: object) -> bool:
    if isinstance(item, CompactInflight):
        return True
    return isinstance(item, Flight) and isinstance(item.item, Sent) and item.item.qos == 2


def on_pubcomp(client: "Client", packet: Pubcomp) -> None:
    """Complete a QoS 2 flight; unknown identifiers are ignored, because they may be late."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    item = session.window.item(packet.packet_id)
    if item is None:
        return
    if item is not CompactInflight.RELEASED and not (isinstance(item, Flight) and item.released):
        raise protocol_error("PUBCOMP must answer PUBREL, and nothing else.")  # MQTT 5, 4.3
    _complete(client, session, packet.packet_id)


def _complete(client: "Client", session: "Session", packet_id: int) -> None:
    item = session.window.acknowledge(packet_id)
    end_timing(client, session, packet_id)
    if session.sharing is not None and isinstance(item, Sent):
        session.sharing.done(item)
    if session.kept:
        session.changed[packet_id] = None
        client.broker.keeper.touch(session)
    if client.blocked:
        client.blocked = False
        client.ready()


def on_auth(client: "Client", packet: Auth) -> None:
    """Pass AUTH to the client's exchange; without a method there is none (MQTT-4.12.0-7)."""
    if client.dialogue is None:
        raise protocol_error("AUTH must not be sent: no authentication method is in use")
    client.dialogue.take(packet)


HANDLERS: dict[type, Callable[..., None]] = {
    Connect: on_connect,
    Pubrec: on_pubrec,
    Pubrel: on_pubrel,
    Pubcomp: on_pubcomp,
    Subscribe: on_subscribe,
    Unsubscribe: on_unsubscribe,
    Pingreq: on_pingreq,
    Disconnect: on_disconnect,
    Auth: on_auth,
}
"""Handlers by packet class (D12)."""

RUN_HANDLERS: dict[type, Callable[..., int]] = {Publish: on_publishes, Puback: on_pubacks}
"""Handlers of packets that come in runs."""
