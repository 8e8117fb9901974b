"""WebSockets of uvicorn that ping their peers, but for those that speak MQTT.

MQTT has packets of its own for this (MQTT 5, 3.12), so brokers send no pings, and some clients were
never pinged: paho-mqtt answers with a frame that is not masked, at which a server must close the
connection (RFC 6455, 5.1). A peer that has vanished is found by TCP (``net/probes.py``).
"""

from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MQTT_PROTOCOLS: Final = frozenset({"mqtt", "mqttv3.1"})
"""The subprotocols by which a client asks for MQTT over WebSocket (MQTT-6.0.0-3)."""


class SocketPings(WebSocketsSansIOProtocol):
    """uvicorn's protocol of a WebSocket; ``start_keepalive`` is not in its public API."""

    def start_keepalive(self) -> None:
        """Start to ping, once the connection is accepted."""
        if MQTT_PROTOCOLS.isdisjoint(self.scope["subprotocols"]):
            super().start_keepalive()
