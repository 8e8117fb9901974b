"""From bytes to CONNECT: the packet with the most rules, and the one that says the version.

It is apart from the other readers because it alone reads before the version is known, so it
settles it, or raises ``UnsupportedVersion`` with the answer that a client of the version asked
for understands (D9). It must not know who may connect.
"""

from typing import Final

from rowcast.core.errors import Error
from rowcast.core.topics import check_topic
from rowcast.mqtt.packets import MQTT_3_1, MQTT_3_1_1, MQTT_5, Connect, Will
from rowcast.mqtt.properties import WILL, Properties, read_properties
from rowcast.mqtt.reasons import PacketType, Reason
from rowcast.mqtt.violations import UnsupportedVersion, Violation, malformed, protocol_error
from rowcast.mqtt.wire import Cursor, decode_text

_VERSIONS: Final = {
    (b"MQIsdp", MQTT_3_1): MQTT_3_1,
    (b"MQTT", MQTT_3_1_1): MQTT_3_1_1,
    (b"MQTT", MQTT_5): MQTT_5,
}
_CONNACK_3: Final = b"\x20\x02\x00\x01"
"""Return code 0x01, unacceptable protocol version (MQTT-3.1.2-2 of 3.1.1)."""
_CONNACK_5: Final = b"\x20\x03\x00\x84\x00"
"""Reason 0x84, Unsupported Protocol Version (MQTT-3.1.2-1, MQTT-3.1.2-2)."""

_RESERVED, _CLEAN, _WILL, _RETAIN, _PASSWORD, _USERNAME = 0x01, 0x02, 0x04, 0x20, 0x40, 0x80


def read_connect(cursor: Cursor) -> Connect:
    """Read a CONNECT of any version (MQTT 5, 3.1)."""
    version = _read_version(cursor)
    try:
        return _read_rest(cursor, version)
    except Violation as violation:
        violation.version = version  # so that it can be answered in the words of this version
        raise


def _read_rest(cursor: Cursor, version: int) -> Connect:
    flags = cursor.byte()
    _check_flags(flags, version)
    keep_alive_seconds = cursor.uint16()
    properties = read_properties(cursor, PacketType.CONNECT) if version == MQTT_5 else None
    _check_authentication(properties)
    client_id = cursor.text()  # MQTT-3.1.3-4
    _check_client_id(client_id, flags, version)
    will = _read_will(cursor, flags, version) if flags & _WILL else None
    username = password = None
    if flags & _USERNAME and not _left_out(cursor, version):
        username = cursor.text()  # MQTT-3.1.3-11
    if flags & _PASSWORD and not _left_out(cursor, version):
        password = cursor.binary()
    clean_start = flags & _CLEAN == _CLEAN
    return Connect(
        version, client_id, clean_start, keep_alive_seconds, username, password, will, properties
    )


def _read_version(cursor: Cursor) -> int:
    name = cursor.binary()
    level = cursor.byte()
    version = _VERSIONS.get((name, level))
    if version is not None:
        return version
    old = name == b"MQIsdp" or (name == b"MQTT" and level < MQTT_5)
    raise UnsupportedVersion(
        f"The protocol {name[:20]!r} of level {level} is not spoken here; "
        "connect with MQTT 3.1, 3.1.1 or 5.0.",
        _CONNACK_3 if old else _CONNACK_5,
    )


def _check_flags(flags: int, version: int) -> None:
    """Judge the Connect Flags (MQTT 5, 3.1.2.3)."""
    if flags & _RESERVED and version != MQTT_3_1:  # MQTT-3.1.2-3; 3.1 does not use the bit
        raise malformed("The lowest bit of the Connect Flags is reserved and must be 0.")
    qos = flags >> 3 & 3
    if qos == 3:  # MQTT-3.1.2-12
        raise malformed("The QoS of a will must be 0, 1 or 2, not 3.")
    if not flags & _WILL and (qos or flags & _RETAIN):  # MQTT-3.1.2-11, MQTT-3.1.2-13
        raise malformed("Will QoS and Will Retain must be 0 when there is no will.")
    if flags & _PASSWORD and not flags & _USERNAME and version != MQTT_5:
        raise malformed("Before MQTT 5 a password needs a user name.")  # MQTT-3.1.2-22 of 3.1.1


def _check_authentication(properties: Properties) -> None:
    given = properties or {}
    if "authentication_data" in given and "authentication_method" not in given:
        raise protocol_error("Authentication Data needs an Authentication Method.")  # 3.1.2.11.10


def _check_client_id(client_id: str, flags: int, version: int) -> None:
    """Refuse an empty identifier where the version needs one; MQTT 5 assigns one (3.1.3.1)."""
    if client_id or version == MQTT_5:
        return
    if version == MQTT_3_1:  # 3.1, 3.1: 1 to 23 characters; longer ones are taken
        raise Violation(
            Reason.CLIENT_IDENTIFIER_NOT_VALID, "The client identifier of MQTT 3.1 is never empty."
        )
    if not flags & _CLEAN:  # MQTT-3.1.3-8 of 3.1.1
        raise Violation(
            Reason.CLIENT_IDENTIFIER_NOT_VALID,
            "An empty client identifier needs a clean session; set the flag or give a name.",
        )


def _read_will(cursor: Cursor, flags: int, version: int) -> Will:
    properties = read_properties(cursor, WILL) if version == MQTT_5 else None
    topic = decode_text(cursor.binary())  # MQTT-3.1.3-10 of 3.1.1, MQTT-3.1.3-11
    try:
        check_topic(topic)
    except Error as error:
        raise Violation(
            Reason.TOPIC_NAME_INVALID, f"The topic of the will is refused: {error.message}."
        ) from None
    payload = cursor.binary()
    return Will(topic, payload, flags >> 3 & 3, flags & _RETAIN == _RETAIN, properties)


def _left_out(cursor: Cursor, version: int) -> bool:
    """Whether a 3.1 packet ends before a user name or password that its flags announce."""
    return version == MQTT_3_1 and cursor.position == cursor.end  # 3.1, 3.1, User name flag
