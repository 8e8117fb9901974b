"""Properties of MQTT 5: one table, and the reader and writer that follow it (MQTT 5, 2.2.2).

In memory a packet's properties are a plain dict by name, or None when there are none:
``user_property`` is a tuple of pairs, ``subscription_identifier`` of a PUBLISH a tuple of
integers, everything else one value. So the broker passes them on, compares and stores them
without a class. It must not know what a property means, only where it may stand and which values
are legal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.limits import MQTT_PROPERTIES_MAX
from rowcast.core.topics import check_topic
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import Violation, malformed, protocol_error
from rowcast.mqtt.wire import VARINT_MAX, Cursor, binary, pair, text, varint

Properties = dict[str, object] | None

WILL: Final = 0
"""The place of the will's own properties within CONNECT; no packet type has this number."""


class Wire(IntEnum):
    """How a property's value is written."""

    BYTE = 0
    UINT16 = 1
    UINT32 = 2
    VARINT = 3
    BINARY = 4
    TEXT = 5
    PAIR = 6


_MOST: Final = (0xFF, 0xFFFF, 0xFFFF_FFFF, VARINT_MAX)
_READ: Final[tuple[Callable[[Cursor], object], ...]] = (
    Cursor.byte,
    Cursor.uint16,
    Cursor.uint32,
    Cursor.varint,
    Cursor.binary,
    Cursor.text,
    Cursor.pair,
)
_WRITE: Final[tuple[Callable[..., bytes], ...]] = (
    lambda value: bytes((value,)),
    lambda value: value.to_bytes(2, "big"),
    lambda value: value.to_bytes(4, "big"),
    varint,
    binary,
    text,
    pair,
)


@dataclass(frozen=True, slots=True)
class Property:
    """One row of the table: a property's identifier, name, form, places and legal values."""

    identifier: int
    name: str
    wire: Wire
    read: Callable[[Cursor], object]
    write: Callable[..., bytes]
    places: frozenset[int]
    repeats: frozenset[int] = frozenset()
    """The places where it may stand more than once, and so is a tuple."""
    least: int = 0
    most: int = 0
    reason: Reason = Reason.PROTOCOL_ERROR
    """The reason code for a number outside of least to most."""


def _row(
    identifier: int,
    name: str,
    wire: Wire,
    places: tuple[int, ...],
    bounds: tuple[int, int | None] = (0, None),
    repeats: tuple[int, ...] = (),
    reason: Reason = Reason.PROTOCOL_ERROR,
) -> Property:
    most = bounds[1]
    if most is None and wire <= Wire.VARINT:
        most = _MOST[wire]
    return Property(
        identifier,
        name,
        wire,
        _READ[wire],
        _WRITE[wire],
        frozenset(places),
        frozenset(repeats),
        bounds[0],
        most or 0,
        reason,
    )


_T = PacketType
_FLAG: Final = (0, 1)
_MESSAGE: Final = (_T.PUBLISH, WILL)
_AUTHENTICATES: Final = (_T.CONNECT, _T.CONNACK, _T.AUTH)
_ACKS: Final = (_T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP, _T.SUBACK, _T.UNSUBACK)
_ENDS: Final = (_T.CONNECT, _T.CONNACK)
_EVERYWHERE: Final = (
    WILL, *_AUTHENTICATES, _T.PUBLISH, *_ACKS, _T.SUBSCRIBE, _T.UNSUBSCRIBE, _T.DISCONNECT,
)  # fmt: skip

