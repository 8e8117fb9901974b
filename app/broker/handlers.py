"""What each packet of a client does: the table of handlers, and the small ones themselves.

A handler translates: it asks the engine and answers with what the engine said. It decides nothing
about rights, types or storage.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.broker.opening import on_connect
from app.broker.publishing import on_puback, on_publish
from app.broker.subscribing import on_subscribe, on_unsubscribe
from app.mqtt.packets import (
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
from app.mqtt.reasons import Reason
from app.mqtt.violations import protocol_error

if TYPE_CHECKING:
    from app.broker.client import Client


def on_pingreq(client: "Client", _packet: Pingreq) -> None:
    """Answer a sign of life (MQTT-3.12.4-1)."""
    client.send(Pingresp())


def on_disconnect(client: "Client", packet: Disconnect) -> None:
    """End as the client wishes; only a normal end forgets the will (MQTT-3.14.4-3)."""
    properties = packet.properties or {}
    if properties.get("session_expiry_interval") and not client.keeps_session:
        raise protocol_error(  # MQTT 5, 3.14.2.2.2: it is not taken for a DISCONNECT
            "A Session Expiry Interval that was 0 in CONNECT must not be set in DISCONNECT."
        )
    if packet.reason == Reason.NORMAL_DISCONNECTION:
        client.will = None
    client.end()


def on_pubrel(client: "Client", packet: Pubrel) -> None:
    """Answer a PUBREL of a message that was never taken (MQTT 5, 3.7.2.1)."""
    client.send(Pubcomp(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))


def on_pubrec(client: "Client", packet: Pubrec) -> None:
    """Answer a PUBREC of a message that was never sent with QoS 2 (MQTT 5, 3.6.2.1)."""
    session = client.session
    if session is not None and session.window.flight(packet.packet_id) is not None:
        raise protocol_error("A PUBLISH of QoS 1 must be answered with PUBACK, not PUBREC.")
    if packet.reason < Reason.UNSPECIFIED_ERROR:
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
