"""The watch over open streams: one timer and one task for all of them, whatever their number.

It tells a stream the time now and then, so that the stream can send a heartbeat or give up a peer
that does not read, and it tells all of them when the server stops. The task exists only while a
stream does.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from app.core.limits import STREAM_WATCH_SECONDS
from app.engine.watch.subscription import Subscription


class Watched(Protocol):
    """A stream that is looked after; neither method may block or raise."""

    def look(self, now: float) -> None:
        """Do what is due; ``now`` is the loop's time in seconds."""

    def stop(self) -> None:
        """End, because the server stops."""

    def judge(self) -> None:
        """End, and say why, if the reader may not read this any more."""


class Watch:
    """The open streams of one edge."""

    def __init__(self, closing: asyncio.Event, heartbeat_seconds: float) -> None:
        self._closing = closing
        self.interval_seconds = min(STREAM_WATCH_SECONDS, heartbeat_seconds / 2)
        self._streams: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def subscriptions(self) -> Iterator[Subscription]:
        """Give the subscriptions of those streams that have one of the engine's."""
        for stream in list(self._streams):
            found = getattr(stream, "subscription", None)
            if isinstance(found, Subscription):
                yield found

    def add(self, stream: Watched) -> None:
        """Look after a stream from now on."""
        self._streams.add(stream)
        stream.judge()
        if self._closing.is_set():
            stream.stop()
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def judge(self) -> None:
        """Let each stream see whether its reader may still have it."""
        for stream in list(self._streams):
            stream.judge()

    def remove(self, stream: Watched) -> None:
        """Forget a stream."""
        self._streams.discard(stream)
        if not self._streams and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            try:
                async with asyncio.timeout(self.interval_seconds):
                    await self._closing.wait()
            except TimeoutError:
                now = loop.time()
                for stream in list(self._streams):
                    stream.look(now)
        for stream in list(self._streams):
            stream.stop()
