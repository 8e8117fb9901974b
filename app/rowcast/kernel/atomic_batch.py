"""Atomic batches (B11): all writes of a batch, or none.

Each write is checked as far as possible before the first is submitted; conditions on records are
checked with the current records, for the group. It knows no protocol and no store.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error, stopping
from rowcast.core.events import Event
from rowcast.kernel.loop_turns import in_turns
from rowcast.kernel.write import Condition, Decider, Done, Group, Outcome, Receipt, Write, resolver

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
    name, all_of = uuid4().hex[:12], Counter(tables)
    so_far: Counter[str] = Counter()
    for event, table in zip(events, tables, strict=True):
        so_far[table] += 1
        place = f"{name}/{so_far[table]}/{all_of[table]}/{len(events)}"
        event.properties = {**(event.properties or {}), PLACE: place}


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
    ) -> list[Outcome]:
        """Write all or none; raises the Error of a write refused before the commit.

        ``check`` is called for each with its current record, before the other checks.
        ``conditions`` are those of the events, in their order.
        """
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Outcome]] = [loop.create_future() for _ in events]
        guard = _Guard(check, conditions or [None] * len(events))
        dones = self._hear(events, caller, futures)
        if dones is None:  # a repeat
            return list(await asyncio.gather(*futures))
        try:
            await self._carry_out(events, caller, dones, guard)
        except Error as error:
            for done in dones:
                done(error)
            raise
        return list(await asyncio.gather(*futures))

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

    def _hear(
        self,
        events: Sequence[Event],
        caller: Caller,
        futures: "Sequence[asyncio.Future[Outcome]]",
    ) -> list[Done] | None:
        """Return the callback of each write; None if all are repeats (M8).

        The first steps detect repeats by properties; if all writes with such properties are
        repeats, so are the others. Then the futures get the receipts. Raises the Error of a refused
        write, and CONFLICT when only some are repeats.
        """
        dones: list[Done] = [resolver(future) for future in futures]
        heard = {
            index: self._ask_first(event, caller, dones[index])
            for index, event in enumerate(events)
            if event.properties is not None and self._kernel.steps.first(event.properties)
        }
        fresh = {index: done for index, done in heard.items() if done is not None}
        _check_whole(heard, fresh, futures)
        if heard and not fresh:
            for index, event in enumerate(events):
                if index not in heard:
                    futures[index].set_result(Receipt(event, existed=True, repeat=True))
            return None
        return [fresh.get(index, done) for index, done in enumerate(dones)]

    def _ask_first(self, event: Event, caller: Caller, done: Done) -> Done | None:
        """Return the callback of a write; None if a step answers it."""
        write = Write(event, caller, done, part_of=BATCH, asks=True)
        try:
            taken = any(step(write) for step in self._kernel.steps.first(event.properties or {}))
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
        kernel = self._kernel
        policy = kernel.rights.policy
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
        group = Group(writes)
        for write in writes:
            write.group = group
        if writes:
            kernel.writes.append(writes)

    async def _admit(
        self,
        events: Sequence[Event | None],
        caller: Caller,
        dones: Sequence[Done],
        guard: "_Guard",
    ) -> list[Write]:
        """Return the admitted writes."""
        kernel, writes = self._kernel, list[Write]()
        async for some in in_turns(list(zip(events, dones, guard.conditions, strict=True))):
            for event, done, condition in some:
                if event is None:
                    continue
                told = kernel.gate.telling(caller, done)
                write = Write(event, caller, told, condition, passed=True, part_of=BATCH, asks=True)
                writes.append(write)
                kernel.writes.admit(write)
                if guard.check is not None:
                    write.check_first(guard.check)
        return writes


def _check_whole(
    heard: Mapping[int, Done | None],
    fresh: Mapping[int, Done],
    futures: "Sequence[asyncio.Future[Outcome]]",
) -> None:
    """Raise the Error of a refused write, or CONFLICT when only some are repeats."""
    refused = [futures[index].result() for index in heard if futures[index].done()]
    error = next((item for item in refused if isinstance(item, Error)), None)
    if error is None and 0 < len(fresh) < len(heard):
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
