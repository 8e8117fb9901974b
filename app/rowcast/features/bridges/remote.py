"""A remote broker: address, credentials and MQTT options."""

from dataclasses import dataclass, field
from ssl import SSLContext

from rowcast.core.gateway_limits import GATEWAY_CONNECT_SECONDS, GATEWAY_FLYING_MAX

MQTT_3_1_1 = 4
MQTT_5 = 5


@dataclass(frozen=True, slots=True)
class Remote:
    """Another broker. ``password`` is never shown, not even in a log."""

    host: str
    port: int = 1883
    version: int = MQTT_5
    client_id: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    tls: SSLContext | None = field(default=None, repr=False)
    keep_alive_seconds: int = 30
    flying_max: int = GATEWAY_FLYING_MAX
    """Maximum publishes in flight, within the broker's Receive Maximum."""
    connect_seconds: float = GATEWAY_CONNECT_SECONDS
    """Timeout of a connection attempt, and of a disconnect."""
