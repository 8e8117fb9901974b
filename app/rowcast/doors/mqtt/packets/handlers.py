"""The table of packet handlers, and the small handlers.

A handler translates: it calls the kernel and answers with the result. It makes no decision about
rights, types or storage.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

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

_PUBREL, _PUBCOMP = 0x62, 0x70
"""First bytes of the packets that end a PUBLISH of QoS 2."""
_SUCCESS: Final = Struct("!BBH").pack
"""Packs its first byte, its length and the packet identifier: all of it where it says success."""


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


def on_pubrels(client: "Client", packets: list[Pubrel]) -> None:
    """Release QoS 2 identifiers, on disk before PUBCOMP is sent (MQTT-4.3.3-11)."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    inbound, unreleased, frames = session.inbound, client.unreleased, list[bytes]()
    for packet in packets:
        packet_id = packet.packet_id
        if packet_id not in inbound:  # MQTT 5, 3.7.2.1
            _write_before(client, frames)
            client.send(Pubcomp(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
            continue
        del inbound[packet_id]
        unreleased.pop(packet_id, None)
        if session.kept:
            client.broker.keeper.released(session, packet_id)
        frames.append(_SUCCESS(_PUBCOMP, 2, packet_id))
    if frames:
        client.write_saved(frames)


def on_pubrecs(client: "Client", packets: list[Pubrec]) -> None:
    """Note that QoS 2 messages arrived, and answer with PUBREL (MQTT-4.3.3-4).

    They are released on disk before PUBREL is sent: after that the client may reuse the
    identifier, and would take a repeat for a new message.
    """
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    window, frames, now = session.window, list[bytes](), client.broker.now()
    try:
        for packet in packets:
            item = window.item(packet.packet_id)
            if item is None or packet.reason >= Reason.UNSPECIFIED_ERROR:
                _write_before(client, frames)
                _on_other_pubrec(client, session, packet, item)
                continue
            if isinstance(item, CompactInflight):
                window.exchange(packet.packet_id, CompactInflight.RELEASED)
            else:
                _release(session, packet.packet_id, _qos_2(item), now)
            frames.append(_SUCCESS(_PUBREL, 2, packet.packet_id))
    finally:
        if frames:
            client.write_saved(frames)


def _write_before(client: "Client", frames: list[bytes]) -> None:
    """Write the answers so far, before one of another kind: they are in the order of packets."""
    if frames:
        client.write_saved(frames)
        frames.clear()


def _release(session: "Session", packet_id: int, sent: Sent, now: float) -> None:
    """Note that the client of a session has a message of QoS 2."""
    session.window.release(packet_id, now)
    if session.sharing is not None:
        session.sharing.done(sent)
    sent.order = session.next_order()
    if session.kept:
        session.changed[packet_id] = None


def _on_other_pubrec(
    client: "Client", session: "Session", packet: Pubrec, item: object | None
) -> None:
    """Take a PUBREC that refuses, or of an identifier that is not in flight."""
    failed = packet.reason >= Reason.UNSPECIFIED_ERROR
    if item is None:
        if not failed:  # MQTT 5, 3.6.2.1
            client.send(Pubrel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
        return
    if not isinstance(item, CompactInflight):
        _qos_2(item)
    _complete(client, session, packet.packet_id)  # MQTT-4.3.3-4: it is over
    _completed(client, session)


def _qos_2(item: object) -> Sent:
    """Return what was sent with QoS 2; raises a Violation for another flight."""
    sent = item.item if isinstance(item, Flight) else None
    if not isinstance(sent, Sent) or sent.qos != 2:
        raise protocol_error("A PUBLISH of QoS 1 must be answered with PUBACK, not PUBREC.")
    return sent


def on_pubcomps(client: "Client", packets: list[Pubcomp]) -> None:
    """Complete flights of QoS 2. Unknown identifiers are ignored: they may be late."""
    session = client.session
    if session is None:  # the table of legal packets refuses it
        return
    window, completed = session.window, False
    for packet in packets:
        item = window.item(packet.packet_id)
        if item is None:
            continue
        if item is not CompactInflight.RELEASED and not (
            isinstance(item, Flight) and item.released
        ):
            raise protocol_error("PUBCOMP must answer PUBREL, and nothing else.")  # MQTT 5, 4.3
        _complete(client, session, packet.packet_id)
        completed = True
    if completed:
        _completed(client, session)


def _complete(client: "Client", session: "Session", packet_id: int) -> None:
    """End a flight of QoS 2; ``_completed`` is called after the last one."""
    item = session.window.acknowledge(packet_id)
    if client.timed:
        end_timing(client, session, packet_id)
    if session.sharing is not None and isinstance(item, Sent):
        session.sharing.done(item)
    if session.kept:
        session.changed[packet_id] = None


def _completed(client: "Client", session: "Session") -> None:
    """Have ended flights saved, and go on sending if the window was full."""
    if session.kept:
        client.broker.keeper.touch(session)
    if client.blocked:
        client.blocked = False
        client.ready()


def on_auth(client: "Client", packet: Auth) -> None:
    """Pass AUTH to the client's exchange; without a method there is none (MQTT-4.12.0-7)."""
    if client.dialogue is None:
        raise protocol_error("AUTH must not be sent: no authentication method is in use")
    client.dialogue.take(packet)


HANDLERS: Final[dict[type, Callable[..., None]]] = {
    Connect: on_connect,
    Subscribe: on_subscribe,
    Unsubscribe: on_unsubscribe,
    Pingreq: on_pingreq,
    Disconnect: on_disconnect,
    Auth: on_auth,
}
"""Handlers by packet class (D12)."""

RUN_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    Publish: on_publishes,
    Puback: on_pubacks,
    Pubrec: on_pubrecs,
    Pubrel: on_pubrels,
    Pubcomp: on_pubcomps,
}
"""Handlers of packets that come in runs: they take several of one class, in order."""
