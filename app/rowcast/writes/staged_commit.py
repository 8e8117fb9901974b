"""A large transaction: staged page by page while others write, and switched at one position.

Its writes are decided on the newest records, a page at a time, and logged as invisible pages; each
page is applied to the tables before the next one is decided, so other writes never wait long. The
events get a range of numbers far ahead of those of others. The switch is one small batch that makes
all of them visible at once: the log then continues after the last of these numbers. Other writers
wait for the switch as for any batch; subscribers read the events from the log at their own pace.

A write of one of its records after the record's page was decided is overwritten, because the switch
is later. Where versions decide, because sites compare them, it is the other way: in tables where a
transaction gives way it is of the time at which it began, and each of its writes loses against one
that is newer, whether that comes before its page is decided or after. Either way, a transaction
that is never switched leaves no trace; there is at most one at a time.

It may write several tables; each page is for one of them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, NamedTuple, Protocol, cast

from rowcast.bus.bus import Bus
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event, Record
from rowcast.core.result_limits import (
    STAGED_GAP,
    STAGED_GIVE_BACK_SECONDS,
    STAGED_PAGE_SECONDS,
    STAGED_SWITCH_TRIES,
)
from rowcast.core.tables import Table
from rowcast.core.transaction_parts import PART
from rowcast.reads.record_cache import RecordCache
from rowcast.store.store import Change, StagedCount, StagedPage
from rowcast.writes.batch import Batch
from rowcast.writes.commit_queue import CommitQueue
from rowcast.writes.decide import decide_all
from rowcast.writes.followed_stages import Reads, first_shown
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.last_write_wins import stamp_of
from rowcast.writes.write import Current, Outcome, Receipt, Write

log = logging.getLogger("rowcast.commit")


class SupersededCounts(NamedTuple):
    """How many decided writes of a large transaction have given way to newer ones."""

    puts: int
    deletions: int


NOTHING: Final = SupersededCounts(0, 0)


class YieldScope(NamedTuple):
    """Where a large transaction gives way to newer writes."""

    tables: Collection[str] = ()
    """The names of the tables."""
    has: Callable[[str], bool] = lambda _topic: False
    """Whether it may write at a topic of one of them."""


NOWHERE: Final = YieldScope()

Conclude = Callable[[int, SupersededCounts], Sequence[Change]]
"""Returns the changes of facts of a large transaction, whose last number it is given, and what of
it has given way; called by the writer thread. Raises the Error that refuses it."""


def _nothing() -> None:
    """Do nothing more."""


class Stages(Reads, Protocol):
    """A store that takes large transactions; called by the writer thread."""

    def stage(
        self, table: Table, after: int, page: StagedPage, *, yields: bool
    ) -> "Future[list[int]]":
        """Log an invisible page for a table, of events and facts; done once the tables have it."""

    def superseded(self) -> tuple[int, int, int]:
        """Return how many puts and deletions have given way, and their bytes; raises BUSY."""

    def switch(self, last: int, counts: Sequence[StagedCount], changes: Sequence[Change]) -> None:
        """Make the staged events visible: so much of each table, up to a number."""

    def caught_up(self) -> None:
        """Wait until the tables have all that is in the log now; raises BUSY."""

    def abandon(self) -> None:
        """Forget what was staged."""


@dataclass(slots=True)
class StagedPart:
    """What a large transaction has for one table."""

    table: Table
    first: Event
    events: int = 0
    bytes: int = 0


class Staged:
    """One large transaction."""

    def __init__(self, after: int, total: int, version: int, yields: YieldScope) -> None:
        self.where = yields
        """Where it loses against newer writes."""
        self.after = after
        """The number after which it has its own."""
        self.total = total
        """How many writes it has; it may have fewer events."""
        self.version = version
        """The version of all its events: they are of the time at which it began."""
        self.events = self.returns = 0
        self.parts: dict[str, StagedPart] = {}
        """What it has for each table, by name."""
        self.switching: asyncio.Task[None] | None = None
        """The switch, once it has begun; it completes even if its waiter is cancelled."""

    @property
    def yields(self) -> bool:
        """Whether it loses against newer writes anywhere."""
        return bool(self.where.tables)

    @property
    def last(self) -> int:
        """The last number that it takes."""
        return self.after + self.total

    @property
    def counts(self) -> list[StagedCount]:
        """How much it has for each table."""
        return [(part.table, part.events, part.bytes) for part in self.parts.values()]

    def number(self) -> int:
        """Return the number of its next event."""
        self.events += 1
        return self.after + self.events

    def note(self, table: Table, events: Sequence[Event]) -> None:
        """Take a decided page: each event says which part of the transaction it is."""
        known = self.parts.setdefault(table.name, StagedPart(table, events[0]))
        known.events += len(events)
        for event in events:
            part = f"{event.seq - self.after - 1}/{self.last - event.seq}"
            event.properties = {**(event.properties or {}), PART: part}
            known.bytes += len(event.payload)


class StagedCommits(CommitQueue):
    """The part of the committer that takes large transactions."""

    _bus: Bus
    _cache: RecordCache
    _numbers: "count[int]"
    after_append: list[Callable[[Sequence[Outcome]], None]]
    announced: int
    stored: int

    give_back_seconds: float = STAGED_GIVE_BACK_SECONDS
    _staged: Staged | None = None
    """The one in progress."""
    _unswept = 0
    """The last number of one that was given up, until the log says so: no other has its numbers."""

    @property
    def _stage_store(self) -> Stages:
        return cast("Stages", self._store)

    def begin_staged(self, total: int, yields: YieldScope = NOWHERE) -> Staged:
        """Begin one of so many writes; raises BUSY while there is another one."""
        if self._staged is not None:
            raise Error(
                Code.BUSY,
                "another large result is being committed; try again when it is done",
                retry_after_seconds=10,
            )
        after = max(self.reach, self._store.head(), self._unswept) + STAGED_GAP
        self._staged = Staged(after, total, self._clock.tick(), yields)
        self._staged.returns = self._clock.returns
        return self._staged

    @property
    def yields(self) -> bool:
        """Whether a transaction is in progress that gives way to newer writes."""
        return self._staged is not None and self._staged.yields

    def yields_at(self, topic: str) -> bool:
        """Whether a transaction in progress may write at a topic, and would give way to others.

        So the server does not write there by itself, to remove what the transaction replaces.
        """
        return self._staged is not None and self._staged.where.has(topic)

    async def stage(self, staged: Staged, writes: list[Write]) -> list[Outcome]:
        """Decide a page of its writes, all for one table, and stage it.

        Raises the Error of one that is refused.
        """
        yields = _table_of(writes).name in staged.where.tables
        for write in writes:
            write.event.version = staged.version
            if yields:
                write.check(_newer)
                write.follows = True
        work = GroupCommit(Batch(writes))
        if yields:
            alone = self._loop.create_task(self._page_alone(staged, work))
            alone.add_done_callback(_consume_result)
            applied = await asyncio.shield(alone)
        else:
            applied = await self._page(staged, work)
        if applied is not None:
            waiting = asyncio.wrap_future(applied)
            done, _ = await asyncio.wait((waiting,), timeout=STAGED_PAGE_SECONDS)
            if not done or waiting.result() == [0]:  # it is empty after the applier was killed
                why = "the result could not be applied to the tables; the server's log says why"
                raise Error(Code.BUSY, why, retry_after_seconds=10)
        for receipt in cast("list[Receipt]", work.outcomes):  # an Error was raised
            if receipt.late or receipt.event.expires_at:
                self._notify_rare(receipt)
        for listener in self.after_append:
            listener(work.outcomes)
        return work.outcomes

    async def _page_alone(self, staged: Staged, work: GroupCommit) -> "Future[list[int]] | None":
        """Stage a page while nobody writes, so that no newer write is missed."""
        await self.claim()
        try:
            if self._staged is not staged:  # its waiter was cancelled
                raise Error(Code.BUSY, "the result was given up")
            return await self._page(staged, work)
        finally:
            self.unclaim()

    async def _page(self, staged: Staged, work: GroupCommit) -> "Future[list[int]] | None":
        work.current.epoch, work.current.now = self._store.epoch, self._clock.last
        ask = work.collect(self._cache, self._clock)
        page = partial(self._stage_page, staged, work, ask)
        return await self._loop.run_in_executor(self._executor, page)

    def _stage_page(
        self, staged: Staged, work: GroupCommit, ask: list[tuple[Table | None, str]]
    ) -> "Future[list[int]] | None":
        if ask or work.late:
            work.fetch(self._store, ask)
        current, events = work.current, work.events
        writes, changes = work.batch.writes, work.changes
        work.outcomes = decide_all(writes, current, events, changes, staged.number)
        for outcome in work.outcomes:
            if isinstance(outcome, Error):
                raise outcome
        if not events:
            return None
        table, page = _table_of(writes), (events, changes)
        staged.note(table, events)
        yields = table.name in staged.where.tables
        return self._stage_store.stage(table, staged.after, page, yields=yields)

    async def switch(
        self,
        staged: Staged,
        conclude: Conclude,
        has: Callable[[str], bool],
        seen: Callable[[], None] = _nothing,
    ) -> None:
        """Make it visible; returns when it is durable and announced.

        ``has`` tells whether it writes at a topic; ``seen`` is called once it is announced, also
        when nobody waits for that any more.
        """
        staged.switching = self._loop.create_task(self._switch(staged, conclude, has))
        staged.switching.add_done_callback(partial(_notify_seen, seen))
        await asyncio.shield(staged.switching)

    async def _switch(self, staged: Staged, conclude: Conclude, has: Callable[[str], bool]) -> None:
        await self.claim()
        try:
            if next(self._numbers) > staged.after:
                why = "others have written too much meanwhile; try again"
                raise Error(Code.BUSY, why, retry_after_seconds=1)
            if staged.yields and staged.returns != self._clock.returns:
                why = "the clock was set back meanwhile, by which newer writes are known; try again"
                raise Error(Code.BUSY, why, retry_after_seconds=1)
            append = partial(self._append_switch, staged, conclude)
            first = await self._loop.run_in_executor(self._executor, append)
            self._staged = None
            self._numbers = count(staged.last + 1)
            self.stored = self.announced = staged.last
            self._cache.clear()
            for event, table in first:
                self._bus.fall_behind(event, table.path or "", has)
        finally:
            self.unclaim()

    def _append_switch(self, staged: Staged, conclude: Conclude) -> list[tuple[Event, Table]]:
        """Append it; return the first event of each table that somebody has to hear of."""
        store = self._stage_store
        superseded = NOTHING
        if staged.yields:  # with all that was written before: nobody writes now
            superseded = SupersededCounts(*store.superseded()[:2])
        changes = conclude(staged.last, superseded)
        self._reserve(staged.last)
        store.switch(staged.last, staged.counts, changes)
        for _ in range(STAGED_SWITCH_TRIES):
            try:
                store.caught_up()
            except Error as error:  # nobody may read a record of before, once it is announced
                log.warning("the tables do not have a large result yet: %s", error.full)
            else:
                break
        if staged.events == sum(superseded):
            return []  # nobody has anything to hear
        first: list[tuple[Event, Table]] = []
        for part in staged.parts.values():
            event = part.first
            if part.table.name in staged.where.tables:  # also that one may have given way
                event = first_shown(store, part.table, self.announced, staged.last)
            first.append((event, part.table))
        return sorted(first, key=_number_of)

    @property
    def reach(self) -> int:
        """The greatest number that a cursor of this log can have."""
        raise NotImplementedError

    def _reserve(self, seq: int, first: int = 0) -> None:
        """Reserve numbers on disk before use; ``first`` is that of the next event, 0: unknown."""
        raise NotImplementedError

    def abandon(self, staged: Staged) -> None:
        """Discard it, if it was not switched; a switch in progress completes first."""
        if staged.switching is not None and not staged.switching.done():
            staged.switching.add_done_callback(lambda _: self.abandon(staged))
        elif self._staged is staged:
            self._staged, self._unswept = None, staged.last
            self._give_back()

    def _give_back(self) -> None:
        """Have the store delete the staged pages; repeated while a full disk refuses even that.

        Not once another one has begun: its first page deletes them, and this would delete its own.
        """
        if self._staged is None:
            done = asyncio.wrap_future(self.on_writer(self._stage_store.abandon))
            done.add_done_callback(self._gave_back)

    def _gave_back(self, done: "asyncio.Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Error):
            log.warning("the staged part of a large result cannot be removed yet: %s", error.full)
            self._loop.call_later(self.give_back_seconds, self._give_back)
        elif error is None and not done.cancelled():
            self._unswept = 0


def _newer(write: Write, record: Record | None, current: Current) -> int:
    """Return the version of a newer write at the topic of a staged one; a check."""
    known = current.tombstones.get(write.event.topic, (0, ""))
    if record is not None:
        known = stamp_of(record, current.epoch)
    newer = known > stamp_of(write.event, current.epoch) and known[0] <= current.ceiling
    return known[0] if newer else 0


def _consume_result(page: "asyncio.Task[Future[list[int]] | None]") -> None:
    """Take its Error, if nobody waits for it any more."""
    if not page.cancelled():
        page.exception()


def _table_of(writes: Sequence[Write]) -> Table:
    """Return the table of the writes of a page, which are admitted."""
    return cast("Table", writes[0].event.table)


def _number_of(first: tuple[Event, Table]) -> int:
    return first[0].seq


def _notify_seen(seen: Callable[[], None], switching: "asyncio.Task[None]") -> None:
    if not switching.cancelled() and switching.exception() is None:
        seen()
