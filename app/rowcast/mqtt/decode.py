"""From bytes to packets: one reader for each packet type, in the table ``READERS``.

A reader gets a cursor over the packet's body, the flags of its first byte and the protocol
version; it gives a packet or raises ``Violation``. Readers judge one packet by itself and for
either side; what depends on who sends it and on what came before is the connection's. Topic names
are checked here, filters only as strings: an illegal filter costs its subscription and not the
session (MQTT-4.7.1-1, answered with 0x8F or 0x80), so its text is kept for the broker to judge.
"""

from collections.abc import Callable
from typing import Final

from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Error
from rowcast.core.limits import MQTT_FILTERS_MAX, TOPIC_CACHED_BYTES_MAX
from rowcast.core.topics import SHARE_PREFIX, check_topic
from rowcast.mqtt.packets import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from rowcast.mqtt.properties import Properties, read_properties
from rowcast.mqtt.read_connect import read_connect
from rowcast.mqtt.reasons import REASONS, RETURN_CODES, SUBACK_3, PacketType, Reason
from rowcast.mqtt.violations import Violation, malformed, protocol_error
from rowcast.mqtt.wire import Cursor, decode_text

_TYPES: Final = tuple(PacketType)
_FLAGS_2: Final = (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE)


def check_first_byte(first: int, version: int) -> PacketType:
    """Return the packet type of a first byte, or raise Violation for one that no packet has.

    ``version`` is 0 while it is not known.
    """
    flags = first & 15
    if first < 0x10 or (first >= 0xF0 and version != MQTT_5):  # MQTT 5, table 2-1
        raise malformed(
            f"Packet type {first >> 4} is reserved; this version of MQTT does not send it."
        )
    kind = _TYPES[(first >> 4) - 1]
    if kind is PacketType.PUBLISH:
        _check_publish_flags(flags)
        return kind
    if version == MQTT_3_1 and kind in _FLAGS_2:
        flags &= 7  # 3.1, 2.1: these are sent again with DUP set
    expected = 2 if kind in _FLAGS_2 else 0
    if flags != expected:  # MQTT-2.1.3-1; MQTT-2.2.2-2 of 3.1.1; MQTT-3.6.1-1, 3.8.1-1, 3.10.1-1
        raise malformed(
            f"The lower half of the first byte of {kind.name} must be {expected}, not {flags}."
        )
    return kind


def _check_publish_flags(flags: int) -> None:
    qos = flags >> 1 & 3
    if qos == 3:  # MQTT-3.3.1-4
        raise malformed("The QoS of a PUBLISH must be 0, 1 or 2, not 3.")
    if not qos and flags & 8:  # MQTT-3.3.1-2
        raise malformed("DUP must not be set on a PUBLISH of QoS 0.")


def read_publish(
    cursor: Cursor, flags: int, version: int, topics: ClearedCache[bytes, str]
) -> Publish:
    """Read a PUBLISH; ``topics`` remembers topics by their bytes (MQTT 5, 3.3).

    The topic is empty when MQTT 5's Topic Alias stands for it.
    """
    raw = cursor.binary()
    topic = topics.get(raw)
    if topic is None:
        topic = _read_topic(raw, topics) if raw else ""
    qos = flags >> 1 & 3
    packet_id = cursor.packet_id() if qos else 0  # MQTT-2.2.1-2, MQTT-2.2.1-4
    properties = read_properties(cursor, PacketType.PUBLISH) if version == MQTT_5 else None
    if not topic and (properties is None or "topic_alias" not in properties):  # MQTT-4.7.3-1
        raise protocol_error("A PUBLISH must have a topic, or in MQTT 5 a Topic Alias.")
    retain = flags & 1 == 1
    return Publish(topic, cursor.rest(), qos, retain, flags & 8 == 8, packet_id, properties)


def legal_topic(raw: bytes, topics: ClearedCache[bytes, str]) -> str | None:
    """Return the topic of these bytes, and remember it; None for one that is to be refused."""
    try:
        return _read_topic(raw, topics) if raw else None
    except Violation:
        return None


