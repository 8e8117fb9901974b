"""Results of jobs, committed as one transaction: subscribers see either the old or the new one.

A result is uploaded in parts (``stage``), whose rows are checked like any write, and then
committed: every row becomes the record of its key; unchanged rows append no event. A replacing
result deletes the job's earlier rows that it does not contain. A repeat (the same job and cut) has
no effect and gets the same receipt.

Rows are compared with their records before the commit, page by page, while others write. Those that
change something are one transaction: a few in one batch of the log, many staged page by page and
switched at one position (``writing.py``). A row that was equal then is done: who writes its record
meanwhile is later than the result.

It knows neither protocols nor Spark.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.result_limits import RESULT_NAME_CHARS_MAX, RESULT_SLICE_ROWS
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.values import id_text
from rowcast.features.results.memory import Memory, ResultReceipt, owner_of
from rowcast.features.results.own_topics import Facts, NewTopics
from rowcast.features.results.staged_rows import (
    BOUNDS,
    AllStagedRows,
    StagedRows,
    UploadBounds,
)
from rowcast.features.results.telling import Tellings, Untold
from rowcast.kernel.kernel import Kernel
from rowcast.results.result_bounds import too_many_changes
from rowcast.results.result_changes import Author, Changes, nothing_before
from rowcast.results.result_writing import keep_facts, write_result
from rowcast.results.row_file import Page
from rowcast.store.store import Change
from rowcast.writes.write import UNAWAITED, Outcome, Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


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
        self,
        kernel: "Kernel",
        facts: Facts,
        now: WallClock,
        bounds: UploadBounds = BOUNDS,
        directory: str | None = None,
    ) -> None:
        self._kernel = kernel
        self._facts = facts
        self.bounds = bounds
        self._directory = directory
        self.uploads = AllStagedRows(now, bounds, directory)
        self.tellings = Tellings(kernel)
        self._committing: dict[str, asyncio.Future[ResultReceipt]] = {}
        """Running commits by the owner of their job; one at a time each."""

    # -- staging ---------------------------------------------------------------------------------

    async def declare(
        self, name: str, table: str, rows: int, size: int, caller: Caller, *, replaces: str = ""
    ) -> None:
        """Begin an upload; raises TOO_LARGE when so many rows or bytes cannot be committed.

        ``replaces`` is the job whose earlier results this one replaces.
        """
        found, kernel = self._table(table), self._kernel
        kernel.rights.check_writer(found.path or "", caller)
        # An error counts the table's records, and some may be hidden: then the commit counts.
        known = rows if kernel.visibility.filtered else await kernel.reader.count(found)
        if replaces:
            owner = owner_of(caller, replaces)
            await self._check_replaced(Memory.of(owner, await self._facts(owner)), found)
        self.uploads.check_declared(rows, size, known)
        self.uploads.opened(name, caller.user, found, self._kernel.rights.policy)

    def _table(self, table: str) -> Table:
        """Return an exported table; raises NOT_FOUND."""
        shape = self._kernel.registry.shapes.get(table)
        if shape is None or shape.table.path is None:
            shapes = self._kernel.registry.shapes.values()
            known = [item.table.name for item in shapes if item.table.path is not None]
            raise Error(
                Code.NOT_FOUND,
                f"there is no exported table {table!r} to write to{did_you_mean(table, known)}",
            )
        return shape.table

    async def stage(
        self,
        name: str,
        part: str,
        table: str,
        rows: Sequence[object],
        caller: Caller,
        *,
        after: str = "",
    ) -> None:
        """Add or replace a part, once all its rows are kept. Raises for an invalid row.

        ``after`` names a part that came before; NOT_FOUND when the upload has lost it.
        """
        found = self._table(table)
        if after:
            self.uploads.check_part(name, caller.user, after)
        upload = self.uploads.opened(name, caller.user, found, self._kernel.rights.policy)
        pages: list[Page] = []
        for start in range(0, len(rows), RESULT_SLICE_ROWS):
            some = rows[start : start + RESULT_SLICE_ROWS]
            events = [_event(found, row, start + at) for at, row in enumerate(some)]
            became = await self._checked(events, caller, start)
            pages.append(upload.file.page(became))
            self.uploads.check(upload, part)
            await self._stored(upload, pages[-1])
        upload.put(part, pages)
        self.uploads.check(upload, part)  # an empty part counts as a part, too

    async def _stored(self, upload: StagedRows, page: Page) -> None:
        try:
            await asyncio.to_thread(upload.file.write, page)
        except Error:
            self.uploads.close(upload.name)
            raise

    async def _checked(self, events: Sequence[Event], caller: Caller, start: int) -> list[Event]:
        """Return what hooks made of the events of rows, each checked as a write of its own."""
        became: list[Event | None] = list(events)
        await self._kernel.gate.together(events, caller, _into(became))
        kept: list[Event] = []
        author = Author("", "", caller)
        for at, event in enumerate(became):
            if event is None:
                continue
            kept.append(event.changed())
            try:
                author.check(self._kernel, event)
            except Error as error:
                words = f"row {start + at} ({event.topic}): {error.message}"
                raise Error(error.code, words, **error.detail) from error
        return kept

    # -- committing ------------------------------------------------------------------------------

    async def commit(self, order: Order, caller: Caller) -> ResultReceipt:
        """Commit an uploaded result; returns when it is durable and announced.

        It goes on when nobody waits for it any more: what it has read of the job holds until then.
        """
        _check_name(order.job)
        self.tellings.check()
        owner = owner_of(caller, order.job)
        if owner in self._committing:
            raise Error(
                Code.BUSY,
                f"a result of the job {order.job} is being committed; try again in a moment",
                retry_after_seconds=1,
            )
        work = asyncio.ensure_future(self._carry_out(order, owner, caller))
        self._committing[owner] = work
        return await asyncio.shield(work)

    async def _carry_out(self, order: Order, owner: str, caller: Caller) -> ResultReceipt:
        try:
            receipt = await self._commit(order, owner, caller)
        except Error as error:
            if error.code is not Code.BUSY:  # then it may be committed later, unchanged
                self.uploads.close(order.upload)
            raise
        finally:
            del self._committing[owner]
        self.uploads.close(order.upload)
        return receipt

    async def stop(self) -> None:
        """Give up what is not committed; a switch that has begun completes."""
        running = list(self._committing.values())
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.uploads.close_all()

    async def _commit(self, order: Order, owner: str, caller: Caller) -> ResultReceipt:
        memory = Memory.of(owner, await self._facts(owner))
        if not order.again and (known := memory.repeated(order.cut, order.upload)) is not None:
            return known
        table, directory = self._table(order.table), self._directory
        if order.replace:
            await self._check_replaced(memory, table)
        author = Author(order.job, order.cut, caller)
        made = Changes(self._kernel, author, self.bounds, directory)
        try:
            upload = self._chosen(order, caller)
            if upload is not None:
                async for page in upload.pages(order.parts):
                    await made.add(page)
            names = await self._compare(order, memory, made)
            commit = _Commit(order, memory, made, names, self._kernel, self.tellings)
            await write_result(self._kernel, made, commit, self.bounds)
            return commit.receipt
        finally:
            made.close()

    async def _compare(self, order: Order, memory: Memory, made: Changes) -> NewTopics | None:
        """Compare the rows with the job's own records, if it replaces them; return its new ones."""
        keep, own, most = partial(keep_facts, self._kernel), memory.own, self.bounds.names_bytes
        if own.ahead:
            await keep(own.forgotten())
        names = NewTopics(own, str(memory.next), keep, most) if order.replace else None
        before = partial(own.on, facts=self._facts) if order.replace else nothing_before
        async for shelf in made.compared(before):
            if names is not None:
                await names.take(shelf)
        return names

    async def _check_replaced(self, memory: Memory, table: Table) -> None:
        """Raise TOO_LARGE for a result that would remove too much in other tables than its own.

        So that is known before its rows are brought or compared.
        """
        tables = self._kernel.registry.declared()
        elsewhere = await asyncio.to_thread(memory.own.outside, table, tables)
        if elsewhere > self.bounds.changes:
            what = f"{elsewhere} records of earlier results that are not in {table.name}"
            raise too_many_changes(what, self.bounds)

    def _chosen(self, order: Order, caller: Caller) -> StagedRows | None:
        """Return the upload of a request, if it has its parts; None for a result without rows."""
        if not order.rows and not order.parts:
            return None
        upload = self.uploads.find(order.upload, caller.user)
        if upload.policy is not self._kernel.rights.policy:
            raise Error(Code.CONFLICT, "the rules of who may write have changed; bring it again")
        missing = [part for part in order.parts if part not in upload.parts]
        rows = sum(page.rows for part in order.parts for page in upload.parts.get(part, ()))
        if missing or upload.table.name != order.table or rows > order.rows:
            raise Error(
                Code.CONFLICT,
                f"the upload {order.upload} is not the one to commit: it has {upload.rows} "
                f"rows for {upload.table.name}, and lacks {', '.join(missing[:5]) or 'no part'}",
            )
        return upload


