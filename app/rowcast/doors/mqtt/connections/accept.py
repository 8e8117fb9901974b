"""The entrance: a new connection becomes a client, is refused with an answer, or is closed (D6).

It is asked before anything is kept for a connection. What it returns takes the bytes from then on.
"""

from typing import TYPE_CHECKING

from rowcast.doors.mqtt.client import Client
from rowcast.doors.mqtt.connections.rejections import Refused
from rowcast.doors.mqtt.connections.transport import Transport
from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker


def enter(
    broker: "Broker", transport: Transport, peer: str, form: DeliveryFormat | None = None
) -> Client | Refused | None:
    """Return what takes the connection's bytes; None if it was closed."""
    if broker.stopping:
        transport.abort()
        return None
    refusal = broker.guard.enter(peer)
    if refusal is not None:
        return broker.refused.refuse(transport, peer, refusal)
    client = Client(broker, transport, peer, form)
    broker.admit(client)
    return client
