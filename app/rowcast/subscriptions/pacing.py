"""Pacing: a reader gets the newest value of a record, and that only so often (M4).

A table declares an interval with ``@deliver(conflate: "100ms")``, and a client may ask for a longer
one. What changes meanwhile waits in the queue; then the newest value of each record is handed over,
and the others are a ``conflated`` gap at their place. The first change after a pause is handed over
at once. Features, bridges and shared subscriptions get every event, because they do not ask.

**In order.** An event that waits has those behind it wait, too, whatever table they are of. So the
position is always that of the last event handed over, a resume loses nothing, and a cut through the
topics stays one. A reader that should not wait for a slower filter has a connection of its own.

**Bounded.** The queue has its usual bounds. When more changes in an interval than fits, the rest is
read from the log, where each page is conflated by itself and comes at once.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from rowcast.core.durations import parse_duration
from rowcast.core.errors import Code, Error
from rowcast.core.events import RETAINED, Event
from rowcast.core.pacing_limits import CONFLATE_SECONDS_MAX
from rowcast.core.tables import Table
from rowcast.subscriptions.addressed import Addressed
from rowcast.subscriptions.catch_up import CatchUp
from rowcast.subscriptions.event_queue import EventQueue
from rowcast.subscriptions.progress import Progress
from rowcast.subscriptions.subscribed_filters import SubscribedFilter, SubscribedFilters


def asked_interval(value: object) -> float:
    """Return the seconds between values that a client asks for, 0 for None; raises INVALID."""
    if value is None:
        return 0.0
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None or seconds > CONFLATE_SECONDS_MAX:
        raise Error(
            Code.INVALID,
            f"conflate is a duration up to {CONFLATE_SECONDS_MAX:g} s, such as 500ms",
        )
    return seconds


class PacedCursor(Protocol):
    """The live cursor that is paced."""

    client_id: str
    progress: Progress
    queue: EventQueue
    interests: SubscribedFilters
    closed: bool
    pacing: "Pacing | None"

    def signal(self) -> None:
        """Have the reader take again."""


def pace(cursor: PacedCursor, catch_up: CatchUp, interests: Iterable[SubscribedFilter]) -> None:
    """Pace a cursor from now on if a filter asks for it, or selects a table that declares it."""
    if cursor.pacing is None and any(map(_is_paced, interests)):
        cursor.pacing = Pacing(cursor, catch_up, asyncio.get_running_loop())


def _is_paced(interest: SubscribedFilter) -> bool:
    if interest.conflate is None or interest.query is not None:
        return False
    tables = (item for item in interest.sources if isinstance(item, Table))
    return interest.conflate > 0 or any(table.conflate_seconds for table in tables)


class Pacing:
    """When the events of one subscription may be handed over."""

    __slots__ = ("_catch_up", "_cursor", "_due", "_loop", "_waking")

    def __init__(
        self, cursor: PacedCursor, catch_up: CatchUp, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._cursor = cursor
        self._catch_up = catch_up
        self._loop = loop
        self._due: dict[float, float] = {}
        """When events with an interval may come again, in the loop's seconds; an entry for each
        interval of a declared table, or that the reader asked for."""
        self._waking = False

    def release(self) -> None:
        """Move what may be handed over now from the queue to the page."""
        cursor = self._cursor
        queue = cursor.queue
        if cursor.progress.page or self._catch_up.busy or not queue.events:
            return
        now, count, until = self._loop.time(), 0, 0.0
        begun: set[float] = set()
        for event in queue.events:
            interval = self.interval(event)
            until = self._due.get(interval, 0.0) if interval else 0.0
            if until > now:
                break
            if interval:
                begun.add(interval)
            count += 1
        self._due |= {interval: now + interval for interval in begun}
        left = len(queue.events) - count
        self._move(count)
        if left and not self._waking:
            self._waking = True
            self._loop.call_later(until - now, self._wake)

    def interval(self, event: Event) -> float:
        """Return how many seconds pass between values of an event's record; 0: each comes."""
        if event.kind not in RETAINED or not event.seq:
            return 0.0
        interest = self._cursor.interests.wanting(event, self._cursor.client_id)
        if interest is None:
            return 0.0
        asked: list[float] = []
        for item in interest.merged or (interest,):
            if item.conflate is None:
                return 0.0
            asked.append(item.conflate)
        declared = event.table.conflate_seconds if event.table is not None else 0.0
        return max(declared, min(asked))

    def _is_conflated(self, event: Event) -> bool:
        return self.interval(event) > 0

    def _move(self, count: int) -> None:
        """Move the first events of the queue to the page."""
        queue, progress = self._cursor.queue, self._cursor.progress
        part = queue.events[:count]
        del queue.events[:count]
        queue.bytes -= sum([len(event.payload) for event in part])
        run: list[Event] = []
        for event in part:
            if isinstance(event, Addressed):
                self._catch_up.take_in(run, self._is_conflated)
                run = []
                progress.page.append((event, event.interest))
            elif not event.seq or event.seq > progress.read_to:
                run.append(event)
        self._catch_up.take_in(run, self._is_conflated)

    def _wake(self) -> None:
        self._waking = False
        if not self._cursor.closed:
            self._cursor.signal()
