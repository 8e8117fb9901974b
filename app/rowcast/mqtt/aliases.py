"""Topic Aliases towards a peer: which topic has which number, and the bytes that say so.

A peer announces how many it keeps (MQTT 5, 3.1.2.11.5). The first topics get the numbers from 1 on;
when none is free, a topic takes the number of one that was not used for long, so that a peer with a
few topics more than numbers does not have them all set anew with every message. Aliases belong to
one connection (MQTT-3.3.2-7). A PUBLISH that was made for many is changed, not made again: with the
same number it is the same for all of them. It must not know who the peer is or what it is sent.
"""

from typing import Final

from rowcast.core.limits import MQTT_ALIAS_IDLE_FACTOR, MQTT_ALIASES_SENT_MAX
from rowcast.mqtt.wire import remaining_length, varint

_TOPIC_ALIAS: Final = b"\x23"
_PROPERTY_BYTES: Final = 3
_NO_TOPIC: Final = b"\0\0"
_QOS: Final = 0x06


class Aliases:
    """The aliases that one peer knows."""

    __slots__ = ("_free", "_idle_max", "_known", "_sent", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = min(maximum, MQTT_ALIASES_SENT_MAX)  # MQTT-3.1.2-26, MQTT-3.3.2-11
        """How many are used; 0 is none (MQTT-3.1.2-27)."""
        self._known: dict[str, list[int]] = {}
        """Topics to their number and when it was used; the one that was used last at the end."""
        self._free: list[int] = []
        self._sent = 0
        self._idle_max = self.maximum * MQTT_ALIAS_IDLE_FACTOR

    def find(self, topic: str) -> int:
        """Return the number that the peer knows a topic by, 0 if it knows none."""
        self._sent += 1
        entry = self._known.pop(topic, None)
        if entry is None:
            return 0
        self._known[topic] = entry
        entry[1] = self._sent
        return entry[0]

    def assign(self, topic: str) -> int:
        """Return a number to send beside a topic that has none, 0 if none may be had now."""
        if not self._free and len(self._known) == self.maximum:
            self._free_oldest()
        if self._free:
            number = self._free.pop()
        elif len(self._known) < self.maximum:
            number = len(self._known) + 1
        else:
            return 0
        self._known[topic] = [number, self._sent]
        return number

    def _free_oldest(self) -> None:
        oldest = next(iter(self._known), None)
        if oldest is not None and self._sent - self._known[oldest][1] > self._idle_max:
            self.forget(oldest)

    def forget(self, topic: str) -> None:
        """Release a topic's alias, because the PUBLISH that would have set it is not sent."""
        self._free.append(self._known.pop(topic)[0])


def alias_parts(parts: tuple[bytes, bytes], number: int, *, known: bool) -> tuple[bytes, bytes]:
    """Put an alias into a PUBLISH of MQTT 5 that is kept before and after its packet identifier.

    The topic is left out if the peer ``known``s the number.
    """
    head, tail = parts
    _, at = remaining_length(head, 1)
    topic = _NO_TOPIC if known else head[at:]
    size, start = remaining_length(tail, 0)  # the Property Length is spelled the same way
    alias = _TOPIC_ALIAS + number.to_bytes(2, "big")
    tail = varint(size + _PROPERTY_BYTES) + alias + tail[start:]
    size = len(topic) + len(tail) + (2 if head[0] & _QOS else 0)
    return head[:1] + varint(size) + topic, tail


def alias_frame(frame: bytes, number: int, *, known: bool) -> bytes:
    """Put an alias into a whole PUBLISH of MQTT 5 with QoS 0."""
    _, at = remaining_length(frame, 1)
    end = at + 2 + (frame[at] << 8 | frame[at + 1])
    head, tail = alias_parts((frame[:end], frame[end:]), number, known=known)
    return head + tail
