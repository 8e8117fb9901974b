"""What the MQTT edge is told by its owner; it reads no configuration itself."""

from dataclasses import dataclass, field

from app.auth.authenticator import Authenticator
from app.core.limits import (
    MQTT_CONNECT_TIMEOUT_SECONDS,
    MQTT_PACKET_BYTES_MAX,
    MQTT_RECEIVE_MAXIMUM,
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits, and who says who a client is."""

    packet_bytes_max: int = MQTT_PACKET_BYTES_MAX
    connect_timeout_seconds: float = MQTT_CONNECT_TIMEOUT_SECONDS
    receive_maximum: int = MQTT_RECEIVE_MAXIMUM
    connections_max: int = 0
    """0 is no limit."""
    session_expiry_seconds_max: int = 0
    """Longest that a session outlives its connection; 0 is as long as its client asks."""
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Says who a client is."""
