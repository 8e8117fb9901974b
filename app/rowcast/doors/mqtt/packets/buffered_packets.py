"""Packets buffered behind a CONNECT, a SUBSCRIBE or a transaction."""

from collections.abc import Sequence

from rowcast.core.limits import MQTT_HELD_PACKETS_MAX
from rowcast.core.memory_limits import MQTT_HELD_BYTES_HIGH
from rowcast.mqtt.packets import Packet, Publish
from rowcast.mqtt.violations import Violation


def should_pause_reading(packets: Sequence[Packet | Violation]) -> bool:
    """Whether reading should pause because of buffered packets."""
    if len(packets) >= MQTT_HELD_PACKETS_MAX:
        return True
    held = sum(len(packet.payload) for packet in packets if isinstance(packet, Publish))
    return held >= MQTT_HELD_BYTES_HIGH
