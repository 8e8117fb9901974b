"""The messages between a server and its applier process.

The server writes notices of nine bytes, a letter and a number; the applier writes maps in
MessagePack, each after its length. The first message of the server is such a map, too.
"""

import os
import struct
from typing import Final, cast

import msgpack  # type: ignore[import-untyped]

APPLY: Final = b"a"
"""Apply batches up to this number."""
HURRY: Final = b"h"
"""Somebody waits until the tables have the batches up to this number: apply them without a rest."""
TIDY: Final = b"t"
"""Do a step of deferred work, of at most so many events."""
STOP: Final = b"s"
"""Apply up to this number, then end."""

NOTICE: Final = struct.Struct("!cQ")
_LENGTH: Final = struct.Struct("!I")
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A schema and its settings are some kilobytes, a report some hundred for each table."""


def read_all(handle: int, size: int) -> bytes:
    """Return exactly so many bytes; empty when the other side has closed the pipe."""
    found = b""
    while len(found) < size:
        some = os.read(handle, size - len(found))
        if not some:
            return b""
        found += some
    return found


def write_all(handle: int, data: bytes) -> None:
    """Write all bytes; raises OSError when the other side has closed the pipe."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_message(handle: int, message: dict[str, object]) -> None:
    """Write a message."""
    data = msgpack.packb(message)
    write_all(handle, _LENGTH.pack(len(data)) + data)


def read_message(handle: int) -> dict[str, object] | None:
    """Return the next message; None when the other side has closed the pipe."""
    head = read_all(handle, _LENGTH.size)
    if not head:
        return None
    (size,) = _LENGTH.unpack(head)
    data = read_all(handle, min(size, MESSAGE_BYTES_MAX))
    if not data:
        return None
    return cast("dict[str, object]", msgpack.unpackb(data, strict_map_key=False))
