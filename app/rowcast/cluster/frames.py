"""Messages on a stream of bytes: each after its length, four bytes in network byte order."""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Final, cast

from rowcast.core.errors import Code, Error

log = logging.getLogger("rowcast.cluster")

_LENGTH: Final = struct.Struct("!I")
MESSAGE_BYTES_MAX: Final = 300 * 1024 * 1024
"""More than the largest batch (``log/batch.py``) in its message; a length beyond it is damage."""


class Frames(asyncio.Protocol):
    """One connection; ``received`` takes its messages, and may raise an Error that ends it."""

    def __init__(self) -> None:
        self.received: Callable[[bytes], None] = _refuse
        self.ended: Callable[[], None] | None = None
        """Called once, when the connection is lost."""
        self.made: Callable[[Frames], None] | None = None
        """Called when the connection is there."""
        self.room: Callable[[bool], None] | None = None
        """Called when the transport is full, with False, and when it has room again, with True."""
        self.bytes_max = MESSAGE_BYTES_MAX
        """The largest message that is taken; a longer one ends the connection."""
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._heir: asyncio.Transport | None = None
        """The connection, once another protocol has it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's derives from nothing
        if self.made is not None:
            self.made(self)

    def send(self, message: bytes) -> None:
        """Send a message; nothing happens when the connection is lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines((_LENGTH.pack(len(message)), message))

    def data_received(self, data: bytes) -> None:
        """Take bytes, and pass on each whole message."""
        self._held += data
        try:
            self._take_whole()
        except Error as error:
            log.warning("a connection between processes ends: %s", error.full)
            self.close()

    def _take_whole(self) -> None:
        start, held = 0, self._held
        while len(held) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(held, start)
            if size > self.bytes_max:
                raise Error(Code.TOO_LARGE, f"a message of {size} bytes")
            end = start + _LENGTH.size + size
            if end > len(held):
                break
            message = bytes(held[start + _LENGTH.size : end])
            start = end
            self.received(message)
            if self._heir is not None:
                self._pass_rest(self._heir, start)
                return
        del held[:start]

    def _pass_rest(self, own: asyncio.Transport, start: int) -> None:
        rest = bytes(self._held[start:])
        self._held.clear()
        if rest:
            cast("asyncio.Protocol", own.get_protocol()).data_received(rest)

    def hand_over(self, heir: asyncio.Protocol, seen: object = None) -> asyncio.Transport:
        """Give the connection to another protocol, when the message at hand is the last one.

        It sees ``seen`` as its transport, unless that is the connection's own, which is returned.
        """
        own, self._transport = self._transport, None
        if own is None:
            raise Error(Code.BUSY, "the connection was lost")
        self._heir, self.ended = own, None
        own.set_protocol(heir)
        heir.connection_made(cast("asyncio.BaseTransport", seen or own))
        return own

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection; None when it is lost, or another protocol has it."""
        return self._transport

    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the other side to take them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause(self) -> None:
        """Read nothing more for now; what is read waits with the other side."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Tell that the transport is full."""
        if self.room is not None:
            self.room(False)

    def resume_writing(self) -> None:
        """Tell that the transport has room again."""
        if self.room is not None:
            self.room(True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the same either way
        """End."""
        self._transport = None
        if self.ended is not None:
            self.ended()

    def close(self) -> None:
        """End the connection, once what was sent is on its way."""
        if self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """End the connection at once: what was sent waits for nobody."""
        if self._transport is not None:
            self._transport.abort()


def _refuse(message: bytes) -> None:
    raise Error(Code.INVALID, f"nobody takes a message of {len(message)} bytes")
