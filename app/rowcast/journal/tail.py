"""The tail: the events and facts that are in the log and not yet in the tables.

It has the events and facts of each batch that is not applied, so that the newest record of a topic
is found without the disk. Batches are added by the writer thread, removed by the applier's reports,
and read by any thread. Lookups are made by topic when somebody looks, so that writing costs nothing
but one entry for each batch.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED, Event, Record
from rowcast.core.facts import Change
from rowcast.log.batch import Batch

LAG_SECONDS: Final = 0.1
"""How far the tables may be behind before writers wait (``log.lag_seconds``): reads that need the
tables wait as long, and a page that takes a tenth of a second more still feels immediate."""
LAG_EVENTS: Final = 20_000
"""The same in events (``log.lag_events``): in memory until applied, 20 MB at a kilobyte each."""
LAG_BATCHES: Final = 2_000
"""The same in batches: less than the notices that fit in a pipe (64 KiB)."""
LAG_TIMES_AHEAD: Final = 2
"""The bounds for a batch that may outrun the tables (``Batch.may_outrun_tables``), as a multiple of
LAG_EVENTS and LAG_BATCHES: still fewer notices than fit in a pipe. LAG_SECONDS does not hold for
it: few events that lag for long are slow to apply, and slower writers would not speed that up."""


class Nothing:
    """The type of NOTHING: the tail does not know."""

    __slots__ = ()


NOTHING: Final = Nothing()


class _Entry:
    """The content of one batch."""

    __slots__ = ("_facts", "_records", "changes", "events", "made_at", "number")

    def __init__(
        self, number: int, events: Sequence[Event], changes: Sequence[Change], made_at: float
    ) -> None:
        self.number = number
        self.events = events
        self.changes = changes
        self.made_at = made_at
        self._records: dict[str, Record | None] | None = None
        self._facts: dict[tuple[str, str], bytes | None] | None = None

    def records(self) -> dict[str, Record | None]:
        """Return the batch's last record of each topic, None for a deleted one."""
        if self._records is None:
            self._records = {
                event.topic: None if event.kind == DELETE else event
                for event in self.events
                if event.kind in RETAINED
            }
        return self._records

    def facts(self) -> dict[tuple[str, str], bytes | None]:
        """Return the batch's last value of each fact; an empty name stands for all of an owner."""
        if self._facts is None:
            facts: dict[tuple[str, str], bytes | None] = {}
            for change in self.changes:
                if change.value is None and not change.name:
                    for place in [place for place in facts if place[0] == change.owner]:
                        del facts[place]
                facts[change.owner, change.name] = change.value
            self._facts = facts
        return self._facts


