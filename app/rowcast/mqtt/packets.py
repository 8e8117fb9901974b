"""The packets of MQTT as plain values, one class for each type (MQTT 5, 3).

They are the same for all versions: a field that a version does not have keeps its default. They
hold what the wire holds and nothing else, so that comparing two of them is comparing two packets.
The few that come by the hundred thousand (PUBLISH and its acknowledgements) are no dataclasses,
which take three times as long to build, or ten times frozen and compiled; nobody changes them. They
must not know how they are written: that is ``decode`` and ``encode``.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from rowcast.core.plain_value import PlainValue
from rowcast.mqtt.properties import Properties
from rowcast.mqtt.reasons import PacketType, Reason

MQTT_3_1: Final = 3
"""The protocol level of 3.1, which calls itself MQIsdp."""
MQTT_3_1_1: Final = 4
MQTT_5: Final = 5


class Publish(PlainValue):
    """A message for a topic; ``packet_id`` is 0 with QoS 0."""

    __slots__ = ("dup", "packet_id", "payload", "properties", "qos", "retain", "topic")
    TYPE: ClassVar[PacketType] = PacketType.PUBLISH
    FIELDS: ClassVar[tuple[str, ...]] = (
        "topic",
        "payload",
        "qos",
        "retain",
        "dup",
        "packet_id",
        "properties",
    )

    def __init__(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        packet_id: int = 0,
        properties: Properties = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.dup = dup
        self.packet_id = packet_id
        self.properties = properties


class Acknowledgement(PlainValue):
    """What PUBACK, PUBREC, PUBREL and PUBCOMP have in common (MQTT 5, 3.4 to 3.7)."""

    __slots__ = ("packet_id", "properties", "reason")
    FIELDS: ClassVar[tuple[str, ...]] = ("packet_id", "reason", "properties")

    def __init__(
        self, packet_id: int, reason: Reason = Reason.SUCCESS, properties: Properties = None
    ) -> None:
        self.packet_id = packet_id
        self.reason = reason
        self.properties = properties


class Puback(Acknowledgement):
    """The answer to a PUBLISH of QoS 1."""

    __slots__ = ()
    TYPE: ClassVar[PacketType] = PacketType.PUBACK


class Pubrec(Acknowledgement):
    """The first answer to a PUBLISH of QoS 2."""

    __slots__ = ()
    TYPE: ClassVar[PacketType] = PacketType.PUBREC


class Pubrel(Acknowledgement):
    """The answer to a PUBREC: the message may be released."""

    __slots__ = ()
    TYPE: ClassVar[PacketType] = PacketType.PUBREL


class Pubcomp(Acknowledgement):
    """The answer to a PUBREL, the end of a message of QoS 2."""

    __slots__ = ()
    TYPE: ClassVar[PacketType] = PacketType.PUBCOMP


@dataclass(frozen=True, slots=True)
class Will:
    """The message to publish when the client is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Connect:
    """A client's first packet."""

    TYPE: ClassVar[PacketType] = PacketType.CONNECT
    version: int
    client_id: str
    clean_start: bool = True
    keep_alive_seconds: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Connack:
    """The server's answer to CONNECT."""

    TYPE: ClassVar[PacketType] = PacketType.CONNACK
    session_present: bool = False
    reason: Reason = Reason.SUCCESS
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """One filter of a SUBSCRIBE and its options; the text is as it came and may be illegal."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client's wish for messages."""

    TYPE: ClassVar[PacketType] = PacketType.SUBSCRIBE
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Suback:
    """The answer to SUBSCRIBE: one reason for each filter."""

    TYPE: ClassVar[PacketType] = PacketType.SUBACK
    packet_id: int
    reasons: tuple[Reason, ...]
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The end of a client's wish for messages."""

    TYPE: ClassVar[PacketType] = PacketType.UNSUBSCRIBE
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Unsuback:
    """The answer to UNSUBSCRIBE; before MQTT 5 it carries no reasons."""

    TYPE: ClassVar[PacketType] = PacketType.UNSUBACK
    packet_id: int
    reasons: tuple[Reason, ...] = ()
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Pingreq:
    """A client's sign of life."""

    TYPE: ClassVar[PacketType] = PacketType.PINGREQ


@dataclass(frozen=True, slots=True)
class Pingresp:
    """The server's sign of life."""

    TYPE: ClassVar[PacketType] = PacketType.PINGRESP


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The last packet of either side; before MQTT 5 only of the client's, and without a reason."""

    TYPE: ClassVar[PacketType] = PacketType.DISCONNECT
    reason: Reason = Reason.NORMAL_DISCONNECTION
    properties: Properties = None


@dataclass(frozen=True, slots=True)
class Auth:
    """A step of extended authentication (MQTT 5, 4.12)."""

    TYPE: ClassVar[PacketType] = PacketType.AUTH
    reason: Reason = Reason.SUCCESS
    properties: Properties = None


Packet = (
    Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Connect
    | Connack
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
