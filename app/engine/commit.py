"""The only writer: takes what waits, decides it, makes it durable, announces it, answers.

One transaction at a time runs on the one writer thread; while it runs, the next batch collects, so
no timer adds latency when idle and no write waits behind more than one commit (group commit).
Within the writer thread everything that depends on the current record is decided: conditions,
patches, times set by the server. So they are atomic without locks.

The order is always: durable, then announced, then answered (DESIGN, section 4): no subscriber sees
what a crash can take back, and no writer is told "stored" before it is.

Nobody else appends to the store or publishes to the bus. It knows nothing of protocols or
permissions.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future

from app.bus.bus import Bus
from app.core.callers import Caller
from app.core.clock import HybridClock
from app.core.errors import Code, Error
from app.core.events import DELETE, RETAINED, Event
from app.core.limits import (
    COMMIT_BACKLOG_EVENTS_HIGH,
    COMMIT_BACKLOG_EVENTS_MAX,
    COMMIT_BATCH_EVENTS_MAX,
    SEQ_RESERVE,
)
from app.core.tables import Table
from app.engine.cache import RecordCache, Unknown
from app.engine.decide import decide
from app.engine.write import Current, Outcome, Receipt, Write
from app.store.store import Keep, Store

log = logging.getLogger("rowcast.commit")


class Committer:
    """The write side of the engine: one queue, one thread, one order."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        cache: RecordCache,
        clock: HybridClock,
        executor: Executor,
    ) -> None:
        self._store = store
        self._bus = bus
        self._cache = cache
        self._clock = clock
        self._executor = executor
        self._waiting: deque[Write] = deque()
        self._running: Future[list[Outcome]] | None = None
        self._scheduled = False
        self._seq = max(store.head(), store.reserved())
        self._reserved = self._seq
        self._relieved: list[Callable[[], None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self.pending: dict[Caller, int] = {}
        """How many writes of each caller are not answered yet."""
        self.announced = store.head()
        """The position up to which everything logged has been offered to the bus."""
        self.stored = self.announced
        """The position up to which everything is durable: what a page of the log may tell."""
        self.commits = 0
        self.failures = 0
        self._loop = asyncio.get_running_loop()

    # -- the event loop
    # ------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """How many writes wait for the disk, without those being written."""
        return len(self._waiting)

    @property
    def crowded(self) -> bool:
        """Whether connections that publish should not be read from for now."""
        return len(self._waiting) >= COMMIT_BACKLOG_EVENTS_HIGH

    def when_relieved(self, call: Callable[[], None]) -> None:
        """Call once, when it is no longer crowded."""
        self._relieved.append(call)

    def submit(self, writes: Sequence[Write]) -> None:
        """Queue writes; they stay together and in order. Raises BUSY when too many wait."""
        if len(self._waiting) + len(writes) > COMMIT_BACKLOG_EVENTS_MAX:
            raise Error(
                Code.BUSY,
                f"{len(self._waiting)} writes are waiting for the disk; try again in a second",
                retry_after_seconds=1,
            )
        pending = self.pending
        for write in writes:
            if write.logged:
                write.event.version = self._clock.tick()
            pending[write.caller] = pending.get(write.caller, 0) + 1
        self._waiting.extend(writes)
        if not self._scheduled and self._running is None:
            self._scheduled = True
            self._loop.call_soon(self._start)  # at the end of this turn: it may bring more

    def publish(self, event: Event) -> None:
        """Announce an event that its table does not log; nothing is stored (DESIGN, section 4).

        It has neither a number nor a version: nobody can ask for it again or compare it.
        """
        self._bus.publish(event)

    async def settle(self) -> None:
        """Wait until nothing waits: everything submitted is answered."""
        while self._waiting or self._running is not None:
            future = self._loop.create_future()
            self._idle.append(future)
            await future

    async def trim(self, table: Table | None, keep: Keep, now_seconds: float, limit: int) -> int:
        """Forget old events, on the writer thread; return how many."""
        return await self._loop.run_in_executor(
            self._executor, self._store.trim, table, keep, now_seconds, limit
        )

    def _start(self) -> None:
        self._scheduled = False
        batch = list(self._take())
        try:
            self._running = self._executor.submit(self._work, batch)
        except RuntimeError:  # its threads have ended: the server stops
            self._refuse(batch)
            return
        self._running.add_done_callback(
            lambda future: self._loop.call_soon_threadsafe(self._finish, batch, future)
        )

    def _refuse(self, batch: list[Write]) -> None:
        for write in batch:
            self._answer(write, stopping())

    def _take(self) -> Iterator[Write]:
        """Take a batch; a group is never split."""
        taken = 0
        waiting = self._waiting
        while waiting and (
            taken < COMMIT_BATCH_EVENTS_MAX
            or (waiting[0].group is not None and waiting[0].group.writes[0] is not waiting[0])
        ):
            taken += 1
            yield waiting.popleft()

    def _finish(self, batch: list[Write], future: "Future[list[Outcome]]") -> None:
        """Announce and answer, in order; then start the next batch."""
        self._running = None
        outcomes = future.result()
        if self._waiting:
            self._start()  # the disk works while we announce
        for write, outcome in zip(batch, outcomes, strict=True):
            self._answer(write, outcome)
        if not self._waiting and self._running is None:
            self._wake(self._idle)
        if not self.crowded and self._relieved:
            relieved, self._relieved = self._relieved, []
            for call in relieved:
                self._relieve(call)

    @staticmethod
    def _relieve(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            log.exception("a connection failed to read again")

    @staticmethod
    def _wake(waiters: list["asyncio.Future[None]"]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    def _answer(self, write: Write, outcome: Outcome) -> None:
        if isinstance(outcome, Receipt):
            self._bus.publish(outcome.event)
            if outcome.event.seq:
                self.announced = outcome.event.seq
        left = self.pending[write.caller] - 1
        if left:
            self.pending[write.caller] = left
        else:
            del self.pending[write.caller]
        try:
            write.done(outcome)
        except Exception:
            log.exception("a writer failed to take the outcome of %r", write.event)

    # -- the writer thread
    # ---------------------------------------------------------------------------

    def _work(self, batch: list[Write]) -> list[Outcome]:
        """Write a batch; what fails, fails alone where that is possible."""
        try:
            return self._transaction(batch)
        except Error as error:
            self.failures += 1
            log.warning("a commit of %d writes failed: %s", len(batch), error.message)
            if error.code is Code.BUSY:  # the disk refuses: so it would for each of them
                return [outcome for unit in _units(batch) for outcome in _refused(unit, error)]
        except Exception:
            self.failures += 1
            log.exception("a commit of %d writes failed; trying them one by one", len(batch))
        return [outcome for unit in _units(batch) for outcome in self._alone(unit)]

    def _alone(self, unit: list[Write]) -> list[Outcome]:
        try:
            return self._transaction(unit)
        except Error as error:
            return _refused(unit, error)
        except Exception:
            log.exception("the write of %r failed", unit[0].event)
            refusal = Error(Code.BUSY, "the store could not keep this write; the log says why")
            return _refused(unit, refusal)

    def _transaction(self, batch: list[Write]) -> list[Outcome]:
        current = self._current(batch)
        outcomes: list[Outcome] = []
        events: list[Event] = []
        for unit in _units(batch):
            outcomes += decide(unit, current, events, self._next_seq)
        existed = iter(self._write(events) if events else ())
        for outcome in outcomes:
            if isinstance(outcome, Receipt) and outcome.event.seq:
                outcome.existed = next(existed)
        return outcomes

    def _write(self, events: list[Event]) -> list[bool]:
        self._reserve()
        existed = self._store.commit(events)
        self.stored = events[-1].seq
        self.commits += 1
        for event in events:
            if event.kind in RETAINED:
                self._cache.put(event.topic, None if event.kind == DELETE else event)
        return existed

    def _current(self, batch: list[Write]) -> Current:
        """Return the current records of those topics whose writes depend on them."""
        current: Current = {}
        ask: list[tuple[Table | None, str]] = []
        for write in batch:
            topic = write.event.topic
            if write.depends and topic not in current:
                record = self._cache.get(topic)
                if isinstance(record, Unknown):
                    current[topic] = None
                    ask.append((write.event.table, topic))
                else:
                    current[topic] = record
        if ask:
            current.update(self._store.lookup(ask))
        return current

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _reserve(self) -> None:
        """Promise the numbers on disk before they are used: none is used twice after a crash."""
        if self._seq > self._reserved:
            self._store.reserve(self._seq + SEQ_RESERVE)
            self._reserved = self._seq + SEQ_RESERVE


def stopping() -> Error:
    """Return the answer to a write that comes when the server goes."""
    return Error(Code.BUSY, "the server is stopping; try again in a moment")


def _refused(unit: list[Write], error: Error) -> list[Outcome]:
    """Answer what could not be stored; a message that nobody stores does not need the disk."""
    if any(write.logged for write in unit):
        return [error] * len(unit)
    return [Receipt(write.event) for write in unit]


def _units(batch: list[Write]) -> Iterator[list[Write]]:
    """Split a batch into what is decided together: single writes, and whole groups."""
    index = 0
    while index < len(batch):
        group = batch[index].group
        size = len(group.writes) if group is not None else 1
        yield batch[index : index + size]
        index += size
