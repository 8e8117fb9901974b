"""The watch over open streams: one timer and one task for all of them.

It calls each stream at intervals, so that the stream can send a heartbeat or abort a stalled peer,
and stops all of them at shutdown. The task exists only while there are streams.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.limits import STREAM_WATCH_SECONDS
from rowcast.seams.seams import StreamNotice
from rowcast.subscriptions.subscription import Subscription

log = logging.getLogger("rowcast.doors.http")


class Watched(Protocol):
    """A watched stream; no method may block, and only ``judge`` may raise."""

    @property
    def path(self) -> str:
        """The path that it was opened at."""

    @property
    def caller(self) -> Caller:
        """Who reads it."""

    @property
    def subscription(self) -> Subscription | None:
        """Its subscription; None for a resource's own stream."""

    def look(self, now: float) -> None:
        """Send heartbeats and check timeouts; ``now`` is the loop's time in seconds."""

    def note(self, name: str, fields: Mapping[str, object]) -> None:
        """Send a notice, unless the reader is slow or does not support it."""

    def stop(self) -> None:
        """Close for shutdown."""

    def judge(self) -> None:
        """Raise an Error if the reader is no longer authorised."""

    def refuse(self, error: Error) -> None:
        """Close with an error."""


class Elsewhere(Protocol):
    """Rows of other processes, whose ids are ``<node>/<id>`` here."""

    @property
    def node(self) -> str:
        """What this process is called among them."""

    async def rows(self, path: str, name: str = "") -> Mapping[str, dict[str, object]]:
        """Return their rows below a path: all, or the one of this name."""

    async def end(self, path: str, name: str) -> None:
        """End what a row stands for. Raises NOT_FOUND, BUSY."""


@dataclass(slots=True)
class Open:
    """A stream, and when it was opened, in seconds since 1970."""

    stream: Watched
    since: float


class Watch:
    """The open streams of one edge; ``changed`` is called with opened and closed ones."""

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
        """The next time of each notice, in the loop's seconds."""
        self._streams: dict[Watched, str] = {}
        self.open: dict[str, Open] = {}
        """The streams by their numbers, the oldest first."""
        self.elsewhere: Elsewhere | None = None
        """The streams of other processes, where there are such."""
        self._last = 0
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield the subscriptions of streams that have one."""
        for stream in list(self._streams):
            if stream.subscription is not None:
                yield stream.subscription

    def add(self, stream: Watched) -> None:
        """Add a stream."""
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
        """Reauthorise all streams."""
        for stream in list(self._streams):
            _judge(stream)

    def remove(self, stream: Watched) -> None:
        """Remove a stream."""
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
    except Exception:
        log.exception("the reader of %s could not be judged, and may not stay", stream.path)
        stream.refuse(Error(Code.INTERNAL, "your access rights could not be looked at"))
