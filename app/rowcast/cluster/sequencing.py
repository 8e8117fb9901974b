"""The committer of the sequencer: numbers its own writes and the proposals of followers.

All pending proposals become one batch of the log. Each is carried out up to the first unit that
rests on records that have changed since (``proposals.py``). The batch names the origin of what was
carried out, so that a follower finds the answer to its proposal in the log itself: the answer is as
durable as the batch. A proposal that wrote nothing, such as one whose condition is not met, is
answered by a message. Where another node may have taken over (``confirms``), its answer is logged
too: a former sequencer that does not know yet that it was replaced would judge by old records.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from rowcast.bus.bus import Bus
from rowcast.cluster.proposals import PLACEHOLDER, Proposal, Read
from rowcast.cluster.regrouping import Regrouping
from rowcast.core.callers import Caller
from rowcast.core.clock import HybridClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, RETAINED, Event
from rowcast.core.memory_limits import WRITE_BYTES
from rowcast.core.tables import Table
from rowcast.journal.applier import restorer
from rowcast.journal.journaled_store import JournaledStore
from rowcast.log.batch_content import Content, Origin, TableOf
from rowcast.reads.before_image import set_before_image
from rowcast.reads.record_cache import RecordCache, Unknown
from rowcast.store.store import Appends, Change
from rowcast.writes.batch import Batch
from rowcast.writes.commit import Committer
from rowcast.writes.group_commit import GroupCommit
from rowcast.writes.last_write_wins import GONE, is_stamped, stamp_of, tombstone
from rowcast.writes.pending_bytes import PendingBytes, WriteBounds
from rowcast.writes.write import FactsDone, Outcome, Receipt, Write, resolver

RECORD_CODES: Final = frozenset({Code.PRECONDITION, Code.NOT_FOUND, Code.CONFLICT})
"""Of refusals that depend on the current record."""


class Verdict(NamedTuple):
    """The outcome of a proposal."""

    units: int
    """How many of its units were carried out: the first ones."""
    written: bool
    """Whether they wrote something, so that a batch has the answer as an origin."""
    error: Error | None = None
    """Why the append failed; then nothing of it is written."""


Judged = Callable[[Verdict], None]


class _Case:
    """One pending proposal."""

    __slots__ = ("caller", "content", "judged", "proposal", "verdict")

    def __init__(
        self, proposal: Proposal, content: Content, caller: Caller, judged: Judged
    ) -> None:
        self.proposal = proposal
        self.content = content
        self.caller = caller
        self.judged = judged
        self.verdict = Verdict(0, written=False)


class ProposedCommit(GroupCommit):
    """Proposals between the queue and their verdicts; its ``batch`` has what was accepted."""

    __slots__ = ("_cases", "_clock", "_confirms", "_pending", "_remembers", "_tables", "origins")

    def __init__(
        self,
        cases: Sequence[_Case],
        table_of: TableOf,
        pending: PendingBytes,
        remembers: Callable[[Table | None], bool],
        *,
        confirms: bool,
    ) -> None:
        super().__init__(Batch(), alone=True)
        self._remembers = remembers
        self._confirms = confirms
        self._cases = cases
        self._tables = table_of
        self._pending = pending
        self.origins: list[Origin] = []

    def collect(self, cache: RecordCache, clock: HybridClock) -> list[tuple[Table | None, str]]:
        """Collect the read sets of the proposals; return the records that must be read."""
        self._clock = clock
        current, ask = self.current, list[tuple[Table | None, str]]()
        for case in self._cases:
            for table, topic, stamped in _looks(case, self._tables, self._remembers):
                if stamped:
                    self.late.append(topic)
                if topic in current:
                    continue
                record = cache.whole(topic)
                if isinstance(record, Unknown):
                    ask.append((table, topic))
                    record = None
                current[topic] = record
        return ask

    def decide(self, next_seq: Callable[[], int], store: Appends) -> None:
        """Carry out the units of each proposal whose read set is unchanged; encode the batch."""
        for case in self._cases:
            self._carry_out(case, next_seq)
        if self.origins:
            assert isinstance(store, JournaledStore)  # noqa: S101 - the committer's own
            self.packed = store.pack(self.events, self.changes, (), self.origins)

    def _carry_out(self, case: _Case, next_seq: Callable[[], int]) -> None:
        numbers: list[int] = []
        existed = bytearray()
        events, changes = iter(case.content.events), iter(case.content.changes)
        before, done = len(self.changes), 0
        for unit in case.proposal.units:
            if not all(self._holds(read, numbers) for read in unit.reads):
                break
            facts = list(islice(changes, unit.changes))
            for event in islice(events, unit.events):
                existed.append(self.current.get(event.topic) is not None)
                self._accept(case.caller, event, next_seq())
                numbers.append(event.seq)
                facts = _with_new_tombstone(event, facts, self)
            self.changes += facts
            done += 1
        written = self._confirms or bool(numbers) or len(self.changes) > before
        case.verdict = Verdict(done, written)
        if written:
            first = numbers[0] if numbers else 0
            proposal = case.proposal
            origin = Origin(proposal.node, proposal.number, done, first, bytes(existed))
            self.origins.append(origin)

    def _holds(self, read: Read, numbers: list[int]) -> bool:
        """Whether a read record is unchanged."""
        record, wanted = self.current.get(read.topic), read.seq
        if wanted >= PLACEHOLDER:
            place = wanted - PLACEHOLDER
            if place >= len(numbers):
                return False
            wanted = numbers[place]
        if wanted != (0 if record is None else record.seq):
            return False
        return (
            record is not None
            or read.stamp is None
            or self.current.tombstones.get(read.topic, (0, "")) == read.stamp
        )

    def _accept(self, caller: Caller, event: Event, seq: int) -> None:
        """Assign an event its number and version, and count its bytes as pending."""
        clock = self._clock
        if is_stamped(event):
            clock.observe(event.version)
        else:
            event.version = clock.after(event.version)
        event.seq = seq
        topic = event.topic
        if topic in self.current and self._remembers(event.table):
            set_before_image(event, self.current[topic])
        if event.kind in RETAINED and topic in self.current:
            self.current[topic] = None if event.kind == DELETE else event
            if event.kind == DELETE:
                self.current.tombstones[topic] = stamp_of(event, self.current.epoch)
        write = Write(event, caller, logged=True)
        write.size = len(event.payload) + WRITE_BYTES
        waiting = self._pending.get(caller.connection, 0)
        self._pending[caller.connection] = waiting + write.size
        self._pending.size += write.size
        self.events.append(event)
        self.batch.writes.append(write)
        self.outcomes.append(Receipt(event))

    def fail(self, error: Error) -> None:
        """Nothing of it is in the log."""
        super().fail(error)
        for case in self._cases:
            case.verdict = Verdict(0, written=False, error=error)

    def notify(self) -> None:
        """Tell each proposal's node."""
        for case in self._cases:
            case.judged(case.verdict)


