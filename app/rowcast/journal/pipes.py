"""The messages between a server and its applier process.

The server writes notices of nine bytes, a letter and a number; the applier writes maps in
MessagePack, each after its length. The first message of the server is such a map, too. The number
of the last batch to apply is in memory that both have: a process that is at work looks there, and
is not woken for each batch. Beside it the applier counts its heartbeats.
"""

import mmap
import os
import struct
import tempfile
from collections.abc import Callable
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
NOTICES_BYTES: Final = 64 * NOTICE.size
"""Read at a time: more than a few only wait while a transaction goes on."""
_LENGTH: Final = struct.Struct("!I")
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A schema and its settings are some kilobytes, a report some hundred for each table."""


class SharedNumber:
    """A number that one process sets and others read, in memory that they have in common.

    ``handle`` names that memory, which has no name among the files; without one it is made.
    """

    def __init__(self, handle: int | None = None) -> None:
        self.handle = _nameless_file() if handle is None else handle
        # Eight aligned bytes, which a processor of 64 bits stores and loads at once.
        self.cell = memoryview(mmap.mmap(self.handle, mmap.PAGESIZE)).cast("Q")
        """The number is its first item; 0 until it is set. The second are heartbeats."""

    @property
    def heartbeats(self) -> int:
        """How often the other side has shown that it is alive."""
        return self.cell[1]

    def beat(self) -> None:
        """Show that this process is alive."""
        self.cell[1] += 1

    def close(self) -> None:
        """Close the handle. The memory is there as long as somebody has it."""
        os.close(self.handle)


def _nameless_file() -> int:
    """Return the handle of a page of zeros, in memory where the system can (memfd_create(2))."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("rowcast-number")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, mmap.PAGESIZE)
    return handle


def _no_wait() -> None:
    """Leave waiting to the read."""


def read_all(handle: int, size: int, wait: Callable[[], None] = _no_wait) -> bytes:
    """Return exactly so many bytes; empty when the other side has closed the pipe.

    ``wait`` is called before each read, and may wait until there is something.
    """
    found = b""
    while len(found) < size:
        wait()
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


def read_message(handle: int, wait: Callable[[], None] = _no_wait) -> dict[str, object] | None:
    """Return the next message; None when the other side has closed the pipe. See ``read_all``."""
    head = read_all(handle, _LENGTH.size, wait)
    if not head:
        return None
    (size,) = _LENGTH.unpack(head)
    data = read_all(handle, min(size, MESSAGE_BYTES_MAX), wait)
    if not data:
        return None
    return cast("dict[str, object]", msgpack.unpackb(data, strict_map_key=False))
