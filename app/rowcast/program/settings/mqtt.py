"""Settings of MQTT: the door, its limits, rates and bans, topic rewriting, automatic subscriptions.

Each section builds its object for the broker, so that a mistake in a rule is reported together with
all others, before the start.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field

from rowcast.auth.tries import LoginRateLimit
from rowcast.core.errors import Error
from rowcast.core.limits import (
    MQTT_CONNECT_TIMEOUT_SECONDS,
    MQTT_PACKET_BYTES_MAX,
    MQTT_RECEIVE_MAXIMUM,
    MQTT_SUBSCRIPTIONS_MAX,
    SESSION_QUEUE_EVENTS_MAX,
)
from rowcast.doors.mqtt.connections.guard import GuardSettings
from rowcast.doors.mqtt.connections.rates import RateSettings
from rowcast.doors.mqtt.packets.rewrite import Action, AutoSubscriptions, Rewriting, Rule, make_rule
from rowcast.mqtt.packets import Subscription
from rowcast.mqtt.reasons import Reason
from rowcast.program.settings.tls import MutualTls
from rowcast.settings.sections import (
    Count,
    CountFromOne,
    Number,
    PortOrNone,
    Seconds,
    SecondsOrZero,
    Section,
)

T = TypeVar("T")


class Rate(Section):
    """How fast clients may be; 0 is no limit."""

    messages: Count = Field(
        default=0, description="PUBLISH packets of one client per second; 0 means no limit."
    )
    bytes: Count = Field(
        default=0, description="Bytes from one client per second; 0 means no limit."
    )
    subscribes: Count = Field(
        default=0,
        description="Filters that one client subscribes to per second; 0 means no limit.",
    )
    action: Literal["throttle", "disconnect"] = Field(
        default="throttle",
        description="What happens to a client above its rate: `throttle` reads from it more "
        "slowly and loses nothing, `disconnect` ends the connection with 0x96.",
    )
    connections: Count = Field(
        default=0, description="New connections of all clients per second; 0 means no limit."
    )
    connections_per_peer: Count = Field(
        default=0, description="New connections of one address per second; 0 means no limit."
    )

    @property
    def settings(self) -> RateSettings:
        """The rate limits of one client."""
        disconnects = self.action == "disconnect"
        return RateSettings(self.messages, self.bytes, self.subscribes, disconnects)


class Flapping(Section):
    """Clients whose connections keep breaking are refused for a while (0x8A)."""

    max_disconnects: Count = Field(
        default=0,
        description="How many connections of one client id may end without DISCONNECT within "
        "`mqtt.flapping.window_seconds` before that client id is banned for `mqtt.ban.seconds`; 0 "
        "bans nobody.",
    )
    window_seconds: Seconds = Field(
        default=60, description="Time window in which these disconnects are counted, in seconds."
    )


class Ban(Section):
    """How long a client is refused, and when tries to sign in are slowed down."""

    failed_logins: Count = Field(
        default=20,
        description="Wrong passwords for one user from one address per `mqtt.ban.seconds`, on all "
        "protocols, before further attempts are throttled (429, 0x89); ten times as many where "
        "that user has signed in before. They ban nobody. 0 means no limit.",
    )
    seconds: Seconds = Field(
        default=300,
        description="Duration of a ban, and the time until as many wrong passwords are allowed "
        "again, in seconds.",
    )


class Rewrite(Section):
    """One rule for topics; the first whose source selects a topic decides."""

    action: Action
    source: str
    expression: str
    destination: str

    def rule(self) -> Rule:
        """Return the rule; raises INVALID for an invalid one."""
        return make_rule(self.action, self.source, self.expression, self.destination)


class AutoSubscribe(Section):
    """One filter that every client is subscribed to."""

    topic: str
    qos: Annotated[Number, Field(ge=0, le=2)] = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: Annotated[Number, Field(ge=0, le=2)] = 0

    def subscription(self) -> Subscription:
        """Return it as an MQTT subscription."""
        return Subscription(
            self.topic, self.qos, self.no_local, self.retain_as_published, self.retain_handling
        )


def rewriting(rules: Sequence[Rewrite]) -> Rewriting | None:
    """Return the topic rewriting; None without rules."""
    return Rewriting([rule.rule() for rule in rules]) if rules else None


def auto_subscriptions(wanted: Sequence[AutoSubscribe]) -> AutoSubscriptions | None:
    """Return the automatic subscriptions; None if there are none."""
    return AutoSubscriptions([item.subscription() for item in wanted]) if wanted else None


def _checked(make: Callable[[T], object]) -> AfterValidator:
    """Return a validator that reports the Error of ``make``."""

    def check(value: T) -> T:
        try:
            make(value)
        except Error as error:
            raise ValueError(f"cannot be followed: {error.message}") from None
        return value

    return AfterValidator(check)


Rewrites = Annotated[tuple[Rewrite, ...], _checked(rewriting)]
AutoSubscribes = Annotated[tuple[AutoSubscribe, ...], _checked(auto_subscriptions)]

_SENT_AWAY: dict[str, Reason | None] = {
    "none": None,
    "temporarily": Reason.USE_ANOTHER_SERVER,
    "forever": Reason.SERVER_MOVED,
}


class MqttLimits(Section):
    """How many and how fast, and what is done to topics."""

    max_connections: Count = Field(
        default=0, description="Concurrent MQTT connections; 0 means no limit."
    )
    max_connections_per_peer: Count = Field(
        default=0, description="Concurrent MQTT connections of one address; 0 means no limit."
    )
    max_subscriptions: CountFromOne = Field(
        default=MQTT_SUBSCRIPTIONS_MAX, description="Filters of one client."
    )
    max_inflight: Annotated[Number, Field(ge=1, le=65_535)] = Field(
        default=65_535,
        description="Unacknowledged messages in flight to one client; the client's own Receive "
        "Maximum applies too.",
    )
    max_session_queue: Annotated[Number, Field(ge=0, le=SESSION_QUEUE_EVENTS_MAX)] = Field(
        default=0,
        description="Messages that may wait for a disconnected session; 0: all that the log has.",
    )
    session_queue_policy: Literal["drop_oldest", "drop_newest", "disconnect"] = Field(
        default="drop_oldest",
        description="What happens at reconnect if more messages wait: `drop_oldest`, "
        "`drop_newest`, or `disconnect`, which ends the session with 0x97.",
    )
    max_keep_alive_seconds: Annotated[Number, Field(ge=0, le=65_535)] = Field(
        default=0,
        description="Longest Keep Alive, in seconds; MQTT 5 clients that ask for more or for none "
        "get it as Server Keep Alive. 0 means no limit.",
    )
    tcp_keep_alive_seconds: Annotated[Number, Field(ge=0, le=32_767)] = Field(
        default=60,
        description="Idle time after which TCP probes the connection, in seconds; 0 disables the "
        "probes.",
    )
    rate: Rate = Rate()
    flapping: Flapping = Flapping()
    ban: Ban = Ban()
    rewrite: Rewrites = Field(
        default=(), description="Rules that rewrite the topics of publishes and subscriptions."
    )
    auto_subscribe: AutoSubscribes = Field(
        default=(), description="Filters that each new session is subscribed to."
    )
    server_reference: str = Field(
        default="",
        description="Server Reference for clients that are refused because this server is full or "
        "draining.",
    )
    draining: Literal["none", "temporarily", "forever"] = Field(
        default="none",
        description="Whether new connections are redirected: `temporarily` (0x9C) or `forever` "
        "(0x9D).",
    )

    @property
    def guard(self) -> GuardSettings:
        """The settings of the guard."""
        rate, flapping = self.rate, self.flapping
        return GuardSettings(
            sent_away=_SENT_AWAY[self.draining],
            full=Reason.USE_ANOTHER_SERVER if self.server_reference else Reason.QUOTA_EXCEEDED,
            connections_max=self.max_connections,
            connections_per_peer_max=self.max_connections_per_peer,
            connects_per_second=rate.connections,
            connects_per_peer_per_second=rate.connections_per_peer,
            drops=flapping.max_disconnects,
            within_seconds=flapping.window_seconds,
            ban_seconds=self.ban.seconds,
        )

    @property
    def tries(self) -> LoginRateLimit:
        """The rate limit of sign-ins."""
        return LoginRateLimit(self.ban.failed_logins, self.ban.seconds)


class Network(Section):
    """Where MQTT listens."""

    host: str = Field(default="127.0.0.1", description="Address on which MQTT listens.")
    port: PortOrNone = Field(
        default=1883, description="Port of MQTT over TCP; 0 picks a free port, `off` closes it."
    )
    secure_port: PortOrNone = Field(
        default=8883,
        alias="securePort",
        description="Port of MQTT over TLS, open when `tls.certificate` is set; 0 picks a free "
        "port, `off` closes it.",
    )


class Mqtt(MqttLimits):
    """The door for MQTT."""

    network: Network = Network()
    mtls: MutualTls = Field(default=MutualTls(), alias="mTLS")
    web_socket: bool = Field(
        default=True,
        alias="webSocket",
        description="Whether the HTTP ports accept MQTT over WebSocket.",
    )
    require_authentication: bool = Field(
        default=True,
        alias="requireAuthentication",
        description="Whether MQTT clients must sign in once there are users.",
    )
    max_packet_bytes: Annotated[Number, Field(ge=256, le=268_435_460)] = Field(
        default=MQTT_PACKET_BYTES_MAX,
        description="Largest packet that a client may send (Maximum Packet Size), in bytes.",
    )
    connect_timeout_seconds: Seconds = Field(
        default=MQTT_CONNECT_TIMEOUT_SECONDS,
        description="Time in which a new connection must send CONNECT, in seconds.",
    )
    receive_maximum: Annotated[Number, Field(ge=1, le=65_535)] = Field(
        default=MQTT_RECEIVE_MAXIMUM,
        description="Unacknowledged QoS 1 and 2 publishes that a client may have in flight to the "
        "server (Receive Maximum).",
    )
    accept: Literal["", "application/json", "application/cbor", "application/x-msgpack"] = Field(
        default="",
        description="Format for clients that request none; empty: JSON for declared tables, the "
        "original bytes for other topics.",
    )
    max_session_expiry_seconds: Count = Field(
        default=0,
        description="Longest time that a session outlives its connection, in seconds; 0: the "
        "client decides.",
    )
    sys_interval: SecondsOrZero = Field(
        default=10,
        description="Interval at which uptime, memory and load averages below `$SYS/broker` are "
        "updated, in seconds; 0 publishes none of these topics.",
    )
