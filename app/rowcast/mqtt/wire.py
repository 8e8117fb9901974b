"""The primitives of the wire: integers, strings, binary data (MQTT 5, 1.5).

A ``Cursor`` reads one packet that is there as a whole and is bound to its length, so running out
is always the sender's mistake and never a reason to wait; waiting is the connection's. It must
not know packets: only how their smallest parts are written.
"""

from collections.abc import Sequence
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.mqtt.violations import malformed

VARINT_MAX: Final = 268_435_455
"""The greatest Variable Byte Integer: four bytes of seven bits (MQTT 5, 1.5.5)."""
STRING_BYTES_MAX: Final = 65_535
"""A string or binary field has two bytes for its length (MQTT 5, 1.5.4 and 1.5.6)."""


class Cursor:
    """A place in one whole packet; a read past the packet's end is a malformed packet."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def take(self, size: int) -> bytes:
        """Read the next ``size`` bytes."""
        start = self.position
        stop = start + size
        if stop > self.end:
            raise malformed(
                f"The packet ends {stop - self.end} bytes before the field that begins there; "
                "its remaining length and its fields must agree."
            )
        self.position = stop
        return self.data[start:stop]

    def byte(self) -> int:
        """Read one byte."""
        position = self.position
        if position >= self.end:
            self.take(1)
        self.position = position + 1
        return self.data[position]

    def uint16(self) -> int:
        """Read a Two Byte Integer (MQTT 5, 1.5.2)."""
        start = self.position
        if start + 2 > self.end:
            self.take(2)
        self.position = start + 2
        return self.data[start] << 8 | self.data[start + 1]

    def uint32(self) -> int:
        """Read a Four Byte Integer (MQTT 5, 1.5.3)."""
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        """Read a Variable Byte Integer (MQTT 5, 1.5.5)."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                if not byte and shift:  # MQTT-1.5.5-1
                    raise malformed("A Variable Byte Integer must use as few bytes as it can.")
                return value
        raise malformed("A Variable Byte Integer must be at most four bytes long.")

    def binary(self) -> bytes:
        """Read Binary Data (MQTT 5, 1.5.6)."""
        return self.take(self.uint16())

    def text(self) -> str:
        """Read a UTF-8 Encoded String (MQTT 5, 1.5.4)."""
        return decode_text(self.binary())

    def pair(self) -> tuple[str, str]:
        """Read a UTF-8 String Pair (MQTT 5, 1.5.7)."""
        return self.text(), self.text()

    def rest(self) -> bytes:
        """Read all that is left of the packet."""
        return self.take(self.end - self.position)

    def packet_id(self) -> int:
        """Read a Packet Identifier, which is never 0 (MQTT-2.2.1-3, MQTT-2.3.1-1 of 3.1.1)."""
        number = self.uint16()
        if not number:
            raise malformed("A Packet Identifier must be 1 to 65535, not 0.")
        return number

    def finish(self) -> None:
        """Refuse bytes left over: the packet's length and its fields must agree."""
        if self.position != self.end:
            raise malformed(
                f"The packet has {self.end - self.position} bytes more than its fields; "
                "its remaining length and its fields must agree."
            )


def decode_text(raw: bytes) -> str:
    """Return the text of a UTF-8 Encoded String's bytes."""
    try:
        text = raw.decode()  # MQTT-1.5.4-1: Python's decoder refuses surrogates as well
    except UnicodeDecodeError as error:
        raise malformed(f"A string is not UTF-8: {error.reason} at byte {error.start}.") from None
    if "\0" in text:  # MQTT-1.5.4-2
        raise malformed("A string must not hold the character NUL.")
    return text


def varint(number: int) -> bytes:
    """Return a Variable Byte Integer in its only, shortest form (MQTT-1.5.5-1)."""
    if number < 128:
        return bytes((number,))
    if number > VARINT_MAX:
        raise Error(
            Code.TOO_LARGE,
            f"{number} does not fit into MQTT's four length bytes; send at most {VARINT_MAX}.",
        )
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def binary(raw: bytes) -> bytes:
    """Return Binary Data: two bytes of length and the bytes."""
    if len(raw) > STRING_BYTES_MAX:
        raise Error(
            Code.TOO_LARGE,
            f"{len(raw)} bytes do not fit into one MQTT field; send at most {STRING_BYTES_MAX}.",
        )
    return len(raw).to_bytes(2, "big") + raw


def text(value: str) -> bytes:
    """Return a UTF-8 Encoded String."""
    try:
        raw = value.encode()
    except UnicodeEncodeError:  # MQTT-1.5.4-1
        raise Error(
            Code.INVALID, "A string for MQTT must not hold half of a surrogate pair."
        ) from None
    if b"\0" in raw:  # MQTT-1.5.4-2
        raise Error(Code.INVALID, "A string for MQTT must not hold the character NUL.")
    size = len(raw)
    return binary(raw) if size > STRING_BYTES_MAX else size.to_bytes(2, "big") + raw


def pair(value: Sequence[str]) -> bytes:
    """Return a UTF-8 String Pair."""
    return text(value[0]) + text(value[1])


def remaining_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the Remaining Length that begins there and where the body begins (MQTT 5, 2.1.4).

    It is -1 when its bytes are not all there. A padded length is taken: only MQTT 5 forbids it, and
    the version may not be known yet.
    """
    end = len(data)
    value = 0
    for shift in (0, 7, 14, 21):
        if position >= end:
            return -1, position
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise malformed("The Remaining Length must be at most four bytes long.")