def _looks(
    case: _Case, table_of: TableOf, remembers: Callable[[Table | None], bool]
) -> list[tuple[Table | None, str, bool]]:
    """Return table and topic of each record that a proposal needs, and if its tombstone, too."""
    looks = [
        (None if read.table is None else table_of(read.table), read.topic, read.stamp is not None)
        for unit in case.proposal.units
        for read in unit.reads
    ]
    start = 0
    for unit in case.proposal.units:
        looks += [
            (event.table, event.topic, False)
            for event in case.content.events[start : start + unit.events]
            if unit.wants_existed or remembers(event.table)
        ]
        start += unit.events
    return looks


def _with_new_tombstone(event: Event, facts: list[Change], work: ProposedCommit) -> list[Change]:
    """Replace the tombstone of a deletion by one with its new version."""
    if event.kind != DELETE:
        return facts
    kept = [item for item in facts if not (item.name == event.topic and _is_tombstone(item))]
    return [*kept, tombstone(event, work.current.epoch, work.current.now)]


def _of_a_record(outcome: Outcome) -> bool:
    """Whether an outcome is a refusal that depends on the current record."""
    return isinstance(outcome, Error) and outcome.code in RECORD_CODES


def _is_tombstone(change: Change) -> bool:
    return change.owner.startswith(GONE) and change.value is not None