def _read_topic(raw: bytes, topics: ClearedCache[bytes, str]) -> str:
    """Check a topic that is not remembered, and remember it."""
    topic = decode_text(raw)  # MQTT-3.3.2-1
    try:
        check_topic(topic)  # MQTT-3.3.2-2
    except Error as error:
        raise Violation(
            Reason.TOPIC_NAME_INVALID, f"The topic of a PUBLISH is refused: {error.message}."
        ) from None
    if len(raw) <= TOPIC_CACHED_BYTES_MAX:
        topics.put(raw, topic)
    return topic


def _read_reason(number: int, kind: PacketType) -> Reason:
    reason = REASONS[kind].get(number)
    if reason is None:
        raise protocol_error(f"0x{number:02X} is not a reason that {kind.name} may carry.")
    return reason


def _read_outcome(cursor: Cursor, kind: PacketType) -> tuple[Reason, Properties]:
    """Read the optional end of a packet: the reason code, and then the properties."""
    if cursor.position == cursor.end:
        return Reason.SUCCESS, None
    reason = _read_reason(cursor.byte(), kind)
    if cursor.position == cursor.end:
        return reason, None
    return reason, read_properties(cursor, kind)


def _acknowledgement(
    kind: PacketType, make: Callable[[int, Reason, Properties], Packet]
) -> Callable[[Cursor, int, int], Packet]:
    def read(cursor: Cursor, _flags: int, version: int) -> Packet:
        packet_id = cursor.packet_id()
        if version != MQTT_5:
            return make(packet_id, Reason.SUCCESS, None)
        reason, properties = _read_outcome(cursor, kind)
        return make(packet_id, reason, properties)

    return read


def _read_connack(cursor: Cursor, _flags: int, version: int) -> Connack:
    flags = cursor.byte()
    number = cursor.byte()
    if version == MQTT_3_1:
        flags = 0  # 3.1, 3.2: the first byte is reserved and not used
    if flags > 1:  # MQTT-3.2.2-1
        raise malformed("The first seven bits of CONNACK's flags are reserved and must be 0.")
    if version == MQTT_5:
        reason = _read_reason(number, PacketType.CONNACK)
        properties = read_properties(cursor, PacketType.CONNACK)
    elif number < len(RETURN_CODES):
        reason, properties = RETURN_CODES[number], None
    else:
        raise malformed(f"The return code {number} of CONNACK is reserved (3.1.1, table 3.1).")
    if flags and reason:  # MQTT-3.2.2-6; MQTT-3.2.2-4 of 3.1.1
        raise protocol_error("A CONNACK that refuses must not say that a session is present.")
    return Connack(flags == 1, reason, properties)


def _read_subscribe(cursor: Cursor, _flags: int, version: int) -> Subscribe:
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, PacketType.SUBSCRIBE) if version == MQTT_5 else None
    if cursor.position == cursor.end:  # MQTT-3.8.3-2; MQTT-3.8.3-3 of 3.1.1
        raise protocol_error("A SUBSCRIBE must hold at least one topic filter.")
    subscriptions = []
    while cursor.position < cursor.end:
        subscriptions.append(_read_subscription(cursor, version))
        _check_count(len(subscriptions))
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _check_count(filters: int) -> None:
    if filters > MQTT_FILTERS_MAX:  # D61
        raise Violation(
            Reason.QUOTA_EXCEEDED,
            f"A packet must hold at most {MQTT_FILTERS_MAX} topic filters; send several packets.",
        )


def _read_subscription(cursor: Cursor, version: int) -> Subscription:
    text = cursor.text()  # MQTT-3.8.3-1
    options = cursor.byte()
    if version == MQTT_3_1:
        options &= 3  # 3.1, 3.8: the upper bits are not used
    if version == MQTT_3_1_1 and options > 3:  # MQTT-3-8.3-4 of 3.1.1
        raise malformed("The upper six bits of a requested QoS are reserved and must be 0.")
    if options > 63:  # MQTT-3.8.3-5
        raise malformed("The upper two bits of the Subscription Options must be 0.")
    qos = options & 3
    if qos == 3:  # MQTT 5, 3.8.3.1; MQTT-3-8.3-4 of 3.1.1
        raise protocol_error("The QoS of a subscription must be 0, 1 or 2, not 3.")
    retain_handling = options >> 4
    if retain_handling == 3:  # MQTT 5, 3.8.3.1
        raise protocol_error("Retain Handling must be 0, 1 or 2, not 3.")
    no_local = options & 4 == 4
    if no_local and text.startswith(SHARE_PREFIX):  # MQTT-3.8.3-4
        raise protocol_error("No Local must not be set on a shared subscription.")
    return Subscription(text, qos, no_local, options & 8 == 8, retain_handling)


