"""How the changes of a result are written: together in one batch of the log, or staged.

Together, every other writer waits for all of them, and readers of tables, too. So many are staged:
they are logged and applied a page at a time while others write, and one small batch lets everybody
see them at once (``writes/staged_commit.py``). Either way, a failure leaves nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol

from rowcast.core.errors import Code, Error
from rowcast.core.limits import COMMIT_BACKLOG_EVENTS_MAX
from rowcast.core.topics import TopicFilter
from rowcast.results.result_bounds import ChangeBounds
from rowcast.results.result_changes import Changes
from rowcast.store.store import Change
from rowcast.writes.staged_commit import NOWHERE, SupersededCounts, YieldScope
from rowcast.writes.write import Group, Outcome, Write, resolver

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel


class Commit(Protocol):
    """What hears of the writes of a result, and says which facts change with them."""

    written: int
    removed: int

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """Count what was written."""

    def conclude(self, last: int) -> Sequence[Change]:
        """Return the changes of facts; ``last`` is the last number, 0 without events."""

    def pending_notices(self, after: int, last: int) -> Sequence[Change]:
        """Return what is kept until hooks are told of staged rows, those between two numbers."""

    def seen(self) -> None:
        """Begin to tell them: all see the staged rows."""


async def write_result(
    kernel: "Kernel", made: Changes, commit: Commit, bounds: ChangeBounds
) -> None:
    """Write what a result changes, in the way that suits its size; raises its refusal."""
    if not made.count:
        await keep_facts(kernel, commit.conclude(0))
    elif made.count > bounds.staged_min:
        await _write_staged(kernel, made, commit)
    else:
        await _write_together(kernel, made, commit)


async def keep_facts(kernel: "Kernel", changes: Sequence[Change]) -> None:
    """Write changes of facts alone; raises the Error of a refusal."""
    future: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
    kernel.committer.keep(changes, resolver(future))
    error = await future
    if error is not None:
        raise error


async def _write_staged(kernel: "Kernel", made: Changes, commit: Commit) -> None:
    """Stage the changes of a result and switch to them; raises the Error that refuses it."""
    committer, synced = kernel.committer, _synced(kernel, made)

    def may_be_superseded(topic: str) -> bool:
        table = kernel.registry.table_at(topic) if made.has(topic) else None
        return table is not None and table.name in synced

    yields = YieldScope(synced, may_be_superseded) if synced else NOWHERE
    staged = committer.begin_staged(made.count, yields)

    def concluded(last: int, superseded: SupersededCounts) -> Sequence[Change]:
        if not _synced(kernel, made) <= synced:
            why = "topics of its table are synced with other sites since it was begun; try again"
            raise Error(Code.BUSY, why, retry_after_seconds=1)
        commit.written -= superseded.puts
        commit.removed -= superseded.deletions
        return [*commit.conclude(last), *commit.pending_notices(staged.after, last)]

    pages = made.pages(made.tables.keys() - synced)
    ahead = _next(pages)
    try:
        while (writes := await ahead) is not None:
            ahead = _next(pages)  # made while the tables take the one before
            commit.count(await committer.stage(staged, writes))
        await committer.switch(staged, concluded, made.has, commit.seen)
    finally:
        ahead.cancel()
        committer.abandon(staged)


def _next(pages: AsyncIterator[list[Write]]) -> asyncio.Task[list[Write] | None]:
    """Begin to make the next page; None after the last one."""
    page = asyncio.create_task(_page(pages))
    page.add_done_callback(_consume_result)
    return page


async def _page(pages: AsyncIterator[list[Write]]) -> list[Write] | None:
    return await anext(pages, None)


def _consume_result(page: asyncio.Task[list[Write] | None]) -> None:
    """Take its Error, if nobody waits for it any more."""
    if not page.cancelled():
        page.exception()


def _synced(kernel: "Kernel", made: Changes) -> frozenset[str]:
    """Return the tables whose versions other sites compare, so that newer writes must win here."""
    concern = kernel.synced.concern
    return frozenset(
        name for name, table in made.tables.items() if concern(TopicFilter.below(table.path or ""))
    )


async def _write_together(kernel: "Kernel", made: Changes, commit: Commit) -> None:
    """Write the changes of a result in one batch; raises the Error that refuses it."""
    writes = [write async for page in made.pages() for write in page]
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    resolve = resolver(future)

    def concluded(outcomes: Sequence[Outcome]) -> Sequence[Change]:
        commit.written = commit.removed = 0  # it may be decided again, after a failure
        commit.count(outcomes)
        return commit.conclude(_last(writes))

    group, done = Group(writes, concluded), writes[-1].done
    for write in writes:
        write.group = group

    def ended(outcome: Outcome) -> None:
        done(outcome)
        resolve(outcome)

    writes[-1].done = ended
    kernel.writes.commit_or_announce(writes, len(writes) + COMMIT_BACKLOG_EVENTS_MAX)
    outcome = await future
    if isinstance(outcome, Error):
        raise outcome


def _last(writes: Sequence[Write]) -> int:
    """Return the number of the last event; 0 if none has one."""
    return max(write.event.seq for write in writes)
