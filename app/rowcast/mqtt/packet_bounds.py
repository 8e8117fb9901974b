"""Where packets end in a stream that is passed on without being read.

A process that relays a connection may put in a packet of its own only between two others.
"""

from rowcast.mqtt.reasons import PacketType


class PacketBounds:
    """The place in one stream, after each of its chunks; the stream is well formed."""

    __slots__ = ("_kinds", "_left", "_shift", "_size")

    def __init__(self) -> None:
        self._left = 0
        """Bytes of the packet under way that are still to come."""
        self._size, self._shift = 0, -1
        """What is known of its Remaining Length, and the place of the next byte of that; -1
        before its first byte and after its last."""
        self._kinds = 0
        """The types of packets that have begun, a bit each."""

    @property
    def between(self) -> bool:
        """Whether the last packet is all there, and the next one has not begun."""
        return not self._left and self._shift < 0

    def has(self, kind: PacketType) -> bool:
        """Whether a packet of a type has begun."""
        return bool(self._kinds >> kind & 1)

    def take(self, data: bytes) -> None:
        """Take the next bytes."""
        position = 0
        while 0 <= position < len(data):
            position = self.next_end(data, position)

    def next_end(self, data: bytes, position: int = 0) -> int:
        """Take the next bytes up to the end of a packet; return that place, -1 if none ends."""
        end, left = len(data), self._left
        if not left:
            if self._shift < 0:
                self._kinds |= 1 << (data[position] >> 4)
                position += 1
                self._size = self._shift = 0
            more = True
            while more:
                if position >= end:
                    return -1
                byte = data[position]
                position += 1
                self._size |= (byte & 127) << self._shift
                self._shift += 7
                more = byte > 127
            self._shift, left = -1, self._size
        position += left
        self._left = max(0, position - end)
        return position if position <= end else -1
