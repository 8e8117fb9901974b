"""Atomic batches (B11): all writes of a batch, or none.

Each write is checked as far as possible before the first is submitted; conditions on records are
checked with the current records, for the group. It knows no protocol and no store.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import Event
from rowcast.core.facts import Change
from rowcast.core.limits import BULK_WRITES_MIN
from rowcast.reads.loop_turns import in_turns
from rowcast.writes.write import Condition, Decider, Done, Group, Outcome, Receipt, Write, resolve

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


BATCH: Final = "an atomic batch; write it alone"
"""The description of a batch, for the error of a write that cannot be part of one."""
PLACE: Final = "batch"
"""The property of a batch's event: the batch's name, the event's number within its table, the
number of the table's events, and the number of all events."""


def _place(events: Sequence[Event]) -> None:
    """Set the place of each event of a batch, for bridges that forward batches (H28)."""
    if len(events) < 2:
        return
    # By name: the hash of a table is that of all its attributes.
    tables = [event.table.name if event.table else "" for event in events]
    name, so_far = uuid4().hex[:12], dict.fromkeys(tables, 0)
    ends = {table: f"/{tables.count(table)}/{len(events)}" for table in so_far}
    for event, table in zip(events, tables, strict=True):
        so_far[table] += 1
        place = f"{name}/{so_far[table]}{ends[table]}"
        if event.properties is None:
            event.properties = {PLACE: place}
        else:
            event.properties = {**event.properties, PLACE: place}


def place_of(event: Event) -> tuple[str, int, int, int]:
    """Return an event's place in its batch; without a batch: no name, and one of one."""
    text = (event.properties or {}).get(PLACE)
    name, _, numbers = str(text or "/1/1/1").partition("/")
    number, count, span = map(int, numbers.split("/"))
    return name, number, count, span


@dataclass(frozen=True, slots=True)
class _Guard:
    """What the writes of a batch must meet: a check of all, and a condition of each."""

    check: Decider | None
    conditions: Sequence[Condition | None]
    wants_existed: bool
    """Whether their receipts tell if there was a record."""
    changes: Sequence[Change] = ()
    """Of facts, in their transaction."""

    def write(self, event: Event, caller: Caller, done: Done, condition: Condition | None) -> Write:
        """Return a write of the batch, whose hooks have run."""
        existed = self.wants_existed
        return Write(
            event, caller, done, condition, passed=True, part_of=BATCH, wants_existed=existed
        )


