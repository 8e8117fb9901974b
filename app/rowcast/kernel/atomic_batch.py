"""Writes that stand or fall together (B11): all of a batch, or none.

Everything that can be refused before the commit is, for each of them, before the first is
submitted; what depends on the records is decided by the writer thread, for the group. It knows no
protocol and no store.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.tables import Table
from rowcast.features.hooks.hook_pipeline import HookPipeline
from rowcast.kernel.write import Done, Group, Outcome, Receipt, Write, resolver

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


BATCH: Final = "an atomic batch; write it alone"
"""What such a write is a part of, in the words that refuse one which cannot be."""
PLACE: Final = "batch"
"""The property of an event of a batch: the batch's name, the event's number among those of its
table, how many these are, and how many all are."""


def _place(events: Sequence[Event]) -> None:
    """Note in each event of a batch where it stands, for those who tell of batches (H28)."""
    if len(events) < 2:
        return
    name, all_of = uuid4().hex[:12], Counter(event.table for event in events)
    so_far: Counter[Table | None] = Counter()
    for event in events:
        so_far[event.table] += 1
        place = f"{name}/{so_far[event.table]}/{all_of[event.table]}/{len(events)}"
        event.properties = {**(event.properties or {}), PLACE: place}


def place_of(event: Event) -> tuple[str, int, int, int]:
    """Return where an event stands in its batch; alone: no name, and one of one."""
    text = (event.properties or {}).get(PLACE)
    name, _, numbers = str(text or "/1/1/1").partition("/")
    number, count, span = map(int, numbers.split("/"))
    return name, number, count, span


class AtomicBatch:
    """The atomic batches of one kernel."""

    def __init__(self, kernel: "Kernel", pipeline: HookPipeline) -> None:
        self._kernel = kernel
        self._hook_pipeline = pipeline

    async def write(self, events: Sequence[Event], caller: Caller) -> list[Outcome]:
        """Write all or none; raises what refuses one of them before the commit."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Outcome]] = [loop.create_future() for _ in events]
        dones = self._hear(events, caller, futures)
        if dones is None:  # it came before
            return list(await asyncio.gather(*futures))
        try:
            await self._carry_out(events, caller, dones)
        except Error as error:
            for done in dones:
                done(error)
            raise
        return list(await asyncio.gather(*futures))

    async def _carry_out(
        self, events: Sequence[Event], caller: Caller, dones: Sequence[Done]
    ) -> None:
        if self._kernel.hooks.writing and caller.door != "server":

            def go_on(became: Sequence[Event | None]) -> None:
                for event, left, done in zip(events, became, dones, strict=True):
                    if left is None:
                        done(Receipt(event))
                self._submit(became, caller, dones)

            await self._hook_pipeline.together(events, caller, go_on)
        else:
            self._submit(events, caller, dones)

    def _hear(
        self,
        events: Sequence[Event],
        caller: Caller,
        futures: "Sequence[asyncio.Future[Outcome]]",
    ) -> list[Done] | None:
        """Return what is to hear of each write; None if all came before (M8).

        The steps that come first tell of those whose properties they know; where all of these came
        before, so did the others. Then the futures have the receipts, or will. Raises what refuses
        one, and CONFLICT when only some came before: they were not written all or none.
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
        """Return what is to hear of a write; None if it was answered, or will be."""
        write = Write(event, caller, done, part_of=BATCH)
        try:
            taken = any(step(write) for step in self._kernel.steps.first(event.properties or {}))
        except Error as error:
            write.done(error)
            return None
        return None if taken else write.done

    def _submit(
        self, events: Sequence[Event | None], caller: Caller, dones: Sequence[Done]
    ) -> None:
        """Submit a group; None is a write that a hook has dropped."""
        writes = [
            Write(
                event, caller, self._hook_pipeline.telling(caller, done), passed=True, part_of=BATCH
            )
            for event, done in zip(events, dones, strict=True)
            if event is not None
        ]
        for write in writes:
            self._kernel.writes.admit(write)
        _place([write.event for write in writes])
        group = Group(writes)
        for write in writes:
            write.group = group
        if writes:
            self._kernel.writes.append(writes)


def _check_whole(
    heard: Mapping[int, Done | None],
    fresh: Mapping[int, Done],
    futures: "Sequence[asyncio.Future[Outcome]]",
) -> None:
    """Raise what refused one of the writes that were heard, or that only some came before."""
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
