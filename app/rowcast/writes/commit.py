"""The only writer: takes a batch from the queue, decides, appends, announces and answers it.

``Committer`` extends ``staged_commit.py`` (large results), ``commit_queue.py`` (what waits) and
``writer_calls.py``; ``cluster/`` overrides its steps: ``_start``, ``_begin``, ``_decide``,
``_append``, ``_written``, ``_finish``, ``_announce_and_answer``.

One batch at a time is written by the one writer thread; while it is, the next batch collects, so no
timer adds latency when idle and no write waits behind more than one append (group commit). Before
it is written, everything that depends on the current record is decided: conditions, patches, times
set by the server. One batch at a time, so they are atomic without locks.

The order is: durable, then announced, then answered: no subscriber sees an event that a crash can
lose. Two kinds of messages are exceptions: those of QoS 0 are announced, then appended
(``announced_first.py``; not with ``log.qos0: before``), and unlogged ones are only announced.
No other code appends to the log or publishes to the bus. Before it: ``commit_queue.py``.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count

from rowcast.bus.bus import Bus
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import MESSAGE, Event
from rowcast.core.histograms import Histogram
from rowcast.reads.record_cache import RecordCache
from rowcast.store.disk import Disk, size_of
from rowcast.store.store import Appends
from rowcast.writes.announced_first import AnnouncedFirst, goes_first
from rowcast.writes.decide import decide_all
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.staged_commit import StagedCommits
from rowcast.writes.write import FireAndForget, Outcome, Receipt, Write

log = logging.getLogger("rowcast.commit")


class Committer(StagedCommits):
    """One queue, one writer thread, one order of events."""

    def __init__(
        self,
        store: Appends,
        bus: Bus,
        cache: RecordCache,
        clock: HybridClock,
        executor: Executor,
        bounds: WriteBounds | None = None,
    ) -> None:
        super().__init__(store, clock, executor, bounds or WriteBounds())
        self._bus = bus
        self._cache = cache
        self.announced_first = AnnouncedFirst()
        self._reserved = max(store.head(), store.reserved())
        self._reserved_at_start = self._reserved
        """Numbers up to this one may have been announced before the last crash, and then lost."""
        self._numbers = count(self._reserved + 1)  # none is reused, though its append fails
        self.announced = store.head()
        """The position up to which all logged events have been offered to the bus."""
        self.stored = self.announced
        """The position up to which all are durable, the bound of pages of the log."""
        self.after_append: list[Callable[[Sequence[Outcome]], None]] = []
        """Called with the outcomes of writes, once they are announced; must not raise."""
        self.before_append: list[tuple[Collection[object], Callable[[Sequence[Event]], None]]] = []
        """Called on the writer thread with the next events to append, while the collection beside
        it has what they may need; must not raise."""
        self.publish_unlogged = bus.publish
        """Announces an event that is not logged: it has neither a number nor a version."""
        self.publish_unlogged_run = bus.publish_run  # for several of one topic
        self._returns = clock.returns
        self.commits = self.failures = 0
        self.commit_seconds = Histogram()
        """The time from the decision of a batch to its outcomes."""
        self._begun = 0.0
        self._gathering: GroupCommit | None = None
        """Announced messages whose append is still to begin."""
        self._gathered: asyncio.TimerHandle | None = None  # which begins it
        self.disk = Disk()

    # -- the event loop ----------------------------------------------------------------------------

    def show(self, event: Event, path: str) -> None:
        """Announce an unlogged event, only to filters that name its path."""
        self._bus.show(event, path)

    def _announce(self, event: Event) -> None:
        self._bus.publish(event)
        self.announced = event.seq

    def _start(self) -> None:
        """Take the next batch, and find the current records that it depends on."""
        self._scheduled = False
        if self._busy:  # the batch that is appended may have others announced beside it
            self._go_ahead()
            return
        alone = bool(self._parts)
        batch = self._parts.popleft() if alone else self._take()
        if not (batch.writes or batch.facts_writes):  # nothing may be written yet
            return
        self._busy, self._begun = True, self._loop.time()
        self._begin(GroupCommit(batch, alone=alone))

    def _begin(self, work: GroupCommit) -> None:
        """Find the current records that a batch depends on, and decide it."""
        try:
            work.current.epoch, work.current.now = self._store.epoch, self._clock.last
            ask = work.collect(self._cache, self._clock)
        except Exception as error:  # noqa: BLE001 - a read that fails fails these writes only
            self._failed(work, error)
            return
        if ask or work.late:
            self._run(work, partial(work.fetch, self._store, ask), self._decide)
        else:
            self._decide(work)

    def _run(
        self, work: GroupCommit, call: Callable[[], None], then: Callable[[GroupCommit], None]
    ) -> None:
        """Run a call on the writer thread, and continue on the loop."""
        call_soon: Callable[..., object] = self._loop.call_soon_threadsafe
        try:
            self._call(call, partial(call_soon, then, work), partial(call_soon, self._raised, work))
        except RuntimeError:  # the threads have stopped: shutdown
            if work.announced:
                self._lose(work, stopping())
            else:
                self._refuse(work)

    def _refuse(self, work: GroupCommit) -> None:
        """Refuse all queued writes at shutdown."""
        while True:
            batch = work.batch
            self._announce_and_answer(batch.writes, [stopping() for _ in batch.writes])
            for _, facts_write in batch.facts_writes:
                facts_write.error = stopping()
            self._complete_facts([facts_write for _, facts_write in batch.facts_writes])
            if not (self._parts or self.backlog):
                break
            work = GroupCommit(self._parts.popleft() if self._parts else self._take(whole=True))
        self._busy = False
        self._wake(self._idle)

    def _decide(self, work: GroupCommit) -> None:
        """Decide a batch, and have it appended to the log."""
        if work.on_writer_thread or len(work.batch.writes) > self._bounds.loop_writes:
            self._run(work, partial(self._decide_and_append, work), self._written)
            return
        try:
            work.decide(self._numbers.__next__, self._store)
        except Exception as error:  # noqa: BLE001 - each write is tried alone
            self._failed(work, error)
            return
        if work.packed is None:
            self._finish(work)
        elif (
            work.events
            and work.events[0].kind is MESSAGE
            and not work.events[0].qos
            and self._may_go_ahead(work)
        ):
            self._goes_ahead = work.announced = True
            self._announce_and_answer(work.batch.writes, work.outcomes, stored=False)
            self._gather(work)
        else:
            self._run(work, partial(self._append, work), self._written)

    # -- announced first (``announced_first.py``) --------------------------------------------------

    def _may_go_ahead(self, work: GroupCommit) -> bool:
        """Whether a decided batch may be announced before it is durable."""
        batch = work.batch
        return (
            not (work.alone or batch.facts_writes or self.disk.refused)
            and work.events[-1].seq <= self._reserved
            and all(map(goes_first, batch.writes))
        )

    def _gather(self, work: GroupCommit) -> None:
        """Append announced messages together with those of the next moments.

        A hand-over to the writer thread costs as much as ten messages. Nobody waits for these, so
        they are gathered for ``gather_seconds``: until somebody does wait, or there are enough.
        """
        self._gathering, bounds = work, self._bounds
        others = self.backlog or self._parts or self.announced_first.waiting
        enough = len(work.batch.writes) >= bounds.gather_events
        if others or enough or not bounds.gather_seconds:
            self._append_gathered()
        else:
            self._gathered = self._loop.call_later(bounds.gather_seconds, self._append_gathered)

    def _append_gathered(self) -> None:
        """Append what was announced, with what was announced since, in one batch."""
        work, self._gathering = self._gathering, None
        if work is None:
            return
        if self._gathered is not None:
            self._gathered.cancel()
        first = self.announced_first
        if first.next.batch.writes:
            following, work.packed = first.take_next(), None
            work.events += following.events
            work.batch.writes += following.batch.writes
            work.batch.size += following.batch.size
        self._begun = self._loop.time()
        append = self._append_following if work.packed is None else self._append
        self._run(work, partial(append, work), self._stored)

    def _go_ahead(self) -> None:
        """Announce messages while others are appended; they are appended next."""
        waiting, work = self._waiting, self.announced_first.next
        most = self.shares.room_ahead(work.batch)
        blocked = not most or self._overtaken or self.disk.refused
        if blocked or not (writes := self.announced_first.take(waiting, most)):
            self._append_gathered()
            return
        events: list[Event] = []
        outcomes = decide_all(writes, work.current, events, work.changes, self._numbers.__next__)
        if events and events[-1].seq > self._reserved:  # they have to wait for others
            waiting.extendleft(reversed(writes))
            self._append_gathered()
            return
        size = sum(write.size for write in writes)
        self._waiting_bytes -= size
        work.batch.size += size
        work.announced = True
        work.events += events
        work.batch.writes += writes
        self._announce_and_answer(writes, outcomes, stored=False)
        if waiting or len(work.batch.writes) >= self._bounds.gather_events:
            self._append_gathered()
        if waiting and goes_first(waiting[0]):
            self._schedule()

    def _stored(self, work: GroupCommit) -> None:
        """Note that announced messages are durable, and go on with those after them."""
        self.commits += 1
        if self.disk.refused:
            self._try_disk(size_of(work.events, work.changes))
        self._release(work)

    def _lose(self, work: GroupCommit, error: Exception) -> None:
        """Count announced messages that the log does not have."""
        events = work.events
        self.failures += 1
        self.announced_first.lost += len(events)
        what = "%d messages of QoS 0 were delivered and are not stored: %s"
        if isinstance(error, Error) and error.code is Code.BUSY:
            log.error(what, len(events), error.full)
            self.disk.refuses(error.message, work.batch.content_bytes)
        else:
            log.error(what, len(events), error, exc_info=error)
        self.stored = max(self.stored, events[-1].seq)
        self._release(work)

    def _release(self, work: GroupCommit) -> None:
        """Hold announced messages no longer; append what was announced meanwhile."""
        self.pending.release_all(work.batch.writes)
        first = self.announced_first
        if first.waiting:
            first.note(self.stored)
        following = first.take_next() if first.next.batch.writes else None
        if following is not None and following.events:
            self.commit_seconds.observe(self._loop.time() - self._begun)
            self._gather(following)
            if self._waiting:
                self._schedule()
            self._relieve()
            return
        if following is not None:  # those that need no disk
            self.pending.release_all(following.batch.writes)
        self._goes_ahead = False
        work.outcomes = []
        self._finish(work)

    def _append_following(self, work: GroupCommit) -> None:
        work.packed = self._store.pack(work.events)
        self._append(work)

    def unstored(self) -> "asyncio.Future[None] | None":
        """Return what is done when all that is announced is stored; None if it is.

        Pages of the log wait for it: they are complete up to what is announced.
        """
        announced = self.announced
        if self.stored >= announced:
            return None
        self._append_gathered()
        return self.announced_first.when_stored(announced)

    @property
    def reach(self) -> int:
        """The greatest number that a cursor of this log can have.

        A listing may be ahead of the bus, and the bus ahead of the disk.
        """
        return max(self.stored, self.announced, self._reserved_at_start)

    def events_after(self, position: int) -> int:
        """Return how many logged events have been announced after a position.

        Numbers that no event has are not counted (``core/number_gaps.py``).
        """
        last = self.announced
        numbers = last - position
        return numbers - self._store.missing_numbers(position, last) if numbers > 0 else 0

    async def until_reached(self, number: int) -> None:
        """Wait until a cursor of another process can be judged: here there is none."""

    # -- outcomes ----------------------------------------------------------------------------------

    def _decide_and_append(self, work: GroupCommit) -> None:
        """Do both on the writer thread: a batch that is large, or whose deciders read the store."""
        work.decide(self._numbers.__next__, self._store)
        if work.packed is not None:
            self._append(work)

    def _raised(self, work: GroupCommit, error: BaseException) -> None:
        """Handle what a call on the writer thread has raised."""
        if not isinstance(error, Exception):
            raise error
        self._failed(work, error)

    def _failed(self, work: GroupCommit, error: Exception) -> None:
        """Refuse a batch, or try its parts separately, to isolate the failure."""
        if work.announced:
            self._lose(work, error)
            return
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
            self._try_disk(size_of(work.events, work.changes))
        if work.events:
            known = self._cache.known(work.events) if work.bulk else None
            self._cache.put_all(work.events, known)
        self._finish(work)

    def _try_disk(self, taken: int) -> None:
        """Note bytes that the disk took after a refusal; if they prove too little, write as many.

        That goes alone, in a batch that holds nobody's write: it may be refused.
        """
        disk = self.disk
        disk.took(taken)
        if disk.refused and disk.probe_due(self._loop.time()):
            self._keep_alone(disk.probe())

    def _finish(self, work: GroupCommit) -> None:
        """Announce and answer, in order; then start the next batch, when this turn ends.

        Not earlier: it would be half a batch, because answered writers write again in this turn.
        """
        seconds, times = self._loop.time() - self._begun, self.commit_seconds
        times.counts[bisect_left(times.bounds, seconds)] += 1  # ``observe``, inlined
        times.total += seconds
        batch, outcomes = work.batch, work.outcomes
        if outcomes:
            self._announce_and_answer(batch.writes, outcomes)
            if len(outcomes) >= self._bounds.fitted_events and self.shares.until:
                self.shares.fit(self._loop.time() - self._begun - seconds)
        if batch.facts_writes:
            self._complete_facts([facts_write for _, facts_write in batch.facts_writes])
        self._busy = False
        if self._waiting or self._parts or self._fair.count:
            self._schedule()
        elif self._idle:
            self._wake(self._idle)
        if self.pending.slowed or self._relieved:
            self._relieve()

    def _announce_and_answer(
        self, writes: Sequence[Write], outcomes: Sequence[Outcome], *, stored: bool = True
    ) -> None:
        """Publish each event, call its write's ``done``; ``stored`` frees pending bytes."""
        pending, publish, held, last = self.pending, self._bus.publish, 0, len(writes) - 1
        for index, (write, outcome) in enumerate(zip(writes, outcomes, strict=True)):
            if isinstance(outcome, Receipt):
                event = outcome.event
                if not outcome.late:
                    publish(event)
                    if event.seq:
                        self.announced = event.seq
                if outcome.late or event.expires_at:
                    self._notify_rare(outcome)
            elif outcome.code is Code.DENIED:
                self._notify_denied(write, outcome)
            held += write.size
            if stored and (index == last or writes[index + 1].caller is not write.caller):
                connection = write.caller.connection
                if left := pending.pop(connection) - held:  # ``release``, inlined
                    pending[connection] = left
                pending.size, held = pending.size - held, 0
            write.group = None  # it names its writes: a circle that only a collection would free
            if type(write.done) is FireAndForget and type(outcome) is Receipt:
                continue  # it hears of refusals alone
            try:
                write.done(outcome)
            except Exception:
                log.exception("a writer failed to take the outcome of %r", write.event)
        for listener in self.after_append:
            listener(outcomes)

    # -- the writer thread -------------------------------------------------------------------------

    def _append(self, work: GroupCommit) -> None:
        """Append a decided batch to the log, and before it what it needs."""
        events = work.events
        if self._clock.returns != self._returns:
            self._return_versions()
        if events:
            if events[-1].seq > self._reserved:
                self._reserve(events[-1].seq, events[0].seq)
            for missing, prepare in self.before_append:
                if missing:
                    prepare(events)
        self._store.append(work.packed, may_outrun_tables=work.batch.may_outrun_tables)
        if events:
            self.stored = events[-1].seq

    def _return_versions(self) -> None:
        """Reset the store's last version after a wrong clock, once versions are valid again."""
        returns = self._clock.returns
        self._store.return_versions(self._clock.last)
        self._returns = returns

    def _reserve(self, seq: int, first: int = 0) -> None:
        """Reserve numbers on disk before use, so that none is reused after a crash."""
        reserved = seq + self._bounds.reserved_numbers
        self._store.reserve(reserved, first)
        self._reserved = reserved
