"""What the MQTT edge is told by its owner; it reads no configuration itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.auth.authenticator import Authenticator
from app.core.callers import Caller
from app.core.limits import (
    MQTT_CONNECT_TIMEOUT_SECONDS,
    MQTT_PACKET_BYTES_MAX,
    MQTT_RECEIVE_MAXIMUM,
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits, and the rule that makes the Caller of a peer's address and a door."""

    anonymous: Callable[[str, str], Caller]
    packet_bytes_max: int = MQTT_PACKET_BYTES_MAX
    connect_timeout_seconds: float = MQTT_CONNECT_TIMEOUT_SECONDS
    receive_maximum: int = MQTT_RECEIVE_MAXIMUM
    connections_max: int = 0
    """0 is no limit."""
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Says who a client is."""
