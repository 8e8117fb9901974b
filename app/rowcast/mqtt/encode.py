"""From packets to bytes: one writer for each packet type, in the table ``WRITERS``.

``encode`` is for every packet; ``publish_head_tail`` is for fan-out, where a message is written
once and only the packet identifier differs from reader to reader. What a version cannot say is
left out (the properties before MQTT 5) or said in its nearest words (the reasons of CONNACK and
SUBACK). Writers trust their packets to be legal and check only what would make the bytes
unreadable; they must not know who the reader is or how much it takes.
"""

from collections.abc import Callable
from typing import Final

from rowcast.mqtt.packets import (
    MQTT_3_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
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
    Will,
)
from rowcast.mqtt.properties import WILL, Properties, write_properties
from rowcast.mqtt.reasons import PacketType, Reason, return_code
from rowcast.mqtt.wire import binary, text, varint


def encode(packet: Packet, version: int) -> bytes:
    """Return the bytes of a packet in a version; a CONNECT is written in the one it names."""
    return WRITERS[packet.TYPE](packet, version)


def publish_head_tail(
    version: int,
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    dup: bool,
    properties: Properties,
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the packet identifier of a PUBLISH (MQTT 5, 3.3).

    With QoS 1 and 2 the frame is ``head + packet_id.to_bytes(2, "big") + tail``, with QoS 0 it is
    ``head + tail``.
    """
    if version != MQTT_5:
        tail = payload
    elif properties:
        tail = write_properties(properties, PacketType.PUBLISH) + payload
    else:
        tail = b"\0" + payload
    name = text(topic)
    size = len(name) + len(tail)
    first = 0x30
    if qos:
        size += 2
        first |= qos << 1
    if retain:
        first |= 1
    if dup:
        first |= 8
    if size < 128:
        return bytes((first, size)) + name, tail
    return bytes((first,)) + varint(size) + name, tail


def _frame(first: int, body: bytes) -> bytes:
    return bytes((first,)) + varint(len(body)) + body


def _write_publish(packet: Publish, version: int) -> bytes:
    head, tail = publish_head_tail(
        version,
        packet.topic,
        packet.payload,
        packet.qos,
        packet.retain,
        packet.dup,
        packet.properties,
    )
    if packet.qos:
        return head + packet.packet_id.to_bytes(2, "big") + tail
    return head + tail


def _write_acknowledgement(packet: Puback | Pubrec | Pubrel | Pubcomp, version: int) -> bytes:
    first = packet.TYPE << 4 | (2 if packet.TYPE == PacketType.PUBREL else 0)
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version != MQTT_5 or (not packet.reason and not packet.properties):
        return bytes((first, 2)) + packet_id
    return _frame(first, packet_id + _outcome(packet.reason, packet.properties, packet.TYPE))


def _outcome(reason: Reason, properties: Properties, kind: PacketType) -> bytes:
    """Write the optional end of a packet in its shortest form (MQTT 5, 3.4.2.1)."""
    if properties:
        return bytes((reason,)) + write_properties(properties, kind)
    return bytes((reason,)) if reason else b""


def _write_connect(packet: Connect, _version: int) -> bytes:
    version = packet.version
    name = b"MQIsdp" if version == MQTT_3_1 else b"MQTT"
    parts = [
        binary(name),
        bytes((version, _connect_flags(packet))),
        packet.keep_alive_seconds.to_bytes(2, "big"),
    ]
    if version == MQTT_5:
        parts.append(write_properties(packet.properties, PacketType.CONNECT))
    parts.append(text(packet.client_id))
    if packet.will is not None:
        parts.append(_will(packet.will, version))
    if packet.username is not None:
        parts.append(text(packet.username))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return _frame(0x10, b"".join(parts))


def _connect_flags(packet: Connect) -> int:
    will = packet.will
    flags = 0x02 if packet.clean_start else 0
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
    if packet.password is not None:
        flags |= 0x40
    if packet.username is not None:
        flags |= 0x80
    return flags


def _will(will: Will, version: int) -> bytes:
    message = text(will.topic) + binary(will.payload)
    return write_properties(will.properties, WILL) + message if version == MQTT_5 else message


def _write_connack(packet: Connack, version: int) -> bytes:
    present = 1 if packet.session_present and version != MQTT_3_1 else 0
    if version == MQTT_5:
        properties = write_properties(packet.properties, PacketType.CONNACK)
        return _frame(0x20, bytes((present, packet.reason)) + properties)
    return bytes((0x20, 2, present, return_code(packet.reason)))


def _write_subscribe(packet: Subscribe, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big")]
    if version == MQTT_5:
        parts.append(write_properties(packet.properties, PacketType.SUBSCRIBE))
    for item in packet.subscriptions:
        parts.append(text(item.filter))
        parts.append(bytes((_options(item) if version == MQTT_5 else item.qos,)))
    return _frame(0x82, b"".join(parts))


def _options(item: Subscription) -> int:
    """Return the Subscription Options (MQTT 5, 3.8.3.1)."""
    return (
        item.qos
        | (4 if item.no_local else 0)
        | (8 if item.retain_as_published else 0)
        | item.retain_handling << 4
    )


def _write_suback(packet: Suback, version: int) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version == MQTT_5:
        properties = write_properties(packet.properties, PacketType.SUBACK)
        return _frame(0x90, packet_id + properties + bytes(packet.reasons))
    codes = bytes(min(reason, 0x80) for reason in packet.reasons)  # 3.1.1 has one word for failure
    return _frame(0x90, packet_id + codes)


def _write_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    parts = [packet.packet_id.to_bytes(2, "big")]
    if version == MQTT_5:
        parts.append(write_properties(packet.properties, PacketType.UNSUBSCRIBE))
    parts.extend(text(item) for item in packet.filters)
    return _frame(0xA2, b"".join(parts))


def _write_unsuback(packet: Unsuback, version: int) -> bytes:
    packet_id = packet.packet_id.to_bytes(2, "big")
    if version != MQTT_5:
        return b"\xb0\x02" + packet_id
    properties = write_properties(packet.properties, PacketType.UNSUBACK)
    return _frame(0xB0, packet_id + properties + bytes(packet.reasons))


def _write_disconnect(packet: Disconnect, version: int) -> bytes:
    if version != MQTT_5:
        return b"\xe0\x00"
    return _frame(0xE0, _outcome(packet.reason, packet.properties, PacketType.DISCONNECT))


def _write_auth(packet: Auth, _version: int) -> bytes:
    if not packet.reason and not packet.properties:  # MQTT 5, 3.15.2.1
        return b"\xf0\x00"
    properties = write_properties(packet.properties, PacketType.AUTH)
    return _frame(0xF0, bytes((packet.reason,)) + properties)


WRITERS: Final[dict[PacketType, Callable[..., bytes]]] = {
    PacketType.CONNECT: _write_connect,
    PacketType.CONNACK: _write_connack,
    PacketType.PUBLISH: _write_publish,
    PacketType.PUBACK: _write_acknowledgement,
    PacketType.PUBREC: _write_acknowledgement,
    PacketType.PUBREL: _write_acknowledgement,
    PacketType.PUBCOMP: _write_acknowledgement,
    PacketType.SUBSCRIBE: _write_subscribe,
    PacketType.SUBACK: _write_suback,
    PacketType.UNSUBSCRIBE: _write_unsubscribe,
    PacketType.UNSUBACK: _write_unsuback,
    PacketType.PINGREQ: lambda _packet, _version: b"\xc0\x00",
    PacketType.PINGRESP: lambda _packet, _version: b"\xd0\x00",
    PacketType.DISCONNECT: _write_disconnect,
    PacketType.AUTH: _write_auth,
}
"""How each type of packet is written: (packet, version) to its bytes."""
