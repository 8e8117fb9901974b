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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rowcast.codecs import JSON, encode
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.core.fingerprint import fingerprint
from rowcast.core.result_limits import (
    RESULT_CUT_CHARS_MAX,
    RESULT_NAME_CHARS_MAX,
    RESULT_SLICE_ROWS,
    RESULT_SYNCS_AT_ONCE,
)
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.values import id_text
from rowcast.features.results.hook_notices import HookNotices
from rowcast.features.results.memory import Memory, ResultReceipt, owner_of
from rowcast.features.results.own_topics import Facts, NewTopics
from rowcast.features.results.pending_commit import Order, PendingCommit
from rowcast.features.results.staged_rows import (
    BOUNDS,
    AllStagedRows,
    StagedRows,
    UploadBounds,
    lost,
)
from rowcast.features.results.upload_files import DIRECTORY, FoundUpload, Title, found_uploads
from rowcast.kernel.kernel import Kernel
from rowcast.results.result_bounds import too_many_changes
from rowcast.results.result_changes import Author, Changes, nothing_before
from rowcast.results.result_writing import keep_facts, write_result
from rowcast.results.row_file import Page

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


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
        self._folder = None if directory is None else Path(directory) / DIRECTORY
        self.uploads = AllStagedRows(now, bounds, self._folder, self._title)
        self.notices = HookNotices(kernel)
        self._syncing = asyncio.Semaphore(RESULT_SYNCS_AT_ONCE)
        self._rights: tuple[object, str] = (self, "")
        """A policy, and the fingerprint of what was in force under it: of many rules it is long."""
        self._committing: dict[str, asyncio.Future[ResultReceipt]] = {}
        """Running commits by the owner of their job; one at a time each."""

    # -- over a restart --------------------------------------------------------------------------

    async def restore(self) -> None:
        """Find uploads of an earlier run again: those of this log, its tables and its rules.

        A kill may have left one that was committed.
        """
        if self._folder is None:
            return
        going: list[FoundUpload] = []
        for one in await asyncio.to_thread(found_uploads, self._folder, self._goes_on):
            if await self._is_done(one):
                await asyncio.to_thread(one.files.remove)
            else:
                going.append(one)
        shapes, policy = self._kernel.registry.shapes, self._kernel.rights.policy
        self.uploads.restore(going, {name: it.table for name, it in shapes.items()}, policy)

    async def _is_done(self, found: FoundUpload) -> bool:
        for owner, number in found.commits:
            receipts = Memory.of(owner, await self._facts(owner)).receipts
            if any((it.number, it.upload) == (number, found.title.name) for it in receipts):
                return True
        return False

    def _goes_on(self, title: Title) -> bool:
        shape = self._kernel.registry.shapes.get(title.table)
        return shape is not None and title == self._title(title.name, title.user, shape.table)

    def _title(self, name: str, user: str, table: Table) -> Title:
        kernel = self._kernel
        if self._rights[0] is not kernel.rights.policy:
            self._rights = kernel.rights.policy, fingerprint(kernel.rights.in_force())
        path, epoch = table.path or "", kernel.reader.epoch
        return Title(name, user, table.name, path, epoch, self._rights[1])

    # -- staging ---------------------------------------------------------------------------------

    async def declare(
        self, name: str, table: str, rows: int, size: int, caller: Caller, *, replaces: str = ""
    ) -> None:
        """Begin or keep an upload; raises TOO_LARGE if so many rows or bytes cannot be committed.

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
        upload = self.uploads.opened(name, caller.user, found, kernel.rights.policy)
        upload.declared = True
        await upload.touch()

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
        self._kernel.rights.check_writer(found.path or "", caller)
        if after:
            self.uploads.check_part(name, caller.user, after)
        upload = self.uploads.opened(name, caller.user, found, self._kernel.rights.policy)
        with self.uploads.bringing(upload):
            await self._stage(upload, part, rows, caller)

    async def _stage(
        self, upload: StagedRows, part: str, rows: Sequence[object], caller: Caller
    ) -> None:
        pages: list[Page] = []
        for start in range(0, len(rows), RESULT_SLICE_ROWS):
            some = rows[start : start + RESULT_SLICE_ROWS]
            events = [_event(upload.table, row, start + at) for at, row in enumerate(some)]
            became = await self._checked(events, caller, start)
            pages.append(upload.file.page(became))
            self.uploads.check(upload, part)
            await self._write_last(upload, pages)
        async with self._syncing:
            await self._kept(upload, upload.put(part, pages))
        self.uploads.check(upload, part)  # an empty part counts as a part, too

    async def _write_last(self, upload: StagedRows, pages: Sequence[Page]) -> None:
        """Write the last page of a part; if the disk is full, other parts stay, and it may come.

        Not so when a sync fails (``_kept``): nobody knows then what the disk has of the others.
        """
        try:
            await asyncio.to_thread(upload.file.write, pages[-1])
        except Error:
            upload.file.take_back(pages)
            raise

    async def _kept(self, upload: StagedRows, work: Awaitable[None]) -> None:
        try:
            await work
        except Error:
            self.uploads.close(upload)
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
        _check_names(order)
        self.notices.check()
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
        upload = self.uploads.look(order.upload, caller.user)
        try:
            receipt = await self._commit(order, owner, caller, upload)
        except Error as error:
            if upload is not None and error.code is not Code.BUSY:
                self.uploads.close(upload)
            raise  # of one that is busy the upload may be committed later, unchanged
        finally:
            del self._committing[owner]
        if upload is not None:
            self.uploads.close(upload)
        return receipt

    async def stop(self) -> None:
        """Leave what is not committed to the next run; a switch that has begun completes."""
        running = list(self._committing.values())
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.uploads.leave()

    async def _commit(
        self, order: Order, owner: str, caller: Caller, upload: StagedRows | None
    ) -> ResultReceipt:
        memory = Memory.of(owner, await self._facts(owner))
        known = _committed(order, memory) if upload is None else None
        if known is None and not order.again:
            known = memory.repeated(order.cut, order.upload)
        if known is not None:
            return known
        table = self._table(order.table)
        if order.replace:
            await self._check_replaced(memory, table)
        if not order.rows and not order.parts:
            return await self._write(order, memory, caller, None)
        upload = self._chosen(order, upload)
        async with self.uploads.in_use(upload):
            async with self._syncing:
                await upload.begin_commit(owner, memory.next)
            return await self._write(order, memory, caller, upload)

    async def _write(
        self, order: Order, memory: Memory, caller: Caller, upload: StagedRows | None
    ) -> ResultReceipt:
        author = Author(order.job, order.cut, caller)
        made = Changes(self._kernel, author, self.bounds, self._directory)
        try:
            if upload is not None:
                async for page in upload.pages(order.parts):
                    await made.add(page)
            names = await self._compare(order, memory, made)
            commit = PendingCommit(order, memory, made, names, self._kernel, self.notices)
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
        async for shard in made.compared(before):
            if names is not None:
                await names.take(shard)
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

    def _chosen(self, order: Order, upload: StagedRows | None) -> StagedRows:
        """Return the upload of a request, if it has its parts."""
        if upload is None:
            raise lost(f"upload {order.upload}")
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


def _committed(order: Order, memory: Memory) -> ResultReceipt | None:
    """Return the receipt of an upload that is gone, whose answer was lost; also for ``again``."""
    same = (order.upload, order.cut) if order.parts else None
    for receipt in reversed(memory.receipts):
        if (receipt.upload, receipt.cut) == same:
            return replace(receipt, repeat=True)
    return None


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


def _check_names(order: Order) -> None:
    job, most = order.job, RESULT_NAME_CHARS_MAX
    if not job or len(job) > most or "@" in job:
        raise Error(
            Code.INVALID,
            f"job: {job[:40]!r} is no name of a job; it has 1 to {most} characters and no @",
        )
    for what, text, chars in (
        ("cut", order.cut, RESULT_CUT_CHARS_MAX),
        ("upload", order.upload, most),
    ):
        if len(text) > chars:
            words = f"{what}: {text[:40]!r}... has {len(text)} characters; it has at most {chars}"
            raise Error(Code.INVALID, words)
