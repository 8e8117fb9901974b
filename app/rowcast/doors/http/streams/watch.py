"""The watch over open streams: one timer and one task for all of them, whatever their number.

It tells a stream the time now and then, so that the stream can send a heartbeat or give up a peer
that does not read, and it tells all of them when the server stops. The task exists only while a
stream does.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.core.limits import STREAM_WATCH_SECONDS
from rowcast.kernel.seams import StreamNotice
from rowcast.subscriptions.subscription import Subscription


class Watched(Protocol):
    """A stream that is looked after; no method may block, and only ``judge`` may raise."""

    @property
    def path(self) -> str:
        """The path that it was opened at."""

    @property
    def caller(self) -> Caller:
        """Who reads it."""

    @property
    def subscription(self) -> Subscription | None:
        """What of the kernel it reads; None for what a resource gives by itself."""

    def look(self, now: float) -> None:
        """Do what is due; ``now`` is the loop's time in seconds."""

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Send a notice, unless the reader is behind or takes none."""

    def stop(self) -> None:
        """End, because the server stops."""

    def judge(self) -> None:
        """Raise why the reader may not read this any more, if it may not."""

    def refuse(self, error: Error) -> None:
        """End, and say why."""


@dataclass(slots=True)
class Open:
    """A stream, and since when it is open, in seconds since 1970."""

    stream: Watched
    since: float


class Watch:
    """The open streams of one edge; ``changed`` is told which was opened or closed."""

    def __init__(
        self,
        closing: asyncio.Event,
        heartbeat_seconds: float,
        now: Callable[[], float],
        changed: Callable[[str], None],
        notices: Sequence[StreamNotice] = (),
    ) -> None:
        self._closing = closing
        self._now = now
        self._changed = changed
        self.interval_seconds = min(STREAM_WATCH_SECONDS, heartbeat_seconds / 2)
        self._notices = notices
        self._due: dict[str, float] = {}
        """When each notice is sent next, in the loop's seconds."""
        self._streams: dict[Watched, str] = {}
        self.open: dict[str, Open] = {}
        """The streams by their numbers, the oldest first."""
        self._last = 0
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def subscriptions(self) -> Iterator[Subscription]:
        """Give the subscriptions of those streams that have one of the kernel's."""
        for stream in list(self._streams):
            if stream.subscription is not None:
                yield stream.subscription

    def add(self, stream: Watched) -> None:
        """Look after a stream from now on."""
        self._last += 1
        number = self._streams[stream] = str(self._last)
        self.open[number] = Open(stream, self._now())
        self._changed(number)
        _judge(stream)
        if self._closing.is_set():
            stream.stop()
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def judge(self) -> None:
        """Let each stream see whether its reader may still have it."""
        for stream in list(self._streams):
            _judge(stream)

    def remove(self, stream: Watched) -> None:
        """Forget a stream."""
        number = self._streams.pop(stream, None)
        if number is not None:
            del self.open[number]
            self._changed(number)
        if not self._streams and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = {notice.name: loop.time() + notice.seconds for notice in self._notices}
        while not self._closing.is_set():
            next_at = min((loop.time() + self.interval_seconds, *self._due.values()))
            try:
                async with asyncio.timeout_at(next_at):
                    await self._closing.wait()
            except TimeoutError:
                now = loop.time()
                for stream in list(self._streams):
                    stream.look(now)
                self._send_notices(now)
        for stream in list(self._streams):
            stream.stop()

    def _send_notices(self, now: float) -> None:
        """Send each notice that is due to all streams."""
        for notice in self._notices:
            if self._due[notice.name] <= now:
                self._due[notice.name] = now + notice.seconds
                fields = notice.fields()
                for stream in list(self._streams):
                    stream.note(notice.name, fields)


def _judge(stream: Watched) -> None:
    try:
        stream.judge()
    except Error as error:
        stream.refuse(error)