class SequencingCommitter(Committer):
    """The only writer of a log that several nodes share."""

    def __init__(
        self,
        store: JournaledStore,
        bus: Bus,
        cache: RecordCache,
        clock: HybridClock,
        executor: Executor,
        bounds: WriteBounds | None = None,
        *,
        tables: Sequence[Table],
        confirms: bool = False,
    ) -> None:
        super().__init__(store, bus, cache, clock, executor, bounds)
        self._table_of: TableOf = {table.name: table for table in tables}.get
        self._restore = restorer(tables)
        self._confirms = confirms
        """Whether proposals that wrote nothing are logged: another node may have taken over."""
        self._cases: list[_Case] = []
        self._proposed = False
        """Whether the last batch was one of proposals: then the own queue is next."""
        self._regrouping = Regrouping(self._loop, self._bounds.shared_events, self._schedule)
        self._asked = set[FactsDone]()
        """Callbacks for which the log must confirm first that this node is still the sequencer."""

    @property
    def reach(self) -> int:
        """The greatest number that a cursor of this log can have.

        Another process may have a batch, and its client come here, before it is announced here.
        """
        return max(super().reach, self._store.head())

    async def until_reached(self, number: int) -> None:
        """Have the log confirm, for a cursor beyond its end, that this node is still the sequencer.

        A former sequencer may not know that it was replaced; a reset would take readers of the new
        one back. Raises BUSY.
        """
        if not self._confirms or number <= self.reach:
            return
        future: asyncio.Future[Error | None] = self._loop.create_future()
        asked = resolver(future)
        self._asked.add(asked)
        try:
            self.keep((), asked)
            error = await future
        finally:
            self._asked.discard(asked)
        if error is not None:
            raise error

    def judge(self, proposal: Proposal, caller: Caller, judged: Judged) -> None:
        """Take a proposal; ``judged`` is called on the loop, once its batch is announced here.

        ``caller`` represents its node. Raises INVALID when it cannot be decoded.
        """
        content = proposal.content(self._table_of)
        for event in content.events:  # as its node had decoded it, for deciders here
            self._restore(event)
        self._cases.append(_Case(proposal, content, caller, judged))
        self._schedule()

    def _start(self) -> None:
        """Take the next batch: of proposals, or of the own queue, alternately."""
        if not self._busy and self._regrouping.waits(self._queued()):
            self._scheduled = False
            return
        queued = bool(self._waiting or self._parts)
        if self._busy or not self._cases or (self._proposed and queued):
            self._proposed = self._proposed and self._busy  # busy: nothing is taken now
            super()._start()
            return
        self._scheduled, self._busy, self._proposed = False, True, True
        self._begun = self._loop.time()
        cases, self._cases = self._cases, []
        self._overtaken = self._overtaken or bool(self._waiting)
        parts = cases, self._table_of, self.pending, self.remembers
        self._begin(ProposedCommit(*parts, confirms=self._confirms))

    def _go_ahead(self) -> None:
        """Announce messages while others are appended, unless proposals wait."""
        if not self._cases:
            super()._go_ahead()

    def _finish(self, work: GroupCommit) -> None:
        """Announce and answer; then tell the nodes of proposals.

        Before a batch that wrote nothing is answered with refusals that depend on records, or to
        who asked for it, an empty append confirms that this node is still the sequencer; else its
        records may be outdated.
        """
        if self._confirms and work.packed is None and self._needs_log(work):
            work.packed = self._store.pack(())
            self._run(work, partial(self._append, work), self._written)
            return
        if self._confirms and work.packed is not None and not (work.announced or self._parts):
            seconds = self._loop.time() - self._begun
            self._regrouping.answered(len(work.batch.writes), self._queued(), seconds)
        super()._finish(work)
        if isinstance(work, ProposedCommit):
            for listener in self.on_facts if work.changes and work.packed is not None else ():
                listener(work.changes)
            work.notify()
        if self._cases:
            self._schedule()

    def _queued(self) -> int:
        """Return how many writes could be in the next batches."""
        return self.backlog + sum([len(case.content.events) for case in self._cases])

    def _needs_log(self, work: GroupCommit) -> bool:
        asked = self._asked and any(
            facts_write.done in self._asked for _, facts_write in work.batch.facts_writes
        )
        return bool(asked) or any(map(_of_a_record, work.outcomes))
