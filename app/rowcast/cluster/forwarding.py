"""The committer of a follower: it decides writes, which the sequencer numbers and appends.

A batch of its queue is decided here, on the newest records of this node, and sent as one proposal
(``proposals.py``); the next batch collects meanwhile. Its writers are answered when this node has
received the batch with the log, so that a read here after the answer shows the write (read your
writes). Writes whose records have changed meanwhile are decided again, before the others.

Events are announced when they arrive with the log, those of other nodes and its own, in order. If
readers need the record before an event (``reads/before_image.py``), it is taken from memory, or
read from the log first; later batches wait meanwhile. So they do for a large result, until the
tables show it (``writes/followed_stages.py``).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final, TypeVar

from rowcast.bus.bus import Bus
from rowcast.cluster.draft import Draft, first_units, reads_of, rest_of, tell_number
from rowcast.cluster.proposals import PLACEHOLDER, Proposal, Sequencer, Unit
from rowcast.cluster.sequencing import Verdict
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.journal.follower_store import FollowerStore
from rowcast.log.batch import Batch as LogBatch
from rowcast.log.batch_content import SWITCH, Content, Operation, Origin
from rowcast.reads.before_image import find_befores, set_before_image
from rowcast.reads.record_cache import RecordCache, Unknown
from rowcast.writes.batch import Batch, units
from rowcast.writes.commit import Committer
from rowcast.writes.decide import decide_all
from rowcast.writes.followed_stages import FollowedStages, Shown, concerned
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.pending_bytes import WriteBounds
from rowcast.writes.write import Outcome, Receipt, Write

log = logging.getLogger("rowcast.commit")
T = TypeVar("T")

TRIES_MAX: Final = 50
"""How often the first write of a batch is decided again because its record has changed meanwhile.
Each time another node has written at its topic, so the log as a whole makes progress; after fifty
times the writer gets an error, instead of holding up the other writers of its node."""

REACH_SECONDS: Final = 5.0
"""How long a reader waits for a node that is behind its cursor: mostly milliseconds."""
REACH_LOOK_SECONDS: Final = 0.02

NUMBERED_ELSEWHERE: Final = (
    "this process is a follower, which does not number writes: an idempotency key, a producer's "
    "mark or a result needs the server itself; send the request there, or leave that out"
)


class ForwardingCommitter(Committer):
    """The queue of a follower."""

    def __init__(
        self,
        store: FollowerStore,
        bus: Bus,
        cache: RecordCache,
        clock: HybridClock,
        executor: Executor,
        bounds: WriteBounds | None = None,
        *,
        node: str = "",
    ) -> None:
        super().__init__(store, bus, cache, clock, executor, bounds)
        self.node = node
        """The name of this run of the process: unique."""
        self.sequencer: Sequencer | None = None
        self._follower = store
        self._proposals = count(1)
        self._draft: Draft | None = None
        self._again = 0
        """How often the current batch was decided without success."""
        self._arrived: deque[tuple[LogBatch, Content]] = deque()
        """Batches that arrived and are not announced yet; the first waits for a read."""
        self._stages = FollowedStages(store)
        cache.restore = store.restore
        self.on_followed: Callable[[], None] = _nothing
        """Called when batches have been announced."""

    def submit(self, writes: Sequence[Write], most: int = 0) -> None:
        """Queue writes. Raises BUSY when too many wait, INVALID for those that need their number.

        A result that is stored with the number, such as the answer to an idempotency key, can be
        made only by the sequencer.
        """
        for write in writes:
            group = write.group
            if write.conclude is not None or (group is not None and group.conclude is not None):
                raise Error(Code.INVALID, NUMBERED_ELSEWHERE)
        super().submit(writes, most)

    # -- decided here ------------------------------------------------------------------------------

    def _decide(self, work: GroupCommit) -> None:
        """Decide a batch, and send it."""
        draft = Draft(work, self._again)
        if work.on_writer_thread or len(work.batch.writes) > self._bounds.loop_writes:
            self._run(work, partial(self._decide_draft, draft), lambda _: self._send(draft))
            return
        try:
            self._decide_draft(draft)
        except Exception as error:  # noqa: BLE001 - each write is tried alone
            self._failed(work, error)
            return
        self._send(draft)

    def _decide_draft(self, draft: Draft) -> None:
        """Decide unit by unit, and note the read set of each."""
        work, events, places = draft.work, draft.events, count(PLACEHOLDER)
        for writes, facts_write in work.batch.stretches():
            for unit in units(writes):
                reads, known = reads_of(unit, work), len(events)
                facts = len(work.changes)
                next_place = places.__next__
                outcomes = decide_all(unit, work.current, events, work.changes, next_place)
                work.outcomes += outcomes
                wants_existed = any(write.wants_existed for write in unit)
                draft.units.append(
                    Unit(reads, len(events) - known, len(work.changes) - facts, wants_existed)
                )
                draft.spans.append((unit, None))
            if facts_write is not None:
                work.changes += facts_write.changes
                draft.units.append(Unit(changes=len(facts_write.changes)))
                draft.spans.append(([], facts_write))
        if events or work.changes:
            self._store.pack(events, work.changes)  # raises for content that a log cannot store

    def _send(self, draft: Draft) -> None:
        work, sequencer = draft.work, self.sequencer
        if all(unit.is_empty for unit in draft.units):
            self._finish(work)
            return
        problem = "it has no connection yet" if sequencer is None else sequencer.problem
        if sequencer is None or problem:
            work.fail(unreachable(problem))
            self._finish(work)
            return
        draft.number = next(self._proposals)
        self._draft = draft
        content = Content(draft.events, work.changes)
        sequencer.propose(Proposal.of(self.node, draft.number, draft.units, content))

    # -- followed ----------------------------------------------------------------------------------

    def follow(self, batch: LogBatch) -> None:
        """Take the next batch of the log: announce its events, and answer its writers.

        Raises CONFLICT when it is not the next one.
        """
        self._arrived.append((batch, self._follower.take(batch)))
        if len(self._arrived) == 1:
            self._go_on()

    def _go_on(self) -> None:
        """Announce arrived batches, up to one for which the log must be read."""
        while self._arrived:
            events, _, operations, _ = self._arrived[0][1]
            staged = concerned(operations) if operations else None
            remembered = [event for event in events if self.remembers(event.table)]
            if staged is not None and staged.name == SWITCH:
                self._look_up(partial(self._stages.switch, staged, self.announced), self._show)
                break
            if staged is not None:
                self._note(staged)
            for event in remembered:
                self._follower.restore(event)
            if remembered and not _set_befores(remembered, self._cache):
                self._find_befores(remembered)
                break
            self._take_first()
        self.on_followed()

    def _find_befores(self, events: list[Event]) -> None:
        """Read the records before events."""
        tables = {event.table.name for event in events if event.table is not None}
        self._look_up(partial(find_befores, self._follower, tables, events), self._take_found)

    def _look_up(self, call: Callable[[], T], then: Callable[[T | None], None]) -> None:
        """Read what the first batch needs on the writer thread, which is idle at a follower."""

        def ended(future: "Future[T]") -> None:
            failed = future.exception()
            if failed is not None:  # unknown: readers are told no more than is sure
                log.warning("what some events need was not read: %s", failed)
            then(None if failed is not None else future.result())
            self._go_on()

        try:
            reading = self._executor.submit(call)
        except RuntimeError:  # the threads have stopped: shutdown
            return
        call_soon: Callable[..., object] = self._loop.call_soon_threadsafe
        reading.add_done_callback(partial(call_soon, ended))

    def _note(self, staged: Operation) -> None:
        """Note what comes of a result that nobody sees yet."""
        with suppress(RuntimeError):  # the threads have stopped: shutdown
            self._executor.submit(self._stages.take, staged)

    def _show(self, shown: Sequence[Shown] | None) -> None:
        """Announce a result that the tables show: readers whom it concerns read it in the log."""
        last = self._arrived[0][0].last
        self._cache.clear()
        self._take_first()
        self.announced = max(self.announced, last)
        for one in shown or ():
            self._bus.fall_behind(*one)

    def _take_found(self, _found: None) -> None:
        self._take_first()

    @property
    def followed(self) -> int:
        """The number of the last batch that was announced here."""
        return self._arrived[0][0].number - 1 if self._arrived else self._follower.number

    def _take_first(self) -> None:
        """Announce the batch that arrived first, and answer its writers."""
        batch, content = self._arrived.popleft()
        if content.events:
            self._clock.observe(max([event.version for event in content.events]))
        self._cache.put_all(content.events)
        self.stored = max(self.stored, batch.last)
        readers, restore = self._bus.match, self._follower.restore
        for event in content.events:
            if readers(event.topic):  # others are decoded when somebody looks at them
                restore(event)
            self._announce(event)
        for hear in self.on_facts if content.changes else ():
            hear(content.changes)
        draft = self._draft
        if draft is None:
            return
        for origin in content.origins:
            if (origin.node, origin.number) == (self.node, draft.number):
                self._take_numbers(draft, origin, content)
                draft.verdict = Verdict(origin.units, written=True), batch.number
        self._settle(draft)

    def judge(self, number: int, verdict: Verdict, until: int) -> None:
        """Take the verdict on a proposal that wrote nothing, or was refused.

        It is applied when the batch ``until`` has arrived. A verdict on an earlier proposal is
        ignored.
        """
        draft = self._draft
        if draft is not None and draft.number == number and draft.verdict is None:
            draft.verdict = verdict, until
            self._settle(draft)

    @property
    def reach(self) -> int:
        """The greatest number that a cursor of this log can have, also one of another node."""
        return max(super().reach, self._follower.reserved())

    async def until_reached(self, number: int, seconds: float = REACH_SECONDS) -> None:
        """Wait until this node has followed the log up to a cursor of another one. Raises BUSY.

        A node without connection must refuse: its records are older than the cursor.
        """
        until = self._loop.time() + seconds
        while self.reach < number:
            if self._loop.time() >= until:
                raise Error(
                    Code.BUSY,
                    f"this node has followed the log up to {self.reach}, and not yet up to the "
                    f"cursor's {number}; try again in a second, or use another node",
                    retry_after_seconds=1,
                )
            await asyncio.sleep(REACH_LOOK_SECONDS)

    @property
    def proposed(self) -> int:
        """The number of the proposal whose verdict is not known; 0 without one."""
        return 0 if self._draft is None or self._draft.verdict is not None else self._draft.number

    def give_up(self, error: Error) -> None:
        """Answer the sent writes with an error: their outcome is unknown."""
        draft = self._draft
        if draft is not None and draft.verdict is None:
            draft.verdict = Verdict(0, written=False, error=error), 0
            self._settle(draft)

    @staticmethod
    def _take_numbers(draft: Draft, origin: Origin, content: Content) -> None:
        """Set the numbers and versions that the log has for the units that were carried out."""
        versions = {event.seq: event.version for event in content.events}
        outcomes, place = iter(draft.work.outcomes), 0
        for writes, _ in draft.spans[: origin.units]:
            for write in writes:
                outcome = next(outcomes)
                if isinstance(outcome, Error):
                    tell_number(outcome, origin.first)
                elif write.logged and not outcome.late:
                    event = outcome.event
                    event.seq = origin.first + place
                    event.version = versions[event.seq]
                    outcome.existed = write.wants_existed and bool(origin.existed[place])
                    place += 1

    def _settle(self, draft: Draft) -> None:
        """Answer the units that were carried out, once they arrived; decide the rest again."""
        if draft.verdict is None or self.followed < draft.verdict[1]:
            return
        verdict, _ = draft.verdict
        self._draft = None
        work = draft.work
        if verdict.error is not None:
            work.fail(verdict.error)
            self._again = 0
            self._finish(work)
            return
        self.commits += verdict.written
        left = rest_of(draft, verdict.units)
        if left is None:
            self._again = 0
            self._finish(work)
            return
        self._again = 0 if verdict.units else draft.tries + 1
        done = first_units(draft, verdict.units)
        if self._again > TRIES_MAX:
            self._give_up_first(draft)
            return
        self._announce_and_answer(done.batch.writes, done.outcomes)
        self._complete_facts([facts_write for _, facts_write in done.batch.facts_writes])
        self._begin(GroupCommit(left, alone=work.alone))

    def _give_up_first(self, draft: Draft) -> None:
        """Refuse the first unit, and go on with the others."""
        first, left = first_units(draft, 1), rest_of(draft, 1)
        self._again = 0
        first.fail(_overtaken(first.batch.writes))
        self._announce_and_answer(first.batch.writes, first.outcomes)
        self._complete_facts([facts_write for _, facts_write in first.batch.facts_writes])
        self._begin(GroupCommit(left or Batch(), alone=draft.work.alone))

    def _announce_and_answer(
        self, writes: Sequence[Write], outcomes: Sequence[Outcome], *, stored: bool = True
    ) -> None:
        """Call each write's callback; logged events were announced when they arrived."""
        del stored  # always true here
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                if not (outcome.event.seq or outcome.late):
                    self.publish_unlogged(outcome.event)
                if outcome.late or outcome.event.expires_at:
                    self._notify_rare(outcome)
            elif outcome.code is Code.DENIED:
                self._notify_denied(write, outcome)
        self.pending.release_all(writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            write.group = None  # as ``Committer._announce_and_answer`` does
            try:
                write.done(outcome)
            except Exception:
                log.exception("a writer failed to take the outcome of %r", write.event)
        for listener in self.after_append:
            listener(outcomes)


def _nothing() -> None:
    """Do nothing."""


def _set_befores(events: list[Event], cache: RecordCache) -> bool:
    """Attach before images that are in memory; return whether all of them are.

    A reader may have put in what is newer than what was announced here, also an absence. So a
    record counts only if it is older than the event, and an absence never.
    """
    newest: dict[str, Event] = {}
    for event in events:
        before = newest.get(event.topic) or cache.whole(event.topic)
        if before is None or isinstance(before, Unknown) or before.seq >= event.seq:
            return False
        set_before_image(event, None if before.kind == DELETE else before)
        if event.kind in RETAINED:
            newest[event.topic] = event
    return True


def unreachable(why: str) -> Error:
    """Return the refusal of writes at a node that cannot reach the sequencer."""
    return Error(
        Code.BUSY,
        f"this node cannot reach the sequencer ({why}); reads go on; try again in a "
        "second, or write to another node",
        retry_after_seconds=1,
    )


def _overtaken(writes: Sequence[Write]) -> Error:
    topic = writes[0].event.topic if writes else ""
    return Error(
        Code.BUSY,
        f"other nodes have written at {topic!r} {TRIES_MAX} times while this was decided; try "
        "again in a second",
        retry_after_seconds=1,
    )