class Tail:
    """The batches that are not applied, in order."""

    def __init__(
        self,
        lag_seconds: float = LAG_SECONDS,
        lag_events: int = LAG_EVENTS,
        lag_batches: int = LAG_BATCHES,
        now: Callable[[], float] = time.monotonic,
        changed: threading.Condition | None = None,
    ) -> None:
        self.applied = 0
        """The number of the last batch in the tables."""
        self.lag_events = 0
        """How many events are not in the tables."""
        self.large_events = 0
        """How many of them are of large batches, which alone are more than may be behind. Where
        there is one, another one waits for it."""
        self.problem = ""
        """Why the tables cannot be written now; empty while they can."""
        self._failures = 0
        self._lag_seconds = lag_seconds
        self._lag_events_max = lag_events
        self._lag_batches_max = lag_batches
        self._now = now
        self._entries: deque[_Entry] = deque()
        self._changed = changed or threading.Condition()
        self._results: dict[int, Future[list[int]]] = {}
        self._hasty: set[int] = set()
        """Which of them fail as soon as the tables cannot be written."""

    # -- the writer thread -------------------------------------------------------------------------

    def add(self, batch: Batch, events: Sequence[Event], changes: Sequence[Change]) -> None:
        """Add a batch that is durable."""
        entry = _Entry(batch.number, events, changes, self._now())
        with self._changed:
            self._entries.append(entry)
            self.lag_events += len(events)
            if len(events) > self._lag_events_max:
                self.large_events += len(events)

    def result(self, number: int, *, hasty: bool = False) -> "Future[list[int]]":
        """Return what will have the results of a batch's operations, once it is applied.

        Called before the batch is appended. ``hasty``: it gets the Error when the applier's next
        attempt fails, though a later one may apply the batch.
        """
        future: Future[list[int]] = Future()
        with self._changed:
            self._results[number] = future
            if hasty:
                self._hasty.add(number)
        return future

    def is_large(self, events: int) -> bool:
        """Whether a batch of so many events alone is more than may be behind."""
        return events > self._lag_events_max

    def wait_for_room(self, seconds: float, *, outrun: bool = False, large: bool = False) -> bool:
        """Wait until the tables are within the bounds of lag; return whether they are.

        ``outrun``: for a batch that may outrun them, LAG_TIMES_AHEAD as much, and no bound of time.
        ``large``: those of a large batch, which follows no other.
        """
        if large:
            return self._wait_for(lambda: not self.large_events, seconds)
        if outrun:
            return self._wait_for(lambda: not self._exceeds_lag_ahead(), seconds)
        return self._wait_for(lambda: not self.is_behind, seconds)

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, until the applier's next attempt fails; return whether it holds."""
        with self._changed:
            failures = self._failures
            self._changed.wait_for(lambda: condition() or self._failures != failures, seconds)
            return condition()

    # -- the applier -------------------------------------------------------------------------------

    def take_applied(self, number: int, results: dict[int, list[int]], problem: str = "") -> None:
        """Let go of batches that are in the tables; pass on results of operations.

        ``problem`` is why the attempt to write the next ones failed; who waits for it goes on.
        """
        with self._changed:
            entries = self._entries
            while entries and entries[0].number <= number:
                count = len(entries.popleft().events)
                self.lag_events -= count
                if count > self._lag_events_max:
                    self.large_events -= count
            self.applied = max(self.applied, number)
            self.problem = problem
            self._failures += bool(problem)
            results_of = [(self._results.pop(key, None), value) for key, value in results.items()]
            # A batch whose report was lost with its applier has no results; it is applied.
            results_of += [
                (self._results.pop(key), []) for key in list(self._results) if key <= number
            ]
            self._hasty.intersection_update(self._results)
            failed = [self._results.pop(key) for key in self._hasty] if problem else []
            self._changed.notify_all()
        for future, value in results_of:
            if future is not None and not future.cancelled():
                future.set_result(value)
        for future in failed:
            if not future.cancelled():
                future.set_exception(Error(Code.BUSY, problem, retry_after_seconds=1))

    # -- any thread --------------------------------------------------------------------------------

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest batch that is not in the tables."""
        try:
            return self._now() - self._entries[0].made_at
        except IndexError:
            return 0.0

    @property
    def is_behind(self) -> bool:
        """Whether the tables are further behind than they may be.

        While they take a large batch, writers wait only for what is behind besides it: it would
        not be sooner in the tables if they wait.
        """
        entries = self._entries
        if not entries:
            return False
        large = self.large_events
        lag_events = self.lag_events - large
        if lag_events > self._lag_events_max or len(entries) > self._lag_batches_max:
            return True
        if large:
            return False
        try:  # as ``lag_seconds``, without a call: it is asked for each batch
            made_at = entries[0].made_at
        except IndexError:
            return False
        return self._now() - made_at > self._lag_seconds

    def _exceeds_lag_ahead(self) -> bool:
        """Whether more lags than even a batch that may outrun the tables may find."""
        events_max = LAG_TIMES_AHEAD * self._lag_events_max
        batches_max = LAG_TIMES_AHEAD * self._lag_batches_max
        lag_events = self.lag_events - self.large_events
        return lag_events > events_max or len(self._entries) > batches_max

    def wait(self, number: int, seconds: float) -> bool:
        """Wait until a batch is in the tables; return whether it is."""
        if self.applied >= number:
            return True
        return self._wait_for(lambda: self.applied >= number, seconds)

    def find(self, topic: str) -> Record | Nothing | None:
        """Return the newest record of a topic, None if deleted; NOTHING if the tables have it."""
        if not self._entries:
            return NOTHING
        with self._changed:
            for entry in reversed(self._entries):
                known = entry.records().get(topic, NOTHING)
                if not isinstance(known, Nothing):
                    return known
        return NOTHING

    def fact(self, owner: str, name: str) -> bytes | Nothing | None:
        """Return the newest value of a fact, None if removed; NOTHING if the tables have it."""
        with self._changed:
            for entry in reversed(self._entries):
                facts = entry.facts()
                if (owner, name) in facts:
                    return facts[owner, name]
                if (owner, "") in facts:  # all of the owner's were removed
                    return None
        return NOTHING
