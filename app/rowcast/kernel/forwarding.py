"""The committer of a node that follows: what it decides, the sequencer numbers and appends.

A batch of its queue is decided here, on the newest records that are here, and sent as one proposal
(``proposals.py``); the next batch collects meanwhile. Its writers are answered when the node itself
has followed the log so far, so that a read here after the answer shows the write. What rested on
records that are others by now is decided again, before everything that waits.

Events are announced when they come with the log, those of other nodes and its own, in order.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count
from typing import Final

from rowcast.bus.bus import Bus
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.journal.follower_store import FollowerStore
from rowcast.kernel.batch import Batch, units
from rowcast.kernel.bytes_in_hand import WriteBounds
from rowcast.kernel.commit import Committer
from rowcast.kernel.decide import decide_all
from rowcast.kernel.group_commit import GroupCommit
from rowcast.kernel.proposals import PLACE, Proposal, Read, Sequencer, Unit
from rowcast.kernel.sequencing import Verdict
from rowcast.kernel.write import FactsWrite, Outcome, Receipt, Write
from rowcast.log.batch import Batch as LogBatch
from rowcast.log.batch_content import Content, Origin
from rowcast.reads.record_cache import RecordCache

log = logging.getLogger("rowcast.commit")

TRIES_MAX: Final = 50
"""How often the first write of a batch is decided on a record that is another one by then. Each
time another node has written at its topic, so the log goes on; a writer that is still late after
fifty is told, instead of holding up the others of its node."""

NUMBERED_ELSEWHERE: Final = (
    "this process does not number writes, so it cannot remember them by an idempotency key, a "
    "producer's mark or a result; leave that out, or run one process"
)


class _Draft:
    """A batch, decided here, with what it needs to be a proposal."""

    __slots__ = ("events", "number", "spans", "tries", "units", "verdict", "work")

    def __init__(self, work: GroupCommit, tries: int) -> None:
        self.work = work
        self.tries = tries
        self.number = 0
        self.units: list[Unit] = []
        self.events: list[Event] = []
        self.spans: list[tuple[list[Write], FactsWrite | None]] = []
        """The writes, or the facts, of each unit."""
        self.verdict: tuple[Verdict, int] | None = None
        """What became of it, and the batch up to which it has to be followed first."""


class ForwardingCommitter(Committer):
    """The queue of a node that follows."""

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
        """This life of this node: no other has its name."""
        self.sequencer: Sequencer | None = None
        self._follower = store
        self._proposals = count(1)
        self._draft: _Draft | None = None
        self._again = 0
        """How often the batch at hand was decided in vain."""

    def submit(self, writes: Sequence[Write], most: int = 0) -> None:
        """Queue writes. Raises BUSY when too many wait, INVALID for those that need their number.

        What is remembered with its number, such as the answer to an idempotency key, is made where
        the number is given; that is not this node.
        """
        for write in writes:
            group = write.group
            if write.conclude is not None or (group is not None and group.conclude is not None):
                raise Error(Code.INVALID, NUMBERED_ELSEWHERE)
        super().submit(writes, most)

    # -- decided here ------------------------------------------------------------------------------

    def _write(self, work: GroupCommit) -> None:
        """Decide a batch, and send it."""
        draft = _Draft(work, self._again)
        if work.apart or len(work.batch.writes) > self._bounds.loop_writes:
            self._run(work, partial(self._decide, draft), lambda _: self._send(draft))
            return
        try:
            self._decide(draft)
        except Exception as error:  # noqa: BLE001 - each write is tried alone
            self._failed(work, error)
            return
        self._send(draft)

    def _decide(self, draft: _Draft) -> None:
        """Decide unit by unit, and note what each rests on."""
        work, events, places = draft.work, draft.events, count(PLACE)
        for writes, keeping in work.batch.stretches():
            for unit in units(writes):
                reads, known = _reads(unit, work), len(events)
                facts = len(work.changes)
                next_place = places.__next__
                outcomes = decide_all(unit, work.current, events, work.changes, next_place)
                work.outcomes += outcomes
                asks = any(write.asks for write in unit)
                draft.units.append(
                    Unit(reads, len(events) - known, len(work.changes) - facts, asks)
                )
                draft.spans.append((unit, None))
            if keeping is not None:
                work.changes += keeping.changes
                draft.units.append(Unit(changes=len(keeping.changes)))
                draft.spans.append(([], keeping))
        if events or work.changes:
            self._store.pack(events, work.changes)  # refuses what no log can have

    def _send(self, draft: _Draft) -> None:
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
        """Take the next batch of the log: announce its events, and answer who waits for it.

        Raises CONFLICT when it is not the next one.
        """
        content = self._follower.take(batch)
        put, announce = self._cache.put, self._announce
        for event in content.events:
            self._clock.observe(event.version)
            if event.kind in RETAINED:
                put(event.topic, None if event.kind == DELETE else event)
        self.stored = max(self.stored, batch.last)
        for event in content.events:
            announce(event)
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

        It is that of the log up to a batch, which is followed first. One on an earlier proposal
        is ignored.
        """
        draft = self._draft
        if draft is not None and draft.number == number and draft.verdict is None:
            draft.verdict = verdict, until
            self._settle(draft)

    @property
    def reach(self) -> int:
        """The greatest number that a cursor of this log can have: one of another node, too."""
        return max(super().reach, self._follower.reserved())

    @property
    def proposed(self) -> int:
        """The number of the proposal whose verdict is not known; 0 without one."""
        return 0 if self._draft is None or self._draft.verdict is not None else self._draft.number

    def give_up(self, error: Error) -> None:
        """Refuse what was sent, because it is not known in time what became of it."""
        draft = self._draft
        if draft is not None and draft.verdict is None:
            draft.verdict = Verdict(0, written=False, error=error), 0
            self._settle(draft)

    @staticmethod
    def _take_numbers(draft: _Draft, origin: Origin, content: Content) -> None:
        """Give the events of the units that were carried out what the log has of them."""
        versions = {event.seq: event.version for event in content.events}
        outcomes, place = iter(draft.work.outcomes), 0
        for writes, _ in draft.spans[: origin.units]:
            for write in writes:
                outcome = next(outcomes)
                if isinstance(outcome, Error):
                    _tell_number(outcome, origin.first)
                elif write.logged and not outcome.late:
                    event = outcome.event
                    event.seq = origin.first + place
                    event.version = versions[event.seq]
                    outcome.existed = write.asks and bool(origin.existed[place])
                    place += 1

    def _settle(self, draft: _Draft) -> None:
        """Answer what was carried out, once it was followed; decide the rest again."""
        if draft.verdict is None or self._follower.number < draft.verdict[1]:
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
        left = _rest(draft, verdict.units)
        if left is None:
            self._again = 0
            self._finish(work)
            return
        self._again = 0 if verdict.units else draft.tries + 1
        done = _first(draft, verdict.units)
        if self._again > TRIES_MAX:
            self._give_up_first(draft)
            return
        self._answer(done.batch.writes, done.outcomes)
        self._tell([keeping for _, keeping in done.batch.keeps])
        self._begin(GroupCommit(left, alone=work.alone))

    def _give_up_first(self, draft: _Draft) -> None:
        """Refuse the first unit, and go on with the others."""
        first, left = _first(draft, 1), _rest(draft, 1)
        self._again = 0
        first.fail(_overtaken(first.batch.writes))
        self._answer(first.batch.writes, first.outcomes)
        self._tell([keeping for _, keeping in first.batch.keeps])
        self._begin(GroupCommit(left or Batch(), alone=draft.work.alone))

    def _answer(
        self, writes: Sequence[Write], outcomes: Sequence[Outcome], *, stored: bool = True
    ) -> None:
        """Call each write's callback; what the log has was announced when it was followed."""
        del stored  # whatever is answered here is
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                if not (outcome.event.seq or outcome.late):
                    self.publish_unlogged(outcome.event)
            elif outcome.code is Code.DENIED:
                for hear in self.on_denied:
                    hear(write.caller, "write", write.event.topic, outcome)
        self.pending.release_all(writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            try:
                write.done(outcome)
            except Exception:
                log.exception("a writer failed to take the outcome of %r", write.event)
        for listener in self.after_append:
            listener(outcomes)


def _reads(unit: list[Write], work: GroupCommit) -> list[Read]:
    """Return the records that the decision of a unit rests on, before it is made."""
    current, reads = work.current, dict[str, Read]()
    for write in unit:
        event = write.event
        if not write.depends or event.topic in reads or event.topic not in current:
            continue
        record = current[event.topic]
        stamp = current.gone.get(event.topic, (0, "")) if write.versioned else None
        table = None if event.table is None else event.table.name
        seq = 0 if record is None else record.seq
        reads[event.topic] = Read(table, event.topic, seq, stamp)
    return list(reads.values())


def _first(draft: _Draft, until: int) -> GroupCommit:
    """Return the first units of a draft as a batch with its outcomes."""
    spans = draft.spans[:until]
    work = GroupCommit(_batch_of(spans))
    work.outcomes = draft.work.outcomes[: len(work.batch.writes)]
    return work


def _rest(draft: _Draft, until: int) -> Batch | None:
    """Return the units of a draft after the first ones; None without any."""
    spans = draft.spans[until:]
    return _batch_of(spans) if spans else None


def _batch_of(spans: Sequence[tuple[list[Write], FactsWrite | None]]) -> Batch:
    batch = Batch()
    for writes, keeping in spans:
        batch.writes += writes
        if keeping is not None:
            batch.keeps.append((len(batch.writes), keeping))
    batch.size = sum(write.size for write in batch.writes)
    return batch


def _tell_number(error: Error, first: int) -> None:
    """Put the number of a record of the same proposal in place of its place."""
    seq = error.detail.get("seq")
    if isinstance(seq, int) and seq >= PLACE:
        error.detail["seq"] = first + seq - PLACE


def unreachable(why: str) -> Error:
    """Return the refusal of writes at a node that cannot reach the sequencer."""
    return Error(
        Code.BUSY,
        f"this node cannot reach the one that numbers writes ({why}); reads go on; try again in a "
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
