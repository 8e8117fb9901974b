"""The stream writer: writes a stream's frames at the end of the turn of the loop.

Streams with new events are flushed by one call, each with one write to its socket that contains all
events of the turn. Many streams that catch up have much to encode: what does not fit into a slice
of time waits for the next turn. A task is only woken for a slow peer or a plain ASGI channel.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from rowcast.core.errors import Error
from rowcast.doors.http.streams.channels import Channel

FLUSH_SECONDS: Final = 0.002
"""For which one call may flush writers; a thousand that are sent one event take twice as long."""


class Flusher:
    """The writers of one edge with pending frames; they are flushed when the turn ends.

    ``slice_seconds`` bounds one call, by ``clock`` in seconds; the others follow in the next turns.
    """

    def __init__(
        self,
        slice_seconds: float = FLUSH_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._ready: list[StreamWriter] = []

    def add(self, writer: "StreamWriter") -> None:
        """Flush a writer when this turn of the loop ends."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ready.append(writer)

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        over, flushed = self._clock() + self._slice_seconds, 0
        for writer in ready:
            writer.flush()
            flushed += 1
            if self._clock() >= over:
                break
        if flushed < len(ready):
            if not self._ready:  # else one of these has scheduled the next call
                asyncio.get_running_loop().call_soon(self._flush)
            self._ready[:0] = ready[flushed:]


class StreamWriter:
    """Writes the frames of one stream to its channel.

    ``take`` returns the frames to write next, or an empty list; ``more`` returns whether there are
    any; ``hold`` is called when the peer is blocked. An exception of ``take`` ends ``run``.
    """

    __slots__ = (
        "_channel",
        "_failure",
        "_flusher",
        "_hold",
        "_more",
        "_take",
        "_wake",
        "busy_since",
        "closed",
        "wrote",
    )

    def __init__(
        self,
        flusher: Flusher,
        take: Callable[[], list[Any]],
        more: Callable[[], bool],
        hold: Callable[[], None],
    ) -> None:
        self._flusher = flusher
        self._take = take
        self._more = more
        self._hold = hold
        self._wake = asyncio.Event()
        self._channel: Channel | None = None
        self._failure: Exception | None = None
        self.busy_since = 0.0
        """Since when the peer is waited for, in the loop's seconds; 0 when it is not."""
        self.wrote = False
        """Whether anything was written since it was last reset to False."""
        self.closed = False

    def ready(self) -> None:
        """Schedule a flush."""
        if self._channel is not None and self._channel.immediate:
            self._flusher.add(self)
        else:
            self._wake.set()

    def flush(self) -> None:
        """Write pending frames if the peer reads; otherwise wake the task."""
        channel = self._channel
        if self.busy_since or self.closed or self._failure is not None or channel is None:
            self._hold()
            return
        if not channel.open:
            self._hold()
            self._wake.set()
            return
        try:
            frames = self._take()
        except Exception as failure:  # noqa: BLE001 - the task raises it
            self._failure = failure
            self._wake.set()
            return
        if frames:
            self.wrote = True
            channel.write(frames)
            if self._more():
                self._flusher.add(self)

    async def run(self, channel: Channel) -> None:
        """Write until closed; raises Gone, and exceptions of ``take``."""
        self._channel = channel
        loop = asyncio.get_running_loop()
        while not self.closed:
            if self._failure is not None:
                raise self._failure
            frames = self._take()
            if not frames:
                self._wake.clear()
                await self._wake.wait()
                continue
            self.wrote = True
            self.busy_since = loop.time()
            await channel.send(frames)
            self.busy_since = 0.0

    def fail(self, error: Error) -> None:
        """Stop writing, and end ``run`` with an Error for the reader."""
        if self._failure is None:
            self._failure = error
            self._wake.set()

    def close(self) -> None:
        """Stop writing."""
        self.closed = True
        self._wake.set()
