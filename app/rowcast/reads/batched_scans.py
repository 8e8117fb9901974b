"""Single topics that many readers ask for at a time are read together, in one job of a thread.

A crowd that subscribes or comes back asks for one topic each. A job costs some ten times the look
itself: two hand-overs between threads, and the tables must first have all that is in the log. So
one job is on its way, and what is asked for meanwhile is the next. A reader is answered as if it
had asked alone: its job begins after it has asked, and what does not fit waits for the next job.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from rowcast.core.read_limits import GATHERED_SCANS_MAX
from rowcast.store.store import Page, Records, Scan

Run = Callable[[Callable[[], list[Page]]], Awaitable[list[Page]]]
"""Does something on a reader thread."""


class _Asked(NamedTuple):
    """What one reader waits for."""

    scans: Sequence[Scan]
    answer: "asyncio.Future[list[Page]]"


class BatchedScans:
    """The looks of one process at single topics."""

    def __init__(self, store: Records, run: Run, scans_max: int = GATHERED_SCANS_MAX) -> None:
        self._store, self._run, self._scans_max = store, run, scans_max
        self._size = self._readers = 0
        self._waiting: deque[_Asked] = deque()
        self._job: asyncio.Task[None] | None = None

    async def read(self, scans: Sequence[Scan], size: int) -> list[Page]:
        """Return the first pages of a reader's scans, at least one. Raises what its job raises.

        No job reads another record once its payloads reach ``size`` bytes.
        """
        loop, self._size = asyncio.get_running_loop(), size
        asked = _Asked(scans, loop.create_future())
        self._waiting.append(asked)
        if self._job is None:
            self._job = loop.create_task(self._work())
        self._readers += 1
        try:
            return await asked.answer
        finally:
            self._readers -= 1
            if not self._readers and self._job is not None:  # all have left
                self._job.cancel()
                self._job = None

    async def _work(self) -> None:
        """Read until nobody waits."""
        some = list[_Asked]()
        try:
            while some := self._next():
                await self._answer(some)
        except asyncio.CancelledError:  # nobody is left, or the loop ends
            if self._job is asyncio.current_task():
                for asked in (*some, *self._waiting):
                    asked.answer.cancel()
            raise
        finally:
            if self._job is asyncio.current_task():
                self._job = None

    def _next(self) -> list[_Asked]:
        """Return who is answered by the next job: all who still wait, within the bound."""
        some, room, waiting = list[_Asked](), self._scans_max, self._waiting
        while waiting and (not some or len(waiting[0].scans) <= room):
            asked = waiting.popleft()
            if not asked.answer.done():  # else its reader has left
                some.append(asked)
                room -= len(asked.scans)
        return some

    async def _answer(self, some: list[_Asked]) -> None:
        scans = [scan for asked in some for scan in asked.scans]
        try:
            pages = await self._run(partial(self._store.scan_all, scans, len(scans), self._size))
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is each reader's answer
            for asked in some:
                with suppress(asyncio.InvalidStateError):
                    asked.answer.set_exception(failure)
            return
        start, late = 0, list[_Asked]()
        for asked in some:
            part = pages[start : start + len(asked.scans)]
            start += len(asked.scans)
            if not part:
                late.append(asked)
            elif not asked.answer.done():
                asked.answer.set_result(part)
        self._waiting.extendleft(reversed(late))
