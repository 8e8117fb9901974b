"""Reason codes of MQTT 5 and return codes of 3.1 and 3.1.1.

One enumeration serves all versions, so that the broker has one word for each outcome; the older
versions' return codes are translated at the wire. The table ``REASONS`` says which code each
packet may carry (MQTT 5, 2.4), so a reader looks a byte up instead of comparing it. It must not
know when a reason is given: that is the broker's.
"""

from enum import IntEnum
from typing import Self


class PacketType(IntEnum):
    """The type of a packet: the upper half of its first byte (MQTT 5, 2.1.2)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Cause(str):
    """Why a connection ended: a sentence, and the reason that goes with it."""

    __slots__ = ("code",)
    code: int

    def __new__(cls, message: str, code: int) -> Self:
        """Return the sentence with its reason."""
        made = super().__new__(cls, message)
        made.code = code
        return made


class Reason(IntEnum):
    """Why, in one byte (MQTT 5, 2.4); from 0x80 on it is a failure."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def _codes(*numbers: int) -> dict[int, Reason]:
    return {number: Reason(number) for number in numbers}


_RECEIVED = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
_RELEASED = _codes(0x00, 0x92)

REASONS: dict[PacketType, dict[int, Reason]] = {
    PacketType.CONNACK: _codes(  # MQTT-3.2.2-8
        0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F
    ),
    PacketType.PUBACK: _RECEIVED,  # MQTT-3.4.2-1
    PacketType.PUBREC: _RECEIVED,  # MQTT-3.5.2-1
    PacketType.PUBREL: _RELEASED,  # MQTT-3.6.2-1
    PacketType.PUBCOMP: _RELEASED,  # MQTT-3.7.2-1
    PacketType.SUBACK: _codes(  # MQTT-3.9.3-2
        0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2
    ),
    PacketType.UNSUBACK: _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),  # MQTT-3.11.3-2
    PacketType.DISCONNECT: _codes(  # MQTT-3.14.2-1; 0x8C stands in table 2-6 only: take it too
        0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3)
    ),
    PacketType.AUTH: _codes(0x00, 0x18, 0x19),  # MQTT-3.15.2-1
}
"""The reasons that each packet of MQTT 5 may carry, by their byte."""

SUBACK_3 = _codes(0x00, 0x01, 0x02, 0x80)
"""Return codes of a SUBACK in 3.1.1 (MQTT-3.9.3-2 of 3.1.1)."""

RETURN_CODES = (
    Reason.SUCCESS,
    Reason.UNSUPPORTED_PROTOCOL_VERSION,
    Reason.CLIENT_IDENTIFIER_NOT_VALID,
    Reason.SERVER_UNAVAILABLE,
    Reason.BAD_USER_NAME_OR_PASSWORD,
    Reason.NOT_AUTHORIZED,
)
"""The reason that each return code of a CONNACK of 3.1 and 3.1.1 stands for (3.1.1, 3.2.2.3)."""

_NEAREST = {
    **{reason: code for code, reason in enumerate(RETURN_CODES)},
    Reason.BANNED: 5,
    Reason.BAD_AUTHENTICATION_METHOD: 5,
    Reason.TOPIC_NAME_INVALID: 5,
    Reason.PAYLOAD_FORMAT_INVALID: 5,
    Reason.RETAIN_NOT_SUPPORTED: 5,
    Reason.QOS_NOT_SUPPORTED: 5,
}


def return_code(reason: Reason) -> int:
    """Return the nearest return code of 3.1.1: 5 when it is the client's fault, else 3."""
    return _NEAREST.get(reason, 3)
