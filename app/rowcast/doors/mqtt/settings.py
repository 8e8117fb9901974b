"""What the MQTT edge is told by its owner; it reads no configuration itself."""

from dataclasses import dataclass, field

from rowcast.auth.authenticator import Authenticator
from rowcast.core.limits import (
    MQTT_CONNECT_TIMEOUT_SECONDS,
    MQTT_FLUSH_EVENTS,
    MQTT_PACKET_BYTES_MAX,
    MQTT_RECEIVE_MAXIMUM,
    MQTT_SUBSCRIPTIONS_MAX,
)
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.rates import RateSettings
from rowcast.doors.mqtt.packets.rewrite import AutoSubscriptions, Rewriting
from rowcast.mqtt.window import PACKET_ID_MAX
from rowcast.subscriptions.backlog import Overflow


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Limits, and who says who a client is."""

    packet_bytes_max: int = MQTT_PACKET_BYTES_MAX
    connect_timeout_seconds: float = MQTT_CONNECT_TIMEOUT_SECONDS
    receive_maximum: int = MQTT_RECEIVE_MAXIMUM
    flush_events: int = MQTT_FLUSH_EVENTS
    """How many events are encoded for one client at a time."""
    inflight_max: int = PACKET_ID_MAX
    """How many messages of QoS 1 and 2 are on their way to one client, if it takes as many."""
    subscriptions_max: int = MQTT_SUBSCRIPTIONS_MAX
    """How many filters one client may have."""
    keep_alive_seconds_max: int = 0
    """Longest Keep Alive, told to clients that ask for more or none (MQTT 5); 0 is any."""
    tcp_keep_alive_seconds: int = 0
    """Silence after which the kernel probes a peer; 0 is never."""
    session_expiry_seconds_max: int = 0
    """Longest that a session outlives its connection; 0 is as long as its client asks."""
    session_queue_max: int = 0
    """How many messages may wait for a session whose client comes back; 0 is what the log keeps."""
    session_queue_policy: Overflow = Overflow.DROP_OLDEST
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Says who a client is."""
    guard: GuardSettings = field(default_factory=GuardSettings)
    rates: RateSettings = field(default_factory=RateSettings)
    rewriting: Rewriting | None = None
    auto_subscriptions: AutoSubscriptions | None = None
    media_type: str | None = None
    """How clients that say nothing of it get their messages; None is as they are (X19)."""
    clears_silently: bool = False
    """Whether nobody is sent the empty message that clears a retained one (E20)."""
    server_reference: str = ""
    """Another server, told to those who are sent away (MQTT 5, 4.11)."""
