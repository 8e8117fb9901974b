"""The only writer: takes a batch from the queue, decides, appends, announces and answers it.

One batch at a time is written by the one writer thread; while it is, the next batch collects, so no
timer adds latency when idle and no write waits behind more than one append (group commit). Before
it is written, everything that depends on the current record is decided: conditions, patches, times
set by the server. One batch at a time, so they are atomic without locks.

The order is always: durable, then announced, then answered: no subscriber sees an event that a
crash can lose, and no writer gets an acknowledgement before it is stored.

No other code appends to the store or publishes to the bus. It knows neither protocols nor
permissions.
"""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from itertools import count
from typing import TypeVar

from rowcast.bus.bus import Bus
from rowcast.core.callers import Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.histograms import Histogram
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.topic_tables import LogSource
from rowcast.kernel.batch import Batch, take
from rowcast.kernel.bytes_in_hand import BytesInHand, WriteBounds, relieve
from rowcast.kernel.fair_batch import FairBatches
from rowcast.kernel.group_commit import GroupCommit
from rowcast.kernel.write import FactsWrite, Kept, Outcome, Receipt, Write, resolver
from rowcast.reads.record_cache import RecordCache
from rowcast.store.disk import Disk, size_of
from rowcast.store.store import Appends, Change, Keep

log = logging.getLogger("rowcast.commit")

T = TypeVar("T")


