"""MQTT 3.1.1 frames, encoded beforehand and counted in bulk.

The generator must not be the bottleneck, so it does not look at one packet at a time where it can
help it: a ring of encoded frames is sent by slices, and what arrives is counted by the stride of
its frames. Strided slices run at the speed of memory, so every frame's header is still checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

CONNACK_SIZE = 4
SUBACK_SIZE = 5
ACK_SIZE = 4
PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x30, 0x40, 0x50, 0x62, 0x70


def varint(value: int) -> bytes:
    """Encode a remaining length."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def text(value: str) -> bytes:
    """Encode a UTF-8 string with its length."""
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def connect(client_id: str, keepalive_seconds: int = 300, *, clean: bool = True) -> bytes:
    """Encode CONNECT of MQTT 3.1.1."""
    flags = b"\x02" if clean else b"\x00"
    seconds = keepalive_seconds.to_bytes(2, "big")
    body = text("MQTT") + b"\x04" + flags + seconds + text(client_id)
    return b"\x10" + varint(len(body)) + body


def subscribe(topic_filter: str, qos: int) -> bytes:
    """Encode SUBSCRIBE with one filter."""
    return subscribe_all([topic_filter], qos)


def subscribe_all(topic_filters: list[str], qos: int) -> bytes:
    """Encode SUBSCRIBE with several filters."""
    body = b"\x00\x01" + b"".join(text(each) + bytes([qos]) for each in topic_filters)
    return b"\x82" + varint(len(body)) + body


def publish(
    topic: str, payload: bytes, qos: int = 0, packet_id: int = 0, retain: bool = False
) -> bytes:
    """Encode PUBLISH."""
    body = text(topic) + (packet_id.to_bytes(2, "big") if qos else b"") + payload
    return bytes([PUBLISH | qos << 1 | retain]) + varint(len(body)) + body


def disconnect() -> bytes:
    """Encode DISCONNECT."""
    return b"\xe0\x00"


def acks(kind: int, packet_ids: list[int]) -> bytes:
    """Encode one PUBACK, PUBREC, PUBREL or PUBCOMP for each packet id."""
    return b"".join(bytes([kind, 2]) + packet_id.to_bytes(2, "big") for packet_id in packet_ids)


def split(data: bytes | bytearray, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, start of body, end) of each whole frame in data[:size]."""
    start = 0
    while size - start >= 2:
        length, shift, at = 0, 0, start + 1
        while at < size:
            byte = data[at]
            length |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if byte < 128:
                break
        else:
            return
        if at + length > size:
            return
        yield start, at, at + length
        start = at + length


@dataclass(slots=True)
class Ring:
    """Frames of one size in turn, so that any run of them is one slice of memory."""

    frames: list[bytes]
    stride: int = 0
    position: int = 0
    data: memoryview = field(default_factory=lambda: memoryview(b""))

    def __post_init__(self) -> None:
        self.stride = len(self.frames[0])
        if any(len(frame) != self.stride for frame in self.frames):
            raise ValueError("the frames of a ring must have one size")
        self.data = memoryview(b"".join(self.frames) * 2)

    def take(self, count: int) -> memoryview:
        """Return the bytes of the next `count` frames, at most one round of the ring."""
        start = self.position * self.stride
        self.position = (self.position + count) % len(self.frames)
        return self.data[start : start + count * self.stride]


@dataclass(slots=True)
class Counter:
    """Counts what a subscriber receives: by stride while sizes are one, else frame by frame."""

    sample: bytes
    qos: int = 0
    id_at: int = 0

    def __post_init__(self) -> None:
        _, body, _ = next(split(self.sample, len(self.sample)))
        self.id_at = packet_id_at(self.sample, body)

    def count(self, data: bytearray, size: int) -> tuple[int, int, bytes]:
        """Return (messages, bytes consumed, acknowledgements to send) of data[:size]."""
        stride = len(self.sample)
        count = size // stride
        end = count * stride
        if self.qos == 2 or not self._uniform(data, size, count, end):
            return self._one_by_one(data, size)
        return count, end, self._bulk_acks(data, count, end) if self.qos else b""

    def _uniform(self, data: bytearray, size: int, count: int, end: int) -> bool:
        """Say whether each frame, and the unfinished one, begins as the sample does."""
        stride = len(self.sample)
        return (
            data[0:end:stride].count(self.sample[0]) == count
            and data[1:end:stride].count(self.sample[1]) == count
            and self.sample.startswith(data[end : min(size, end + 2)])
        )

    def _bulk_acks(self, data: bytearray, count: int, end: int) -> bytes:
        out = bytearray(bytes([PUBACK, 2, 0, 0]) * count)
        out[2::4] = data[self.id_at : end : len(self.sample)]
        out[3::4] = data[self.id_at + 1 : end : len(self.sample)]
        return bytes(out)

    @staticmethod
    def _one_by_one(data: bytearray, size: int) -> tuple[int, int, bytes]:
        count, consumed, out = 0, 0, []
        for start, body, end in split(data, size):
            consumed = end
            kind, qos = data[start] & 0xF0, data[start] >> 1 & 3
            if kind == PUBLISH:
                at = packet_id_at(data, body)
                count += 1
                if qos:
                    out.append(bytes([PUBACK if qos == 1 else PUBREC, 2]) + data[at : at + 2])
            elif data[start] == PUBREL:
                out.append(bytes([PUBCOMP, 2]) + data[body : body + 2])
        return count, consumed, b"".join(out)


def packet_id_at(data: bytes | bytearray, body: int) -> int:
    """Return where the packet id of a PUBLISH stands: behind the topic."""
    return body + 2 + int.from_bytes(data[body : body + 2], "big")