PROPERTIES: Final = (
    _row(0x01, "payload_format_indicator", Wire.BYTE, _MESSAGE, _FLAG),
    _row(0x02, "message_expiry_interval", Wire.UINT32, _MESSAGE),
    _row(0x03, "content_type", Wire.TEXT, _MESSAGE),
    _row(0x08, "response_topic", Wire.TEXT, _MESSAGE),
    _row(0x09, "correlation_data", Wire.BINARY, _MESSAGE),
    _row(
        0x0B, "subscription_identifier", Wire.VARINT, (_T.PUBLISH, _T.SUBSCRIBE), (1, VARINT_MAX),
        repeats=(_T.PUBLISH,),
    ),
    _row(0x11, "session_expiry_interval", Wire.UINT32, (*_ENDS, _T.DISCONNECT)),
    _row(0x12, "assigned_client_identifier", Wire.TEXT, (_T.CONNACK,)),
    _row(0x13, "server_keep_alive", Wire.UINT16, (_T.CONNACK,)),
    _row(0x15, "authentication_method", Wire.TEXT, _AUTHENTICATES),
    _row(0x16, "authentication_data", Wire.BINARY, _AUTHENTICATES),
    _row(0x17, "request_problem_information", Wire.BYTE, (_T.CONNECT,), _FLAG),
    _row(0x18, "will_delay_interval", Wire.UINT32, (WILL,)),
    _row(0x19, "request_response_information", Wire.BYTE, (_T.CONNECT,), _FLAG),
    _row(0x1A, "response_information", Wire.TEXT, (_T.CONNACK,)),
    _row(0x1C, "server_reference", Wire.TEXT, (_T.CONNACK, _T.DISCONNECT)),
    _row(0x1F, "reason_string", Wire.TEXT, (_T.CONNACK, *_ACKS, _T.DISCONNECT, _T.AUTH)),
    _row(0x21, "receive_maximum", Wire.UINT16, _ENDS, (1, 0xFFFF)),
    _row(0x22, "topic_alias_maximum", Wire.UINT16, _ENDS),
    _row(  # MQTT-3.3.2-8
        0x23, "topic_alias", Wire.UINT16, (_T.PUBLISH,), (1, 0xFFFF),
        reason=Reason.TOPIC_ALIAS_INVALID,
    ),
    _row(0x24, "maximum_qos", Wire.BYTE, (_T.CONNACK,), _FLAG),
    _row(0x25, "retain_available", Wire.BYTE, (_T.CONNACK,), _FLAG),
    _row(0x26, "user_property", Wire.PAIR, _EVERYWHERE, repeats=_EVERYWHERE),
    _row(0x27, "maximum_packet_size", Wire.UINT32, _ENDS, (1, 0xFFFF_FFFF)),
    _row(0x28, "wildcard_subscription_available", Wire.BYTE, (_T.CONNACK,), _FLAG),
    _row(0x29, "subscription_identifier_available", Wire.BYTE, (_T.CONNACK,), _FLAG),
    _row(0x2A, "shared_subscription_available", Wire.BYTE, (_T.CONNACK,), _FLAG),
)  # fmt: skip
"""Every property of MQTT 5, 2.2.2.2 (table 2-4)."""

_BY_IDENTIFIER: Final = {item.identifier: item for item in PROPERTIES}
_BY_NAME: Final = {item.name: item for item in PROPERTIES}


def read_properties(cursor: Cursor, place: int) -> Properties:
    """Read a packet's Property Length and properties; None when there are none."""
    size = cursor.varint()
    if not size:
        return None
    end = cursor.position + size
    if end > cursor.end:
        raise malformed("The Property Length is longer than the packet; they must agree.")
    found: dict[str, object] = {}
    repeated: dict[str, list[object]] = {}
    count = 0
    while cursor.position < end:
        item = _BY_IDENTIFIER.get(cursor.varint())
        if item is None or place not in item.places:  # MQTT 5, 2.2.2.2
            raise malformed("A property is unknown, or it is not one of this packet's.")
        value = item.read(cursor)
        if isinstance(value, int) and not item.least <= value <= item.most:
            raise Violation(
                item.reason, f"{item.name} must be {item.least} to {item.most}, not {value}."
            )
        count += 1
        if count > MQTT_PROPERTIES_MAX:  # D61
            raise Violation(
                Reason.QUOTA_EXCEEDED,
                f"A packet must hold at most {MQTT_PROPERTIES_MAX} properties; send fewer.",
            )
        if place in item.repeats:
            repeated.setdefault(item.name, []).append(value)
        elif item.name in found:
            raise protocol_error(f"{item.name} must stand at most once in a packet.")
        else:
            found[item.name] = value
    if cursor.position != end:
        raise malformed("The last property runs over the Property Length; they must agree.")
    for name, values in repeated.items():
        found[name] = tuple(values)
    if "response_topic" in found:
        _check_response_topic(str(found["response_topic"]))
    return found


def _check_response_topic(topic: str) -> None:
    try:
        check_topic(topic)  # MQTT-3.3.2-14
    except Error as error:
        raise protocol_error(f"The Response Topic is not a topic name: {error.message}.") from None


def write_properties(properties: Properties, place: int) -> bytes:
    """Return the Property Length and the properties, in the order of the dict."""
    if not properties:
        return b"\0"
    parts = []
    for name, value in properties.items():
        item = _BY_NAME.get(name)
        if item is None or place not in item.places:
            raise Error(
                Code.INVALID, f"{name!r} is not a property of this MQTT packet; leave it out."
            )
        repeated = isinstance(value, tuple | list) and place in item.repeats
        for each in value if repeated else (value,):  # type: ignore[attr-defined]
            if isinstance(each, int) and not item.least <= each <= item.most:
                raise Error(
                    Code.INVALID, f"{name} must be {item.least} to {item.most}, not {each}."
                )
            parts.append(bytes((item.identifier,)))
            parts.append(item.write(each))
    body = b"".join(parts)
    return varint(len(body)) + body