class Committer:
    """The write side of the kernel: one queue, one thread, one order."""

    def __init__(
        self,
        store: Appends,
        bus: Bus,
        cache: RecordCache,
        clock: HybridClock,
        executor: Executor,
        bounds: WriteBounds | None = None,
    ) -> None:
        self._bounds = bounds or WriteBounds()
        self._fair = FairBatches(self._bounds.batch)
        self._store = store
        self._bus = bus
        self._cache = cache
        self._clock = clock
        self._executor = executor
        self._waiting: deque[Write | FactsWrite] = deque()
        self._keeping = self._keeping_bytes = 0
        """Pending changes of facts, without those of writes."""
        self._parts: deque[Batch] = deque()
        """The parts of a failed batch, each to be tried alone, before everything that waits."""
        self._busy = False
        """Whether a batch is being written."""
        self._scheduled = False
        self._reserved = max(store.head(), store.reserved())
        self._numbers = count(self._reserved + 1)
        """Sequence numbers: none is reused, even if its transaction fails."""
        self._relieved: list[Callable[[], None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self.pending = BytesInHand(self._bounds)
        """Pending bytes per caller."""
        self._waiting_bytes = 0
        """Pending bytes in the queue, without the batch being written."""
        self._overtaken = False
        """Whether queued writes have older versions than some written ones."""
        self.announced = store.head()
        """The position up to which all logged events have been offered to the bus."""
        self.stored = self.announced
        """The position up to which all events are durable, the bound of pages of the log."""
        self.after_append: list[Callable[[Sequence[Outcome]], None]] = []
        """Called with the outcomes of each batch, once they are announced; must not raise."""
        self.before_append: list[Callable[[Sequence[Event]], None]] = []
        """Called on the writer thread with the next events to append; must not raise."""
        self.on_denied: list[Callable[[Caller, str, str, Error], None]] = []
        """Called with each write that was denied because of the current record."""
        self.publish_unlogged = bus.publish
        """Announces an event that its table does not log; nothing is stored.
        It has neither a number nor a version, so it cannot be read again or compared."""
        self.publish_unlogged_run = bus.publish_run
        """The same for several events of one topic."""
        self._returns = clock.returns
        self.commits = 0
        self.failures = 0
        self.commit_seconds = Histogram()
        """The time from the decision of a batch to its outcomes."""
        self._begun = 0.0
        self.disk = Disk()
        """The health of the disk."""
        self._loop = asyncio.get_running_loop()

    # -- the event loop
    # ------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """The number of queued writes, without the batch being written."""
        return len(self._waiting)

    @property
    def crowded(self) -> bool:
        """Whether deferrable writes should wait."""
        pending, high = self.pending, self._bounds.backlog_events_high
        return len(self._waiting) >= high or pending.size >= pending.high

    def when_relieved(self, call: Callable[[], None]) -> None:
        """Call once when it is no longer crowded."""
        self._relieved.append(call)

    def slows(self, caller: Caller) -> bool:
        """Whether reading from a caller should pause."""
        pending, high = self.pending, self._bounds.backlog_events_high
        crowded = len(self._waiting) >= high or pending.size >= pending.high
        if not crowded and pending.get(caller, 0) < self._bounds.client_high:
            return False  # the usual case, without another call
        return pending.slows(caller, crowded=crowded)

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
        if len(self._waiting) + len(writes) > (most or self._bounds.backlog_events):
            raise Error(
                Code.BUSY,
                f"{len(self._waiting)} writes are waiting for the disk; try again in a second",
                retry_after_seconds=1,
            )
        pending, total = self.pending, 0
        for write in writes:
            write.size = size = len(write.event.payload) + WRITE_BYTES
            total += size
        if pending.size + total > self._bounds.client_max and not most:
            pending.check(writes[0].caller, total)
        for write in writes:
            event, caller = write.event, write.caller
            if write.versioned:
                self._clock.observe(event.version)
            elif write.logged:
                event.version = self._clock.tick()
            pending[caller] = pending.get(caller, 0) + write.size
        pending.size += total
        self._waiting_bytes += total
        self._waiting.extend(writes)
        if not (self._scheduled or self._busy):  # ``_schedule``, inlined
            self._scheduled = True
            self._loop.call_soon(self._start)

    def keep(self, changes: Sequence[Change], done: Kept | None = None) -> None:
        """Write changes of facts, after all earlier writes; all or none.

        They are committed in one transaction with adjacent writes. ``done`` is called on the loop,
        maybe before this returns, with None or the Error; without it a failure is logged.
        """
        keeping = FactsWrite(changes, done)
        waiting = self._keeping
        self._keeping += keeping.weight
        self._keeping_bytes += keeping.size
        too_large = self._keeping_bytes > self._bounds.most
        if waiting and (self._keeping > self._bounds.backlog_changes or too_large):
            keeping.error = Error(
                Code.BUSY,
                f"{waiting} changes of facts are waiting for the disk; try again in a second",
                retry_after_seconds=1,
            )
            self._tell([keeping])
            return
        self._waiting.append(keeping)
        self._schedule()

    def _schedule(self) -> None:
        if not (self._scheduled or self._busy):
            self._scheduled = True
            self._loop.call_soon(self._start)  # at the end of this turn, which may add more

    def show(self, event: Event, path: str) -> None:
        """Announce an unlogged event, only to filters that name its path."""
        self._bus.show(event, path)

    async def settle(self) -> None:
        """Wait until the queue is empty and everything is answered."""
        while self._waiting or self._parts or self._busy:
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

    def on_writer(self, call: Callable[[], T]) -> "Future[T]":
        """Run a call on the writer thread between two commits."""
        try:
            return self._executor.submit(call)
        except RuntimeError:  # the threads have stopped: shutdown
            refused: Future[T] = Future()
            refused.set_exception(stopping())
            return refused

    async def trim(self, source: LogSource, keep: Keep, now_seconds: float, limit: int) -> int:
        """Delete old events; return how many."""
        return await self._result(partial(self._store.trim, source, keep, now_seconds, limit))

    async def tidy(self, limit: int) -> bool:
        """Run a step of deferred work; return whether more is left."""
        return await self._result(partial(self._store.tidy, limit))

    async def _result(self, call: "Callable[[], T | Future[T]]") -> T:
        """Call on the writer thread; wait for the result, which may come later."""
        found = await self._loop.run_in_executor(self._executor, call)
        return await asyncio.wrap_future(found) if isinstance(found, Future) else found

    def _take(self) -> Batch:
        """Return the next batch: a fair share, if the queue exceeds one transaction."""
        most, waiting = self._bounds.batch, self._waiting
        large = self._waiting_bytes > most
        if not (large or self._keeping or len(waiting) > self._bounds.batch_events):
            batch = Batch(list(waiting), size=self._waiting_bytes)  # type: ignore[arg-type]
            waiting.clear()
        elif large and len(self.pending) > 1:
            batch = self._fair.take(self._waiting, self.pending.values())
            self._overtaken = True
        else:
            batch = take(self._waiting, self._bounds.batch_events, most)
        if self._overtaken:  # versions increase with numbers, for lookups by time
            for write in batch.writes:
                if write.logged and not write.versioned:
                    write.event.version = self._clock.tick()
            self._overtaken = bool(self._waiting)
        self._waiting_bytes -= batch.size
        return batch

    def _start(self) -> None:
        """Take the next batch, and find the current records that it depends on."""
        self._scheduled = False
        self._busy = True
        self._begun = self._loop.time()
        alone = bool(self._parts)
        work = GroupCommit(self._parts.popleft() if alone else self._take(), alone=alone)
        try:
            work.current.epoch, work.current.now = self._store.epoch, self._clock.last
            ask = work.collect(self._cache, self._clock)
        except Exception as error:  # noqa: BLE001 - a read that fails fails these writes only
            self._failed(work, error)
            return
        if ask or work.late:
            self._run(work, partial(work.fetch, self._store, ask), self._write)
        else:
            self._write(work)

    def _run(
        self, work: GroupCommit, call: Callable[[], None], then: Callable[[GroupCommit], None]
    ) -> None:
        """Run a call on the writer thread, and continue on the loop."""

        def ended(future: "Future[None]") -> None:
            error = future.exception()
            if error is None:
                then(work)
            elif isinstance(error, Exception):
                self._failed(work, error)
            else:
                raise error

        try:
            running = self._executor.submit(call)
        except RuntimeError:  # the threads have stopped: shutdown
            self._refuse(work)
            return
        running.add_done_callback(lambda future: self._loop.call_soon_threadsafe(ended, future))

    def _refuse(self, work: GroupCommit) -> None:
        """Refuse all queued writes at shutdown."""
        while True:
            batch = work.batch
            self._answer(batch.writes, [stopping() for _ in batch.writes])
            for _, keeping in batch.keeps:
                keeping.error = stopping()
            self._tell([keeping for _, keeping in batch.keeps])
            if not (self._parts or self._waiting):
                break
            work = GroupCommit(self._parts.popleft() if self._parts else self._take())
        self._busy = False
        self._wake(self._idle)

    def _write(self, work: GroupCommit) -> None:
        """Decide a batch, and have it appended to the log."""
        if work.apart or len(work.batch.writes) > self._bounds.loop_writes:
            self._run(work, partial(self._write_apart, work), self._written)
            return
        try:
            work.decide(self._numbers.__next__, self._store)
        except Exception as error:  # noqa: BLE001 - each write is tried alone
            self._failed(work, error)
            return
        if work.packed is None:
            self._finish(work)
        else:
            self._run(work, partial(self._append, work), self._written)

    def _write_apart(self, work: GroupCommit) -> None:
        """Do both on the writer thread: it would hold up the loop, or reads the store."""
        work.decide(self._numbers.__next__, self._store)
        if work.packed is not None:
            self._append(work)

    def _failed(self, work: GroupCommit, error: Exception) -> None:
        """Refuse a batch, or try its parts separately, to isolate the failure."""
        batch = work.batch
        if not work.alone:
            self.failures += 1
        if isinstance(error, Error):
            if not work.alone:
                log.warning("a commit of %d writes failed: %s", len(batch), error.full)
            if error.code is Code.BUSY and not work.alone:  # each part would fail, too
                self.disk.refuses(error.message, batch.content_bytes)
            if error.code is Code.BUSY or work.alone:
                work.fail(error)
                self._finish(work)
                return
        elif work.alone:
            what = batch.writes[0].event if batch.writes else "facts alone"
            log.error("the write of %r failed", what, exc_info=error)
            work.fail(Error(Code.BUSY, "the store could not keep this write; the log says why"))
            self._finish(work)
            return
        else:
            what = "a commit of %d writes failed; trying them one by one"
            log.error(what, len(batch), exc_info=error)
        self._parts.extend(batch.parts())
        self._busy = False
        self._schedule()

    def _written(self, work: GroupCommit) -> None:
        """Note what is durable now."""
        self.commits += work.packed is not None
        if self.disk.refused:
            self.disk.took(size_of(work.events, work.changes))
        put = self._cache.put
        for event in work.events:
            if event.kind in RETAINED:
                put(event.topic, None if event.kind == DELETE else event)
        self._finish(work)

    def _finish(self, work: GroupCommit) -> None:
        """Announce and answer, in order; then start the next batch, when this turn ends.

        Not earlier: it would be half a batch, because answered writers write again in this turn.
        """
        seconds, times = self._loop.time() - self._begun, self.commit_seconds
        times.counts[bisect_left(times.bounds, seconds)] += 1  # ``observe``, inlined
        times.total += seconds
        batch, outcomes = work.batch, work.outcomes
        if outcomes:
            self._answer(batch.writes, outcomes)
            for listener in self.after_append:
                listener(outcomes)
        if batch.keeps:
            self._tell([keeping for _, keeping in batch.keeps])
        self._busy = False
        if self._waiting or self._parts:
            self._schedule()
        elif self._idle:
            self._wake(self._idle)
        if self.pending.slowed or self._relieved:
            self._relieve()

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

    def _answer(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        """Publish each committed event and call the write's callback, in order."""
        pending, publish = self.pending, self._bus.publish
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Receipt) and not outcome.late:
                event = outcome.event
                publish(event)
                if event.seq:
                    self.announced = event.seq
            elif isinstance(outcome, Error) and outcome.code is Code.DENIED:
                for hear in self.on_denied:
                    hear(write.caller, "write", write.event.topic, outcome)
            size = write.size
            pending.size -= size
            left = pending[write.caller] - size
            if left:
                pending[write.caller] = left
            else:
                del pending[write.caller]
            try:
                write.done(outcome)
            except Exception:
                log.exception("a writer failed to take the outcome of %r", write.event)

    def _tell(self, keeps: Sequence[FactsWrite]) -> None:
        """Call the callbacks of facts; log failures of facts without a callback once."""
        lost: Error | None = None
        for keeping in keeps:
            self._keeping -= keeping.weight
            self._keeping_bytes -= keeping.size
            if keeping.done is None:
                lost = lost or keeping.error
                continue
            try:
                keeping.done(keeping.error)
            except Exception:
                log.exception("someone failed to hear about %d facts", len(keeping.changes))
        if lost is not None:
            log.error("facts were not kept: %s", lost.full)

    # -- the writer thread -------------------------------------------------------------------------

    def _append(self, work: GroupCommit) -> None:
        """Append a decided batch to the log, and before it what it needs."""
        events = work.events
        if self._clock.returns != self._returns:
            self._return_versions()
        if events:
            if events[-1].seq > self._reserved:
                self._reserve(events[-1].seq)
            for prepare in self.before_append:
                prepare(events)
        self._store.append(work.packed)
        if events:
            self.stored = events[-1].seq

    def _return_versions(self) -> None:
        """Reset the store's last version after a wrong clock, once versions are valid again."""
        returns = self._clock.returns
        self._store.return_versions(self._clock.last)
        self._returns = returns

    def _reserve(self, seq: int) -> None:
        """Reserve numbers on disk before use, so that none is reused after a crash."""
        reserved = seq + self._bounds.reserved_numbers
        self._store.reserve(reserved)
        self._reserved = reserved
