"""Settings of the MQTT door, passed in by the program."""

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
    """Limits, and the authenticator."""

    packet_bytes_max: int = MQTT_PACKET_BYTES_MAX
    connect_timeout_seconds: float = MQTT_CONNECT_TIMEOUT_SECONDS
    receive_maximum: int = MQTT_RECEIVE_MAXIMUM
    flush_events: int = MQTT_FLUSH_EVENTS
    """How many events are encoded for one client at a time."""
    inflight_max: int = PACKET_ID_MAX
    """Maximum messages of QoS 1 and 2 in flight to one client, within its Receive Maximum."""
    subscriptions_max: int = MQTT_SUBSCRIPTIONS_MAX
    """Maximum filters of one client."""
    keep_alive_seconds_max: int = 0
    """Maximum Keep Alive, sent to clients with a longer one or none (MQTT 5); 0: any."""
    tcp_keep_alive_seconds: int = 0
    """Silence after which TCP probes a peer; 0: never."""
    session_expiry_seconds_max: int = 0
    """Maximum session expiry; 0: the client's."""
    session_queue_max: int = 0
    """Backlog limit of a returning session in messages; 0: the log's retention."""
    session_queue_policy: Overflow = Overflow.DROP_OLDEST
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Authenticates clients."""
    guard: GuardSettings = field(default_factory=GuardSettings)
    rates: RateSettings = field(default_factory=RateSettings)
    rewriting: Rewriting | None = None
    auto_subscriptions: AutoSubscriptions | None = None
    media_type: str | None = None
    """The default media type of messages; None: unchanged (X19)."""
    announces_first: bool = False
    """Whether QoS 0 messages that are not retained are announced before they are durable."""
    clears_silently: bool = False
    """Whether empty messages that clear retained ones are not delivered (E20)."""
    server_reference: str = ""
    """Another server, sent to refused clients (MQTT 5, 4.11)."""
