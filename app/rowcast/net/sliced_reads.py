"""Small reads from a transport that cannot be told how much to read: uvloop's, and TLS.

uvloop and TLS hand over up to 256 KiB at once. Here the receiver gets a slice of ``max_size`` bytes
in each turn of the loop, and nothing more is read until it has all of them.
"""

import asyncio
from typing import Final, cast

READ_BYTES: Final = 16 * 1024
"""Read at a time from a connection with small packets or frames: of MQTT some five hundred of the
smallest, which take four milliseconds; of WebSocket 2,700 that are empty, which take 40."""
_NOTHING: Final = memoryview(b"")


class SlicedReads(asyncio.Protocol):
    """The receiver of the stream below, and the transport of the receiver above.

    It has asyncio's ``max_size``, the most bytes of one slice, which may change at any time.
    """

    __slots__ = ("_below", "_due", "_halted", "_paused", "_receiver", "_rest", "max_size", "write")

    def __init__(self, below: asyncio.Transport, receiver: asyncio.Protocol | None = None) -> None:
        self._below = below
        self._receiver = receiver
        self.max_size = READ_BYTES
        self._rest = _NOTHING
        """What was read and not handed over; at most one read of the stream, or of TLS."""
        self._paused = self._due = self._halted = False
        # _paused: by the receiver; _due: the next slice has its place in the loop; _halted: the
        # stream below was told to pause
        self.write = below.write  # without another call

    @classmethod
    def of(cls, stream: asyncio.Transport) -> asyncio.Transport:
        """Return the stream itself if it can be told how much to read, else one that can."""
        return stream if hasattr(stream, "max_size") else cast("asyncio.Transport", cls(stream))

    # -- the transport of the receiver -------------------------------------------------------------

    def set_protocol(self, receiver: asyncio.Protocol) -> None:
        """Hand over to this receiver from now on."""
        self._receiver = receiver
        self._below.set_protocol(self)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what the stream says of the connection."""
        return self._below.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes of the stream's buffer at which the receiver is told to pause and go on."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the stream has not sent."""
        return self._below.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the stream is closing, or closed."""
        return self._below.is_closing()

    def close(self) -> None:
        """Close the stream after what is written was sent."""
        self._below.close()

    def abort(self) -> None:
        """Close the stream now."""
        self._below.abort()

    def pause_reading(self) -> None:
        """Hand over nothing more until ``resume_reading``."""
        self._paused = True
        self._halt()

    def resume_reading(self) -> None:
        """Hand over the rest, and read again after it."""
        self._paused = False
        self._go_on()

    # -- the receiver of the stream ----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Hand over the first slice now, and the others in later turns of the loop."""
        if not self._rest and len(data) <= self.max_size and not self._paused:
            self._hand_over(data)
            return
        self._rest = memoryview(bytes(self._rest) + data)
        self._halt()
        if not self._due and not self._paused:
            self._next_slice()

    def eof_received(self) -> bool | None:
        """Hand over the rest before the end."""
        self._hand_over_rest()
        return self._receiver.eof_received() if self._receiver is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand over the rest before the end."""
        self._hand_over_rest()
        receiver, self._receiver = self._receiver, None  # which knows this: else they are a cycle
        if receiver is not None:
            receiver.connection_lost(exc)

    def pause_writing(self) -> None:
        """Say that the peer does not take what is sent."""
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        """Say that the peer takes again what is sent."""
        if self._receiver is not None:
            self._receiver.resume_writing()

    # -- slices ------------------------------------------------------------------------------------

    def _next_slice(self) -> None:
        """Hand over a slice, unless the receiver has paused since this was planned."""
        self._due = False
        if self._paused or not self._rest:
            return
        data, self._rest = self._rest[: self.max_size], self._rest[self.max_size :]
        self._hand_over(bytes(data))
        if not self._paused:
            self._go_on()

    def _halt(self) -> None:
        self._halted = True
        self._below.pause_reading()

    def _go_on(self) -> None:
        """Plan the next slice, or read again when there is none."""
        if self._rest:
            if not self._due:
                self._due = True
                asyncio.get_running_loop().call_soon(self._next_slice)
        elif self._halted and not self._below.is_closing():
            self._halted = False
            self._below.resume_reading()

    def _hand_over_rest(self) -> None:
        rest, self._rest = self._rest, _NOTHING
        if rest:
            self._hand_over(bytes(rest))

    def _hand_over(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.data_received(data)
