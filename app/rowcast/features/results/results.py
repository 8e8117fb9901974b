"""Results of jobs, committed as one transaction: subscribers see either the old or the new one.

A result is uploaded in parts (``stage``), whose rows are checked like any write, and then
committed: every row becomes the record of its key; unchanged rows append no event. A replacing
result deletes the job's earlier rows that it does not contain. A repeat (the same job and cut) has
no effect and gets the same receipt.

It knows neither protocols nor Spark.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.lineage import client_of
from rowcast.core.result_limits import RESULT_NAME_CHARS_MAX, RESULT_ROWS_MAX, RESULT_SLICE_ROWS
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.values import id_text
from rowcast.features.results.memory import Memory, ResultReceipt, owner_of
from rowcast.features.results.staged_rows import BOUNDS, AllStagedRows, StagedRows, UploadBounds
from rowcast.kernel.unchanged import Unchanged
from rowcast.kernel.write import UNHEARD, Done, Group, Outcome, Receipt, Write, resolver
from rowcast.store.store import Change

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

RESULT: Final = "a result"
"""The description of a result, for the error of a row that cannot be part of one."""

Facts = Callable[[str], Awaitable[Iterable[tuple[str, str, bytes]]]]
"""Returns the facts of owners with a prefix."""


@dataclass(frozen=True, slots=True)
class Order:
    """A commit request."""

    upload: str
    table: str
    job: str
    cut: str
    parts: tuple[str, ...]
    rows: int
    replace: bool
    again: bool


class BulkCommit:
    """The results of one kernel."""

    def __init__(
        self, kernel: "Kernel", facts: Facts, now: WallClock, bounds: UploadBounds = BOUNDS
    ) -> None:
        self._kernel = kernel
        self._facts = facts
        self.uploads = AllStagedRows(now, bounds)
        self._committing: set[str] = set()
        """Owners of jobs with a running commit; one at a time each."""

    # -- staging ---------------------------------------------------------------------------------

    async def stage(
        self, name: str, part: str, table: str, rows: Sequence[object], caller: Caller
    ) -> None:
        """Add or replace a part of a result. Raises for an invalid row."""
        shape = self._kernel.registry.shapes.get(table)
        if shape is None or shape.table.path is None:
            shapes = self._kernel.registry.shapes.values()
            known = [item.table.name for item in shapes if item.table.path is not None]
            raise Error(
                Code.NOT_FOUND,
                f"there is no exported table {table!r} to write to{did_you_mean(table, known)}",
            )
        upload = self.uploads.opened(name, caller.user, table, self._kernel.rights.policy)
        upload.drop(part)
        for start in range(0, len(rows), RESULT_SLICE_ROWS):
            some = rows[start : start + RESULT_SLICE_ROWS]
            events = [_event(shape.table, row, start + at) for at, row in enumerate(some)]
            for write in await self._admitted(events, caller, start):
                upload.add(part, write)
            self.uploads.check(upload, part)
            await asyncio.sleep(0)  # yield to the loop
        upload.parts.setdefault(part, [])
        self.uploads.check(upload, part)  # an empty part counts as a part, too

    async def _admitted(self, events: Sequence[Event], caller: Caller, start: int) -> list[Write]:
        """Return the writes of rows, after hooks."""
        became: list[Event | None] = list(events)
        await self._kernel.gate.together(events, caller, _into(became))
        writes: list[Write] = []
        for at, event in enumerate(became):
            if event is None:
                continue
            try:
                writes.append(self._admit(event, caller))
            except Error as error:
                words = f"row {start + at} ({event.topic}): {error.message}"
                raise Error(error.code, words, **error.detail) from error
        return writes

    def _admit(self, event: Event, caller: Caller) -> Write:
        done = self._kernel.gate.telling(caller, UNHEARD)
        write = Write(event, caller, done, passed=True, part_of=RESULT)
        self._kernel.writes.admit(write)
        return write

    # -- committing ------------------------------------------------------------------------------

    async def commit(self, order: Order, caller: Caller) -> ResultReceipt:
        """Commit an uploaded result; returns when it is durable and announced."""
        _check_name(order.job)
        owner = owner_of(caller, order.job)
        if owner in self._committing:
            raise Error(
                Code.BUSY,
                f"a result of the job {order.job} is being committed; try again in a moment",
                retry_after_seconds=1,
            )
        self._committing.add(owner)
        try:
            receipt = await self._commit(order, owner, caller)
        except Error as error:
            if error.code is not Code.BUSY:  # then it may be committed later, unchanged
                self.uploads.close(order.upload)
            raise
        finally:
            self._committing.discard(owner)
        self.uploads.close(order.upload)
        return receipt

    async def _commit(self, order: Order, owner: str, caller: Caller) -> ResultReceipt:
        memory = Memory.of(owner, await self._facts(owner))
        if not order.again and (known := memory.repeated(order.cut, order.upload)) is not None:
            return known
        writes = self._chosen(order, caller)
        topics = _topics(writes)
        client = client_of(order.job, order.cut)
        leave = Unchanged(order.job)
        for write in writes:
            write.event.client = client
            leave.decide_on(write)
            self._kernel.rights.check_write(write.event.topic, caller, PUT)
        gone = sorted(memory.topics - topics) if order.replace else []
        for topic in gone:
            event = Event(topic, DELETE, b"", None, 1, True, client=client)
            removal = self._admit(event, caller)
            leave.decide_on(removal)
            writes.append(removal)
        future: asyncio.Future[ResultReceipt | Error] = asyncio.get_running_loop().create_future()
        commit = _Commit(order, memory, topics, self._kernel.cursor, resolver(future))
        if not writes:
            receipt, changes = commit.concluded([])
            self._kernel.committer.keep(changes, lambda error: commit.tell(error or receipt))
        else:
            commit.bind(writes)
            self._kernel.writes.append(writes, RESULT_ROWS_MAX * 3)
        outcome = await future
        if isinstance(outcome, Error):
            raise outcome
        return outcome

    def _chosen(self, order: Order, caller: Caller) -> list[Write]:
        """Return the writes of the parts in a request."""
        if not order.rows and not order.parts:
            return []
        upload: StagedRows = self.uploads.find(order.upload, caller.user)
        if upload.policy is not self._kernel.rights.policy:
            raise Error(Code.CONFLICT, "the rules of who may write have changed; bring it again")
        missing = [part for part in order.parts if part not in upload.parts]
        writes = [write for part in order.parts for write in upload.parts.get(part, ())]
        if missing or upload.table != order.table or len(writes) > order.rows:
            raise Error(
                Code.CONFLICT,
                f"the upload {order.upload} is not what is to be committed: it has {upload.rows} "
                f"rows for {upload.table}, and lacks {', '.join(missing[:5]) or 'no part'}",
            )
        return writes


class _Commit:
    """One pending commit: gets its outcome from the committer, and resolves its waiter."""

    def __init__(
        self,
        order: Order,
        memory: Memory,
        topics: frozenset[str],
        cursor: Callable[[int], str],
        tell: Callable[[ResultReceipt | Error], None],
    ) -> None:
        self._order = order
        self._memory = memory
        self._topics = topics
        self._cursor = cursor
        self.tell = tell
        self._receipt: ResultReceipt | None = None

    def bind(self, writes: list[Write]) -> None:
        """Group the writes; the last one reports the outcome."""
        group = Group(writes, self._conclude)
        for write in writes:
            write.group = group
        writes[-1].done = self._ending(writes[-1].done)

    def _ending(self, done: Done) -> Done:
        def ended(outcome: Outcome) -> None:
            done(outcome)
            told = outcome if isinstance(outcome, Error) else self._receipt
            self.tell(cast("ResultReceipt | Error", told))

        return ended

    def _conclude(self, receipts: Sequence[Outcome]) -> list[Change]:
        """Return the changes of facts; called within the commit."""
        self._receipt, changes = self.concluded([cast("Receipt", item) for item in receipts])
        return changes

    def concluded(self, receipts: Sequence[Receipt]) -> tuple[ResultReceipt, list[Change]]:
        """Return the receipt of the result, and the changes of facts."""
        order = self._order
        done = [item.event for item in receipts if not item.late]
        removed = sum(event.kind == DELETE for event in done)
        receipt = ResultReceipt(
            job=order.job,
            cut=order.cut,
            upload=order.upload,
            table=order.table,
            rows=len(self._topics),
            written=len(done) - removed,
            unchanged=len(self._topics) - (len(done) - removed),
            removed=removed,
            position=self._cursor(done[-1].seq) if done else "",
            number=self._memory.next,
        )
        changes = self._memory.changes(receipt)
        if order.replace:
            changes += self._memory.owning(self._topics)
        return receipt, changes


def _event(table: Table, row: object, at: int) -> Event:
    """Return the write of a row."""
    name = table.primary_key.name if table.primary_key else "_id"
    if not isinstance(row, dict) or row.get(name) is None:
        raise Error(
            Code.UNPROCESSABLE,
            f"row {at} has no {name!r}, which says which record of {table.name} it is",
        )
    topic = table.topic(id_text(row[name]))
    if table.primary_key is None:
        row = {key: item for key, item in row.items() if key != name}
    return Event(topic, PUT, encode(row, JSON), JSON, 1, True)


def _topics(writes: Sequence[Write]) -> frozenset[str]:
    """Return the topics of a result; raises CONFLICT when two rows have the same."""
    topics = frozenset(write.event.topic for write in writes)
    if len(topics) != len(writes):
        (twice, _) = Counter(write.event.topic for write in writes).most_common(1)[0]
        raise Error(
            Code.CONFLICT,
            f"two rows of the result are for {twice}; a result has one row for each key",
        )
    return topics


def _into(became: list[Event | None]) -> Callable[[list[Event | None]], Awaitable[None]]:
    async def take(events: list[Event | None]) -> None:
        became[:] = events

    return take


def _check_name(job: str) -> None:
    if not job or len(job) > RESULT_NAME_CHARS_MAX or "@" in job:
        raise Error(
            Code.INVALID,
            f"job: {job[:40]!r} is no name of a job; it has 1 to {RESULT_NAME_CHARS_MAX} "
            "characters and no @",
        )
