"""A feed: replays the past to one reader.

It gives the records as of a position, a CURRENT mark, the events of the log in order, each when the
playhead has reached it, and an END mark. It only reads: it has neither a place in the log nor on
the bus. What it gives waits in the reader's queue, within a bound of its own; the reader's rights
are applied when it is delivered (``replay_stage.py``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, END, Event
from rowcast.core.moments import Moment
from rowcast.core.replay_limits import (
    REPLAY_AHEAD_BYTES_MAX,
    REPLAY_AHEAD_EVENTS_MAX,
    REPLAY_TURN_EVENTS,
)
from rowcast.features.replay.playhead import NEVER, Playhead
from rowcast.seams.past_points import PastPoints
from rowcast.seams.replay_points import ReplayReader
from rowcast.subscriptions.addressed import Replayed
from rowcast.subscriptions.backfill import snapshot_of
from rowcast.subscriptions.live_replay import LiveReplay
from rowcast.subscriptions.reader import Reader
from rowcast.subscriptions.subscribed_filter import SubscribedFilter

log = logging.getLogger("rowcast.replay")

OVER: Final = "over"
"""Why a replay ends whose last event was given."""


class Timer(Protocol):
    """A call of the loop that is still to come."""

    def cancel(self) -> None:
        """Leave it out."""


class Loop(Protocol):
    """The clock and the timers of a loop."""

    def time(self) -> float:
        """Return the loop's time, in seconds."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call something later."""


class _Moved(Exception):  # noqa: N818 - no error: the reader wants another part
    """The feed was moved while it waited."""


class Feed:
    """One reader's replay; ``ahead`` bounds the events and the bytes that wait for the reader."""

    def __init__(
        self,
        reader: ReplayReader,
        interest: SubscribedFilter,
        replay: LiveReplay,
        playhead: Playhead,
        past: PastPoints,
        reads: Reader,
        loop: Loop,
        ahead: tuple[int, int] = (REPLAY_AHEAD_EVENTS_MAX, REPLAY_AHEAD_BYTES_MAX),
    ) -> None:
        self.reader = reader
        self.replay = replay
        self.playhead = playhead
        self._interest = interest
        self._past = past
        self._reads = reads
        self._loop = loop
        self._ahead = ahead
        self._turn = 0
        self._events = self._bytes = 0
        self._position = replay.after
        self._target: Moment | None = None
        """Where to go on after a seek, until that is found."""
        self._over = ""
        """Why it ended before its time."""
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def position(self) -> int:
        """The position in the log up to which it has given events."""
        return self._position

    # -- begin, move, end --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self.playhead.listeners.append(self._wake)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """End, for good: the reader has left."""
        self._turn += 1
        self.playhead.listeners.remove(self._wake)
        if self._task is not None:
            self._task.cancel()

    def move(self, target: Moment) -> None:
        """Begin anew at another moment; what waits for the reader is dropped."""
        self._target = target
        self._turn += 1
        self._wake()

    def end(self, why: str) -> None:
        """End before its time; the reader gets an END that says why."""
        self._over = why
        self._turn += 1
        self._wake()

    def _wake(self) -> None:
        self._woken.set()

    def took(self, event: Replayed) -> bool:
        """Note that an event is delivered now; return whether it still should be."""
        self._events -= 1
        self._bytes -= len(event.payload)
        self._wake()
        return event.turn == self._turn

    # -- the task ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Play, and again after each move, until it is stopped."""
        while True:
            turn, why, code = self._turn, self._over or OVER, ""
            try:
                if not self._over:
                    await self._play(turn)
            except _Moved:
                continue
            except Error as error:
                why, code = error.message, error.code.value
            except Exception:
                log.exception("a replay could not be read")
                why, code = "the server failed; its log has the reason", Code.INTERNAL.value
            self._push(_end(self._position, why, code), turn)
            while turn == self._turn:
                await self._sleep()

    async def _play(self, turn: int) -> None:
        """Give everything from the start to the end; raises _Moved, GONE, TOO_LARGE."""
        replay = self.replay
        self._position = replay.after
        start = replay.start
        if self._target is not None:
            start = self._target
            self._position = await self._past.place(replay.topics, start)
            self._check(turn)
        if replay.records or self._target is not None:
            async for page in self._past.then(replay.topics, self._position):
                for record in page:
                    await self._give(snapshot_of(record), turn)
            await self._give(Event("", CURRENT, b"", seq=self._position), turn)
        if not replay.events:
            return
        if start.cursor is None:
            self.playhead.start(start.version)
        async for event in self._selected(turn):
            self.playhead.start(event.version)
            await self._due(event, turn)
            await self._give(event, turn)
            self._position = event.seq

    async def _selected(self, turn: int) -> AsyncIterator[Event]:
        """Yield the events of the log up to the end; raises GONE when they were trimmed."""
        replay, reads = self.replay, self._reads
        sources, position = reads.sources(replay.topics), self._position
        while position < replay.until:
            events, upto = await self._page(position)
            self._check(turn)
            trimmed = reads.trimmed(sources)  # asked last: it only grows
            if trimmed > position:
                raise self._past.gone("what is replayed", trimmed)
            for number, event in enumerate(events, 1):
                if event.seq > replay.until:
                    break
                if replay.topics.matches(event.topic):
                    yield event
                if not number % REPLAY_TURN_EVENTS:
                    await asyncio.sleep(0)
            position = upto
        self._position = max(self._position, replay.until)

    async def _page(self, after: int) -> tuple[list[Event], int]:
        """Return the next events after a position, and up to where they are complete."""
        replay, reads = self.replay, self._reads
        sources, most = reads.sources(replay.topics), reads.log_page_events
        if not replay.topics.exact:
            page = await reads.page(after, most, sources, replay.until)
            return page.events, page.upto
        events = await reads.follow(sources[0], replay.topics.text, after, most)
        return events, events[-1].seq if len(events) == most else replay.until

    # -- waiting -----------------------------------------------------------------------------------

    async def _due(self, event: Event, turn: int) -> None:
        """Wait until the playhead has reached an event."""
        while seconds := self.playhead.seconds_until(event.version):
            await self._sleep(seconds)
            self._check(turn)

    async def _give(self, event: Event, turn: int) -> None:
        """Give an event when there is room for it."""
        while self._events >= self._ahead[0] or self._bytes >= self._ahead[1]:
            await self._sleep()
            self._check(turn)
        self._push(event, turn)

    def _push(self, event: Event, turn: int) -> None:
        reader = self.reader
        if reader.closed:
            return
        given = Replayed(event, self._interest, self, turn)
        self._events += 1
        self._bytes += len(given.payload)
        reader.queue.events.append(given)
        reader.queue.bytes += len(given.payload)
        reader.signal()

    def _check(self, turn: int) -> None:
        if turn != self._turn:
            raise _Moved

    async def _sleep(self, seconds: float = NEVER) -> None:
        """Wait for a change, or so long."""
        self._woken.clear()
        timer = None if seconds == NEVER else self._loop.call_later(seconds, self._wake)
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()


def _end(position: int, why: str, code: str) -> Event:
    """Return the mark after the last event."""
    facts = {"reason": why} | ({"code": code} if code else {})
    return Event("", END, b"", seq=position, decoded=facts)
