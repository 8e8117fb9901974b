"""An outlet: lets out what a stream has, at the end of the turn of the loop in which it came.

The many streams that one event concerns are flushed by one call, each with one write to its
socket, and everything that came for a stream in that turn goes in that write. A task
is only woken when a peer does not keep up or the server underneath offers nothing but ASGI.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rowcast.core.errors import Error
from rowcast.doors.http.messages.wire import Lane


class Flusher:
    """The outlets of one edge that have something; all are flushed when the turn ends."""

    def __init__(self) -> None:
        self._ready: list[Outlet] = []

    def add(self, outlet: "Outlet") -> None:
        """Flush an outlet when this turn of the loop ends."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ready.append(outlet)

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        for outlet in ready:
            outlet.flush()


class Outlet:
    """The way out of one stream.

    ``take`` gives the frames to write next, an empty list when there are none for now; ``more``
    tells whether it would give any; ``hold`` hears that nothing can be taken now. What ``take``
    raises ends ``run``.
    """

    __slots__ = (
        "_failure",
        "_flusher",
        "_hold",
        "_lane",
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
        self._lane: Lane | None = None
        self._failure: Exception | None = None
        self.busy_since = 0.0
        """Since when the peer is waited for, in the loop's seconds; 0 when it is not."""
        self.wrote = False
        """Whether anything went out since somebody last looked and made it False."""
        self.closed = False

    def ready(self) -> None:
        """Hear that there is something to let out."""
        if self._lane is not None and self._lane.immediate:
            self._flusher.add(self)
        else:
            self._wake.set()

    def flush(self) -> None:
        """Write what there is, if the peer takes it now; else leave it to the task."""
        lane = self._lane
        if self.busy_since or self.closed or self._failure is not None or lane is None:
            self._hold()
            return
        if not lane.open:
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
            lane.write(frames)
            if self._more():
                self._flusher.add(self)

    async def run(self, lane: Lane) -> None:
        """Let out until closed; raises Gone, and what ``take`` raises."""
        self._lane = lane
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
            await lane.send(frames)
            self.busy_since = 0.0

    def fail(self, error: Error) -> None:
        """Let nothing more out, and end ``run`` with an Error that the reader is to be told."""
        if self._failure is None:
            self._failure = error
            self._wake.set()

    def close(self) -> None:
        """Let nothing more out."""
        self.closed = True
        self._wake.set()