class _Outcomes:
    """What became of the writes of a batch: one future for all, which has them in their order."""

    def __init__(self, count: int) -> None:
        self.of: list[Outcome | None] = [None] * count
        self._missing = count
        self.all: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

    def take(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of one write; the first that it has counts."""
        if self.of[index] is not None:
            return
        self.of[index] = outcome
        self._missing -= 1
        if not self._missing:
            resolve(self.all, [one for one in self.of if one is not None])


class AtomicBatch:
    """The atomic batches of one kernel."""

    def __init__(self, kernel: "Kernel") -> None:
        self._kernel = kernel

    async def write(
        self,
        events: Sequence[Event],
        caller: Caller,
        check: Decider | None = None,
        conditions: Sequence[Condition | None] = (),
        *,
        wants_existed: bool = True,
        changes: Sequence[Change] = (),
    ) -> list[Outcome]:
        """Write all or none; raises the Error of a write refused before the commit.

        Its detail ``index`` is the number of that write, where none has a ``check``.
        ``check`` is called for each with its current record, before the other checks.
        ``conditions`` are in the events' order. ``wants_existed``: receipts tell if there was a
        record. ``changes`` of facts are in their transaction.
        """
        if not events:
            return []
        outcomes = _Outcomes(len(events))
        guard = _Guard(check, conditions or [None] * len(events), wants_existed, changes)
        dones = self._callbacks(events, caller, outcomes)
        if dones is None:  # a repeat
            return await outcomes.all
        try:
            await self._carry_out(events, caller, dones, guard)
        except Error as error:
            if check is not None:
                error.detail.pop("index", None)  # that of a hook
            for done in dones:
                done(error)
            # What it passed names the writes, and the outcomes name it: a circle, as in _submit.
            raise error.with_traceback(None) from error.__cause__
        return await outcomes.all

    async def _carry_out(
        self,
        events: Sequence[Event],
        caller: Caller,
        dones: Sequence[Done],
        guard: "_Guard",
    ) -> None:
        async def go_on(became: Sequence[Event | None]) -> None:
            for event, left, done in zip(events, became, dones, strict=True):
                if left is None:
                    done(Receipt(event))
            await self._kernel.writes.earlier_admitted(caller)
            await self._submit(became, caller, dones, guard)

        await self._kernel.gate.together(events, caller, go_on)

    def _callbacks(
        self,
        events: Sequence[Event],
        caller: Caller,
        outcomes: "_Outcomes",
    ) -> list[Done] | None:
        """Return the callback of each write; None if all are repeats (M8).

        The first steps detect repeats by properties; if all writes with such properties are
        repeats, so are the others. Then ``outcomes`` has the receipts. Raises the Error of a
        refused write, and CONFLICT when only some are repeats.
        """
        dones: list[Done] = [partial(outcomes.take, index) for index in range(len(events))]
        marked = {
            index: self._ask_first(event, caller, dones[index])
            for index, event in enumerate(events)
            if event.properties is not None and self._kernel.steps.before_route(event.properties)
        }
        fresh = {index: done for index, done in marked.items() if done is not None}
        _check_whole(marked, fresh, outcomes)
        if marked and not fresh:
            for index, event in enumerate(events):
                if index not in marked:
                    outcomes.take(index, Receipt(event, existed=True, repeat=True))
            return None
        return [fresh.get(index, done) for index, done in enumerate(dones)]

    def _ask_first(self, event: Event, caller: Caller, done: Done) -> Done | None:
        """Return the callback of a write; None if a step answers it."""
        write = Write(event, caller, done, part_of=BATCH, wants_existed=True)
        try:
            taken = any(
                step(write) for step in self._kernel.steps.before_route(event.properties or {})
            )
        except Error as error:
            write.done(error)
            return None
        return None if taken else write.done

    async def _submit(
        self,
        events: Sequence[Event | None],
        caller: Caller,
        dones: Sequence[Done],
        guard: "_Guard",
    ) -> None:
        """Submit a group; None stands for a write that a hook dropped.

        Admission is most of the work, so it runs in several turns of the loop, and nothing is
        queued before all is admitted. Raises BUSY if the rules changed meanwhile.
        """
        kernel, policy = self._kernel, self._kernel.rights.policy
        try:
            writes = await self._admit(events, caller, dones, guard)
        except asyncio.CancelledError:
            for done in dones:
                done(stopping())
            raise
        if kernel.rights.policy is not policy:
            words = "rules changed while the batch was checked; nothing was written, send it again"
            raise Error(Code.BUSY, words, retry_after_seconds=1)
        _place([write.event for write in writes])
        group = _grouped(writes, guard.changes)
        if not writes:  # all were dropped
            kernel.committer.keep(guard.changes)
            return
        try:
            kernel.writes.commit_or_announce(writes)
        except Error:
            group.writes = []  # it and they name each other, and nobody answers them
            raise

    async def _admit(
        self,
        events: Sequence[Event | None],
        caller: Caller,
        dones: Sequence[Done],
        guard: "_Guard",
    ) -> list[Write]:
        """Return the admitted writes; raises the Error of the first that is not, with its index."""
        kernel, writes, many = self._kernel, list[Write](), len(events) >= BULK_WRITES_MIN
        items = zip(range(len(events)), events, dones, guard.conditions, strict=True)
        async for some in in_turns(list(items)):
            for index, event, done, condition in some:
                if event is None:
                    continue
                write = guard.write(event, caller, kernel.gate.notifying(caller, done), condition)
                writes.append(write)
                if guard.check is not None:
                    kernel.writes.admit(write, many=many)
                    write.check_first(guard.check)
                    continue
                try:
                    kernel.writes.admit(write, many=many)
                except Error as error:
                    error.detail = {**error.detail, "index": index}
                    raise
        return writes


def _grouped(writes: list[Write], changes: Sequence[Change]) -> Group:
    """Return the group of these writes, which has changes of facts, too."""
    group = Group(writes)
    for write in writes:
        write.group = group
    for write in writes[:1]:
        write.changes = changes
    return group


def _check_whole(
    marked: Mapping[int, Done | None],
    fresh: Mapping[int, Done],
    outcomes: _Outcomes,
) -> None:
    """Raise the Error of a refused write, or CONFLICT when only some are repeats."""
    error = next((one for index in marked if isinstance(one := outcomes.of[index], Error)), None)
    if error is None and 0 < len(fresh) < len(marked):
        error = _partly_known()
    if error is not None:
        for done in fresh.values():
            done(error)
        raise error


def _partly_known() -> Error:
    return Error(
        Code.CONFLICT,
        "some of these writes came before and some did not, so they cannot be all or none; take "
        "new numbers",
    )
