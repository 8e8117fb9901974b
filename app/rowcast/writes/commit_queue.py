"""The queue of the committer: its order, its bounds, and the bytes that it holds.

The layer of the committer below ``commit.py``, whose ``_start`` takes batches from it, one at a
time. Writers that are much ahead of the disk are
paused, then refused; each caller's share of a batch is fair when several have more than it takes.
While the tables lag behind the log, writers with many queued bytes are deferred, others are not.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial

from rowcast.core.callers import Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.tables import Table
from rowcast.reads.before_image import is_ruled
from rowcast.store.store import Appends, Change
from rowcast.writes.batch import Batch, take
from rowcast.writes.batch_shares import BatchShares
from rowcast.writes.fair_batch import FairBatches
from rowcast.writes.pending_bytes import PendingBytes, WriteBounds, relieve
from rowcast.writes.write import LOW_PRIORITY_TYPES, FactsDone, FactsWrite, Receipt, Write, resolver
from rowcast.writes.writer_calls import WriterCalls

log = logging.getLogger("rowcast.commit")


def _ignore(_error: Error | None) -> None:
    """Do nothing more."""


class CommitQueue(WriterCalls):
    """What waits to be written, in order; ``_start`` takes it."""

    _look: asyncio.TimerHandle | None = None
    _scheduled = False
    _overtaken = False
    """Whether queued writes have older versions than some written ones."""

    def __init__(
        self, store: Appends, clock: HybridClock, executor: Executor, bounds: WriteBounds
    ) -> None:
        super().__init__(store, executor)
        self._bounds = bounds
        self._clock = clock
        self._fair = FairBatches(bounds.few_bytes)
        """What waits in lanes, before all that is in ``_waiting``."""
        self._waiting: deque[Write | FactsWrite] = deque()
        self._waiting_bytes = 0
        """Pending bytes in the queue, without the batch being written."""
        self._waiting_facts = self._waiting_facts_bytes = 0  # of changes without a write
        self._parts: deque[Batch] = deque()
        """The parts of a failed batch, each to be tried alone, before everything that waits."""
        self._busy = False  # whether a batch is being written
        self._goes_ahead = False  # and was announced first, so that others like it may be, too
        self._relieved: list[Callable[[], None]] = []
        self.on_denied: list[Callable[[Caller, str, str, Error], None]] = []
        """Called with each write that was denied because of the current record."""
        self.on_rare: list[Callable[[Receipt], None]] = []
        """Called with each receipt of a write that is late, or whose event expires: few are."""
        self.on_facts: list[Callable[[Sequence[Change]], None]] = []
        """Called with changes of facts that other processes have put into the log."""
        self._idle: list[asyncio.Future[None]] = []
        self.pending = PendingBytes(bounds)
        """Pending bytes per connection."""
        self.remembers: Callable[[Table | None], bool] = is_ruled
        """Whether events of a table need their before image."""
        self._claims: deque[asyncio.Future[None]] = deque()  # who waits for exclusive writing
        self.shares = BatchShares(bounds, self.pending, store, self._loop.time)

    def _start(self) -> None:
        """Take the next batch."""
        raise NotImplementedError

    @property
    def backlog(self) -> int:
        """The number of queued writes, without the batch being written."""
        return len(self._waiting) + self._fair.count

    @property
    def crowded(self) -> bool:
        """Whether deferrable writes should wait."""
        pending, high = self.pending, self._bounds.backlog_events_high
        return self.backlog >= high or pending.size >= pending.high

    def when_relieved(self, call: Callable[[], None]) -> None:
        """Call once when it is no longer crowded."""
        self._relieved.append(call)

    def slows(self, caller: Caller) -> bool:
        """Whether reading from a caller should pause."""
        pending, high = self.pending, self._bounds.backlog_events_high
        crowded = len(self._waiting) + self._fair.count >= high or pending.size >= pending.high
        if not crowded and pending.get(caller.connection, 0) < pending.client_high:
            return False  # the usual case, without another call
        return pending.slows(caller.connection, crowded=crowded)

    async def room(self, caller: Caller) -> None:
        """Wait until reading from a caller may resume."""
        while self.slows(caller):
            future: asyncio.Future[None] = self._loop.create_future()
            self.pending.when_room(caller, partial(resolver(future), None))
            await future

    def submit(self, writes: Sequence[Write], most: int = 0) -> None:
        """Queue writes; they stay together and in order. Raises BUSY when too many wait.

        ``most`` overrides that limit, for a single large transaction.
        """
        if not writes:
            return
        waiting = len(self._waiting) + self._fair.count
        if waiting + len(writes) > (most or self._bounds.backlog_events):
            raise _full(f"{waiting} writes")
        pending, clock, caller, total = self.pending, self._clock, writes[0].caller, 0
        for write in writes:
            write.size = len(write.event.payload) + WRITE_BYTES
            total += write.size
        if pending.size + total > self._bounds.client_max and not most:
            pending.check(caller, total)
        held, version, connection = 0, clock.tick(len(writes)), caller.connection
        for write in writes:
            if write.caller is not caller:  # of one caller there is one look at what it has
                pending[connection] = pending.get(connection, 0) + held
                caller, held, connection = write.caller, 0, write.caller.connection
            held += write.size
            if write.versioned:
                clock.observe(write.event.version)
                version = clock.tick(len(writes))
            elif write.logged:
                write.event.version, version = version, version + 1
        pending[connection] = pending.get(connection, 0) + held
        pending.size, self._waiting_bytes = pending.size + total, self._waiting_bytes + total
        self._waiting.extend(writes)
        self.shares.awaited += len(writes) * (type(writes[-1].done) not in LOW_PRIORITY_TYPES)
        if not self._scheduled and (not self._busy or self._goes_ahead):  # ``_schedule``, inlined
            self._scheduled = True
            self._loop.call_soon(self._start)

    def keep(self, changes: Sequence[Change], done: FactsDone | None = None) -> None:
        """Write changes of facts, after all earlier writes; all or none.

        They are committed in one transaction with adjacent writes. ``done`` is called on the loop,
        maybe before this returns, with None or the Error; without it a failure is logged.
        """
        facts_write = FactsWrite(changes, done)
        waiting = self._waiting_facts
        self._waiting_facts += facts_write.weight
        self._waiting_facts_bytes += facts_write.size
        too_large = self._waiting_facts_bytes > self._bounds.most
        if waiting and (self._waiting_facts > self._bounds.backlog_changes or too_large):
            facts_write.error = _full(f"{waiting} changes of facts")
            self._complete_facts([facts_write])
            return
        self._waiting.append(facts_write)
        self._schedule()

    def _keep_alone(self, changes: Sequence[Change]) -> None:
        """Write changes of facts in a batch of their own, before all that waits."""
        facts_write = FactsWrite(changes, _ignore)
        self._waiting_facts += facts_write.weight
        self._waiting_facts_bytes += facts_write.size
        self._parts.append(Batch(facts_writes=[(0, facts_write)]))

    async def claim(self) -> None:
        """Wait until nothing is being written, and hold up all others until ``unclaim``."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._claims.append(future)
        self.keep((), _ignore)  # so that there is a next batch
        await future

    def unclaim(self) -> None:
        """Let the others go on."""
        self._busy = False
        self._schedule()

    def _claimed(self) -> bool:
        """Let the next exclusive writer begin; return whether there is one."""
        while self._claims:
            future = self._claims.popleft()
            if not future.done():  # else it was cancelled
                self._busy = True
                future.set_result(None)
                return True
        return False

    def _schedule(self) -> None:
        if not self._scheduled and (not self._busy or self._goes_ahead):
            self._scheduled = True
            self._loop.call_soon(self._start)  # at the end of this turn, which may add more

    async def settle(self) -> None:
        """Wait until the queue is empty and everything is answered."""
        while self.backlog or self._parts or self._busy:
            future = self._loop.create_future()
            self._idle.append(future)
            await future

    async def durable(self) -> None:
        """Wait until everything submitted so far is durable; raises the Error of a failure."""
        future: asyncio.Future[Error | None] = self._loop.create_future()
        self.keep((), resolver(future))
        error = await future
        if error is not None:
            raise error

    def _look_again(self) -> None:
        self._look = None
        self._schedule()

    def _take(self, *, whole: bool = False) -> Batch:
        """Return the next batch: fair shares, if several callers write and more waits.

        While the tables lag, it leaves out callers with many bytes and may be empty; ``_start`` is
        then called again soon. ``whole``: nobody is left out.
        """
        if self._claims and not whole and self._claimed():
            return Batch([])
        bounds, waiting, shares = self._bounds, self._waiting, self.shares
        most, events, few = bounds.batch, bounds.batch_events, False
        several = len(self.pending) > 1 and self.pending.rivals > 1
        if shares.awaited and shares.until:
            shares.awaited_until = shares.until
        matters = several or (shares.until and self._waiting_bytes > bounds.few_bytes)
        if matters and shares.are_needed():
            few_awaited = shares.awaited * WRITE_BYTES <= bounds.few_bytes
            many_awaited = not few_awaited or self._fair.has_many_awaited()
            most, events = shares.limits(many_awaited=many_awaited)
            few = not whole and shares.pass_over()
        large = self._waiting_bytes > most or len(waiting) > events
        if few or self._fair.count or (large and several):
            batch = self._take_shares(most, events, few=few)
        elif not (large or self._waiting_facts):
            batch = Batch(list(waiting), size=self._waiting_bytes)  # type: ignore[arg-type]
            waiting.clear()
        else:
            batch = take(waiting, events, most)
        if not waiting:
            shares.awaited = 0
        if shares.until:
            batch.may_outrun_tables = few or not shares.behind_since
        if self._overtaken:
            self._renew_versions(batch.writes)
        self._waiting_bytes -= batch.size
        return batch

    def _renew_versions(self, writes: Sequence[Write]) -> None:
        """Have versions increase with numbers, for lookups by time."""
        version = self._clock.tick(len(writes))
        for write in writes:
            if write.logged and not write.versioned:
                write.event.version = version
                version += 1
        self._overtaken = self.backlog > 0

    def _take_shares(self, most: int, events: int, *, few: bool) -> Batch:
        """Return a batch of fair shares; look again soon when ``few`` leaves something."""
        fair, self._overtaken = self._fair, True
        fair.add(self._waiting)
        batch = fair.take(most, events, few=few)
        if few and fair.count and self._look is None:
            self._look = self._loop.call_later(self._bounds.look_seconds, self._look_again)
        return batch

    def _relieve(self) -> None:
        """Resume reading from those who were paused, when there is room again."""
        crowded = self.crowded
        self.pending.let_go(crowded=crowded)
        if not crowded:
            relieved, self._relieved = self._relieved, []
            for call in relieved:
                relieve(call)

    @staticmethod
    def _wake(waiters: list["asyncio.Future[None]"]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    def _notify_denied(self, write: Write, error: Error) -> None:
        for listener in self.on_denied:
            listener(write.caller, "write", write.event.topic, error)

    def _notify_rare(self, receipt: Receipt) -> None:
        for listener in self.on_rare:
            listener(receipt)

    def _complete_facts(self, facts_writes: Sequence[FactsWrite]) -> None:
        """Call the callbacks of facts; log failures of facts without a callback once."""
        lost: Error | None = None
        for facts_write in facts_writes:
            self._waiting_facts -= facts_write.weight
            self._waiting_facts_bytes -= facts_write.size
            if facts_write.done is None:
                lost = lost or facts_write.error
                continue
            try:
                facts_write.done(facts_write.error)
            except Exception:
                log.exception("the callback for %d stored facts failed", len(facts_write.changes))
        if lost is not None:
            log.error("facts were not kept: %s", lost.full)


def _full(what: str) -> Error:
    """Return the refusal of more than may wait."""
    message = f"{what} are waiting for the disk; try again in a second"
    return Error(Code.BUSY, message, retry_after_seconds=1)