class _Commit:
    """One pending commit: its receipt, and the changes of facts that go with it."""

    def __init__(
        self,
        order: Order,
        memory: Memory,
        made: Changes,
        names: NewTopics | None,
        kernel: "Kernel",
        tellings: Tellings,
    ) -> None:
        self._order = order
        self._names = names
        self._memory = memory
        self._kernel = kernel
        self._tellings = tellings
        self._untold: Untold | None = None
        self.made = made
        self.caller = made.author.caller
        self.written = self.removed = 0
        """How many rows were written, and how many records removed."""
        self.changes: list[Change] = []
        self.receipt: ResultReceipt

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Count what was written."""
        for outcome in outcomes:
            if isinstance(outcome, Receipt) and not outcome.late:
                self.removed += outcome.event.kind == DELETE
                self.written += outcome.event.kind != DELETE

    def conclude(self, last: int) -> Sequence[Change]:
        """Return the changes of facts, once all is counted; ``last`` is the last number, or 0."""
        order, rows = self._order, self.made.topics.count
        self.receipt = ResultReceipt(
            job=order.job,
            cut=order.cut,
            upload=order.upload,
            table=order.table,
            rows=rows,
            written=self.written,
            unchanged=rows - self.written,
            removed=self.removed,
            position=self._kernel.cursor(last) if self.written or self.removed else "",
            number=self._memory.next,
        )
        self.changes = self._memory.changes(self.receipt)
        if self._names is not None:
            path = self._kernel.registry.shapes[order.table].table.path or ""
            self.changes += self._names.changes(path, rows)
        return self.changes

    def untold(self, after: int, last: int) -> Sequence[Change]:
        """Return what is kept until hooks are told of staged rows, if there are any."""
        author = self.made.author
        if author.telling(self._kernel) is UNAWAITED:
            return ()
        self._untold = Untold(tuple(self.made.tables), after, last, author.caller)
        return (self._untold.fact(),)

    def seen(self) -> None:
        """Begin to tell them."""
        if self._untold is not None:
            self._tellings.add(self._untold)


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