def _read_reasons(cursor: Cursor, kind: PacketType, version: int) -> tuple[Reason, ...]:
    codes = REASONS[kind] if version == MQTT_5 else SUBACK_3
    reasons = []
    for number in cursor.rest():
        reason = codes.get(number)
        if reason is None:
            raise protocol_error(f"0x{number:02X} is not a reason that {kind.name} may carry.")
        reasons.append(reason)
    if not reasons:  # MQTT-3.9.3-1, MQTT-3.11.3-1
        raise protocol_error(f"A {kind.name} must carry one reason for each topic filter.")
    return tuple(reasons)


def _read_suback(cursor: Cursor, _flags: int, version: int) -> Suback:
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, PacketType.SUBACK) if version == MQTT_5 else None
    return Suback(packet_id, _read_reasons(cursor, PacketType.SUBACK, version), properties)


def _read_unsubscribe(cursor: Cursor, _flags: int, version: int) -> Unsubscribe:
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, PacketType.UNSUBSCRIBE) if version == MQTT_5 else None
    if cursor.position == cursor.end:  # MQTT-3.10.3-2
        raise protocol_error("An UNSUBSCRIBE must hold at least one topic filter.")
    filters = []
    while cursor.position < cursor.end:
        filters.append(cursor.text())  # MQTT-3.10.3-1
        _check_count(len(filters))
    return Unsubscribe(packet_id, tuple(filters), properties)


def _read_unsuback(cursor: Cursor, _flags: int, version: int) -> Unsuback:
    packet_id = cursor.packet_id()
    if version != MQTT_5:
        return Unsuback(packet_id)
    properties = read_properties(cursor, PacketType.UNSUBACK)
    return Unsuback(packet_id, _read_reasons(cursor, PacketType.UNSUBACK, version), properties)


def _read_disconnect(cursor: Cursor, _flags: int, version: int) -> Disconnect:
    if version != MQTT_5:
        return Disconnect()
    reason, properties = _read_outcome(cursor, PacketType.DISCONNECT)
    return Disconnect(reason, properties)


def _read_auth(cursor: Cursor, _flags: int, _version: int) -> Auth:
    if cursor.position == cursor.end:  # MQTT 5, 3.15.2.1: success may be left out
        return Auth()
    reason = _read_reason(cursor.byte(), PacketType.AUTH)
    properties = read_properties(cursor, PacketType.AUTH)
    if not reason and properties is None:
        return Auth()
    if properties is None or "authentication_method" not in properties:  # MQTT 5, 3.15.2.2.2
        raise protocol_error("An AUTH must name its Authentication Method.")
    return Auth(reason, properties)


READERS: Final[dict[PacketType, Callable[[Cursor, int, int], Packet]]] = {
    PacketType.CONNECT: lambda cursor, _flags, _version: read_connect(cursor),
    PacketType.CONNACK: _read_connack,
    PacketType.PUBLISH: lambda cursor, flags, version: read_publish(
        cursor, flags, version, ClearedCache(1)
    ),
    PacketType.PUBACK: _acknowledgement(PacketType.PUBACK, Puback),
    PacketType.PUBREC: _acknowledgement(PacketType.PUBREC, Pubrec),
    PacketType.PUBREL: _acknowledgement(PacketType.PUBREL, Pubrel),
    PacketType.PUBCOMP: _acknowledgement(PacketType.PUBCOMP, Pubcomp),
    PacketType.SUBSCRIBE: _read_subscribe,
    PacketType.SUBACK: _read_suback,
    PacketType.UNSUBSCRIBE: _read_unsubscribe,
    PacketType.UNSUBACK: _read_unsuback,
    PacketType.PINGREQ: lambda _cursor, _flags, _version: Pingreq(),
    PacketType.PINGRESP: lambda _cursor, _flags, _version: Pingresp(),
    PacketType.DISCONNECT: _read_disconnect,
    PacketType.AUTH: _read_auth,
}
"""How each type of packet is read: (cursor, flags of the first byte, version) to the packet."""
