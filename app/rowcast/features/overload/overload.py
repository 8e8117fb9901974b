"""Overload: measures the memory once a second, and sheds load in levels (K9).

A level starts at its watermark and ends a little below it (hysteresis). ``core/shedding.py``
defines the levels; this module decides when. A measurement is one read of a file in ``/proc``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowcast.core.overload_limits import (
    OVERLOAD_BACK_PERCENT,
    OVERLOAD_LOOK_SECONDS,
    OVERLOAD_QUEUE_BYTES,
    OVERLOAD_QUEUE_EVENTS,
)
from rowcast.core.shedding import Shed
from rowcast.net.process_memory import ProcessMemory, memory_limit, trim_heap
from rowcast.seams.door import Queued
from rowcast.subscriptions.reader import Reader

log = logging.getLogger("rowcast.overload")

Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The available memory, and the watermark of each level in percent.

    Without bytes: the memory of the machine or the container. A watermark of 0 disables a level.
    """

    memory_bytes: int = 0
    messages: int = 0
    connects: int = 0
    subscribes: int = 0

    def of(self, shed: Shed) -> int:
        """Return the watermark of a level."""
        return (0, self.messages, self.connects, self.subscribes)[shed]


class Queues:
    """The queues of all subscriptions, full-size or shortened."""

    def __init__(self, reader: Reader, all_of_them: Callable[[], Iterable[Queued]]) -> None:
        self._reader = reader
        self._all = all_of_them
        self._usual = reader.queue_events, reader.queue_bytes

    def shorten(self, *, short: bool) -> None:
        """Shorten the queues of present and future subscriptions, or restore them."""
        events, size = (OVERLOAD_QUEUE_EVENTS, OVERLOAD_QUEUE_BYTES) if short else self._usual
        self._reader.queue_events, self._reader.queue_bytes = events, size
        for subscription in self._all():
            subscription.limit_queue(events, size)


class Overload:
    """The shedding level of one server. ``on_level`` is called on each change."""

    def __init__(
        self,
        marks: Watermarks,
        queues: Queues,
        reader: Reader,
        on_level: Callable[[Shed, Facts], None],
        heap: ProcessMemory | None = None,
        trim: Callable[[], object] = trim_heap,
    ) -> None:
        self._marks = marks
        self._queues = queues
        self._shedding = reader.shedding
        self._shedding.never = frozenset(shed for shed in Shed if not marks.of(shed))
        self._on_level = on_level
        self._heap = heap or ProcessMemory()
        self._reader = reader
        self._trim = trim
        self.limit_bytes = marks.memory_bytes or memory_limit()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.relieve: Callable[[], None] = lambda: None
        """Frees buffers; called at each measurement while new connections are refused."""
        self.raised = 0
        """The number of raised levels."""

    def start(self) -> None:
        """Measure now and at intervals."""
        self._timer = self._loop.call_later(OVERLOAD_LOOK_SECONDS, self.start)
        self.look()

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Measure, and set the level."""
        self._heap.measure()
        before = self._shedding.level
        level = self._level(before)
        if level:
            self._give_back()
        if level == before:
            if self._shedding.sheds(Shed.CONNECTS):
                self.relieve()
            return
        was_short, self._shedding.level = self._shedding.sheds(Shed.MESSAGES), level
        self.raised += level > before
        short = self._shedding.sheds(Shed.MESSAGES)
        if short != was_short:
            self._queues.shorten(short=short)
        say = log.warning if level > before else log.info
        used = self._heap.current
        say("memory: %d of %d bytes; shedding: %s", used, self.limit_bytes, level.name)
        self._on_level(level, self.facts())

    def _give_back(self) -> None:
        """Clear caches, and return freed memory of the allocator to the system.

        Otherwise the level would never fall, because freed memory stays with the process.
        """
        self._reader.release_memory()
        self._loop.run_in_executor(None, self._trim)

    def _level(self, before: Shed) -> Shed:
        percent = 100 * self._heap.current / max(1, self.limit_bytes)
        found = Shed.NOTHING
        for shed in (Shed.MESSAGES, Shed.CONNECTS, Shed.SUBSCRIBES):
            mark = self._marks.of(shed)
            if mark and percent >= mark - (OVERLOAD_BACK_PERCENT if before >= shed else 0):
                found = shed
        return found

    def facts(self) -> Facts:
        """Return its status row."""
        shedding = self._shedding
        return {
            "level": shedding.level.name.lower(),
            "memory_bytes": self._heap.current,
            "limit_bytes": self.limit_bytes,
            "raised": self.raised,
            "refused_connects": shedding.refused_connects,
            "refused_subscribes": shedding.refused_subscribes,
            "refused_unfinished": shedding.refused_unfinished,
        }
