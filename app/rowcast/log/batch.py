"""A batch: the bytes of one group commit, a fixed header and a MessagePack body.

The header has 64 bytes, numbers in network byte order:

    offset  bytes  field
         0      4  ``RCB1``: a batch of version 1 of this format
         4      4  bytes of the body
         8      4  CRC-32 (zlib, ISO 3309) of the header without this field, then of the body
        12      4  how many events
        16      8  number of the batch: one more than that of the batch before
        24      8  term: which writer appended it; grows with each new writer of a log
        32      8  number of the first event, where there is one
        40      8  number of the last event so far, also where the batch has none
        48      8  when it was made, in microseconds since 1970 (UTC)
        56      8  reserved, zero

A reader finds a batch's end from the header alone, and knows by the checksum whether all of it
reached the disk. This module must not know files: a batch is the same bytes on a disk, in a stream
of another engine and on the way to another node.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from rowcast.core.errors import Code, Error
from rowcast.log.batch_content import Content, TableOf, decode_content, encode_content

MAGIC: Final = b"RCB1"
HEADER_BYTES: Final = 64
BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""More than any group commit: two thousand payloads at their limit are never in one, because a
commit takes no more than a megabyte beside its first write. A length beyond it is damage."""

_HEADER: Final = struct.Struct("!4sIIIQQQQQQ")
_CHECKSUM: Final = slice(8, 12)


class Body(NamedTuple):
    """An encoded content, whose batch has no number yet."""

    first: int
    last: int
    events: int
    """How many events it has; without any, the numbers mean nothing."""
    data: bytes

    @classmethod
    def of(cls, content: Content) -> Self:
        """Encode a content; raises TOO_LARGE when it must be divided."""
        events = content.events
        first, last = (events[0].seq, events[-1].seq) if events else (0, 0)
        data = encode_content(content, first)
        if len(data) > BODY_BYTES_MAX:
            raise Error(Code.TOO_LARGE, f"a batch of {len(data)} bytes; it must be divided")
        return cls(first, last, len(events), data)


@dataclass(slots=True, init=False)
class Batch:
    """One group commit; ``data`` is all of it, header and body.

    Not frozen, because each commit makes one, and nobody changes it.
    """

    number: int
    term: int
    first: int
    """The number of its first event; one more than ``last`` when it has none."""
    last: int
    """The number of the newest event of the log once this batch is in it."""
    count: int
    """How many events it has; numbers may be left out, so it can be less than its range."""
    made_at: int
    """Microseconds since 1970 (UTC) on the clock of its writer."""
    data: bytes

    def __init__(
        self, number: int, term: int, first: int, last: int, count: int, made_at: int, data: bytes
    ) -> None:
        self.number = number
        self.term = term
        self.first = first
        self.last = last
        self.count = count
        self.made_at = made_at
        self.data = data

    @classmethod
    def make(cls, number: int, term: int, before: int, content: Content, made_at: int) -> Self:
        """Return the batch of a content; ``before`` is the ``last`` of the batch before it."""
        return cls.seal(number, term, before, Body.of(content), made_at)

    @classmethod
    def seal(cls, number: int, term: int, before: int, body: "Body", made_at: int) -> Self:
        """Return the batch of an encoded content, once its place in the log is known."""
        data = body.data
        first, last = (body.first, body.last) if body.events else (before + 1, before)
        header = bytearray(
            _HEADER.pack(MAGIC, len(data), 0, body.events, number, term, first, last, made_at, 0)
        )
        header[_CHECKSUM] = _checksum(header, data).to_bytes(4)
        return cls(number, term, first, last, body.events, made_at, bytes(header) + data)

    @classmethod
    def read(cls, data: bytes | memoryview, at: int = 0) -> Self:
        """Return the batch whose header begins at a place. Raises INVALID where there is none."""
        size = size_at(data, at)
        whole = bytes(data[at : at + size])
        _, _, checksum, count, number, term, first, last, made_at, _ = _HEADER.unpack_from(whole)
        if len(whole) < size:
            raise Error(Code.INVALID, f"a batch of {size} bytes ends after {len(whole)}")
        if checksum != _checksum(whole[:HEADER_BYTES], whole[HEADER_BYTES:]):
            raise Error(Code.INVALID, f"batch {number} is damaged: its checksum does not match")
        return cls(number, term, first, last, count, made_at, whole)

    @property
    def checksum(self) -> int:
        """Its checksum, by which it is told apart from another batch of the same number."""
        checksum: int = _HEADER.unpack_from(self.data)[2]
        return checksum

    def content(self, table_of: TableOf) -> Content:
        """Decode the events, changes and operations; raises INVALID for those of no encoder."""
        return decode_content(self.data[HEADER_BYTES:], self.first, table_of)


def size_at(data: bytes | memoryview, at: int) -> int:
    """Return the bytes of the batch whose header begins at a place, complete or not.

    Raises INVALID where no header is, or one that tells of more bytes than a batch can have.
    """
    if len(data) - at < HEADER_BYTES:
        raise Error(Code.INVALID, f"{max(0, len(data) - at)} bytes are no header of a batch")
    magic, size = struct.unpack_from("!4sI", data, at)
    if magic != MAGIC:
        raise Error(Code.INVALID, f"{bytes(magic)!r} does not begin a batch")
    if size > BODY_BYTES_MAX:
        raise Error(Code.INVALID, f"a batch cannot have {size} bytes")
    return HEADER_BYTES + int(size)


def _checksum(header: bytes | bytearray, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(header[12:], zlib.crc32(header[:8])))
