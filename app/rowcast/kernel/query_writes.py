"""Writes by query: deletes or patches the records that a query selects, all or none (B12).

The records are read first, as the caller sees them; then each is written by an event of its own, in
one atomic batch, with the rights that the caller has on it. Where its number is assigned, each
record must still match; if one no longer does, nothing is written and the records are read again.
So a committed write changes no record that did not match when it was decided. A record that begins
to match meanwhile is not included.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.conditions import Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, Event, Record, local_id
from rowcast.core.freshness import bound
from rowcast.core.queries import Query
from rowcast.core.query_write_limits import (
    QUERY_WRITE_ATTEMPTS_MAX,
    QUERY_WRITE_BYTES_MAX,
    QUERY_WRITE_PAGE_RECORDS,
    QUERY_WRITE_SAMPLE_RECORDS,
)
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.reads.read_queue import current_read_caller
from rowcast.rows.transcoder import Transcoder
from rowcast.seams.visibility import Visibility
from rowcast.store.store import Page
from rowcast.writes.write import Current, Decider, Outcome, Write


class Selecting(Protocol):
    """What is asked of the kernel's reads, for a caller."""

    async def search(self, table: Table, query: Query, caller: Caller, /) -> Page:
        """Return one page of a query."""

    async def count(self, table: Table, query: Query, caller: Caller, /) -> int:
        """Return the number of records of a query, without its limit."""


WriteTogether = Callable[[Sequence[Event], Caller, Decider], Awaitable[list[Outcome]]]
"""Writes all events or none, each after a check of the current record."""


@dataclass(frozen=True, slots=True)
class QueryWrite:
    """One DELETE or PATCH of all records that a query selects.

    ``event`` has the kind, the content and the client of each write; its topic is replaced.
    ``confirm`` is the number of records that it must write. ``most``: at most so many, else it is
    refused.
    """

    event: Event
    table: Table
    query: Query
    most: int
    confirm: int | None = None


@dataclass(frozen=True, slots=True)
class QueryPreview:
    """What a write would do: the number of its records, and the ids of the first ones."""

    count: int
    sample: tuple[object, ...]


class QueryWrites:
    """The writes by query of one kernel."""

    def __init__(
        self,
        reads: Selecting,
        visibility: Visibility,
        transcoder: Transcoder,
        now: WallClock,
        write: WriteTogether,
        bytes_max: int = QUERY_WRITE_BYTES_MAX,
    ) -> None:
        self._reads = reads
        self._visibility = visibility
        self._transcoder = transcoder
        self._now = now
        self._write = write
        self._bytes_max = bytes_max

    async def preview(self, asked: QueryWrite, caller: Caller) -> QueryPreview:
        """Return what a write would do, without its rights to write; nothing is written."""
        count = await self._count(asked, caller)
        most = min(asked.query.limit or count or 1, QUERY_WRITE_SAMPLE_RECORDS)
        page = await self._reads.search(asked.table, replace(asked.query, limit=most), caller)
        ids = (parse_id(asked.table, local_id(asked.table, it.topic)) for it in page.records)
        return QueryPreview(count, tuple(ids))

    async def write(self, asked: QueryWrite, caller: Caller) -> list[Outcome]:
        """Write all selected records or none; return the receipt of each.

        Raises PRECONDITION when they are not as many as confirmed, or all of a table without a
        number that confirms it; UNPROCESSABLE when they are too many; BUSY when they change faster
        than they can be written; and the Error of a record that the caller may not write.
        """
        query = asked.query
        if asked.confirm is None and query.where is None and query.stale is None:
            raise self._unconfirmed(asked, await self._count(asked, caller))
        for _ in range(QUERY_WRITE_ATTEMPTS_MAX):
            outcomes = await self._attempt(asked, caller)
            if outcomes is not None:
                return outcomes
        raise Error(
            Code.BUSY,
            f"records of {asked.table.name} changed while they were to be written, and nothing "
            "was; try again, or narrow the query",
            retry_after_seconds=1,
        )

    async def _attempt(self, asked: QueryWrite, caller: Caller) -> list[Outcome] | None:
        """Read and write once; None if a record has changed between."""
        topics = await self._select(asked, caller)
        if asked.confirm is not None and asked.confirm != len(topics):
            raise _miscounted(asked.confirm, len(topics))
        recheck = self._recheck(asked.table, asked.query, caller)
        if recheck is None or not topics:
            return []
        events = [asked.event.changed(topic=topic) for topic in topics]
        outcomes = await self._write(events, caller, recheck)
        error = next((item for item in outcomes if isinstance(item, Error)), None)
        if error is not None and not recheck.changed:
            raise error
        return outcomes if error is None else None

    async def _select(self, asked: QueryWrite, caller: Caller) -> list[str]:
        """Return the topics of the selected records."""
        query, topics, size = asked.query, list[str](), 0
        most = min(asked.query.limit or asked.most + 1, asked.most + 1)
        while True:
            limit = min(most - len(topics), QUERY_WRITE_PAGE_RECORDS)
            page = await self._reads.search(asked.table, replace(query, limit=limit), caller)
            topics += [record.topic for record in page.records]
            size += sum(len(record.payload) for record in page.records)
            if len(topics) > asked.most or size > self._bytes_max:
                raise self._too_many(asked, await self._count(asked, caller), size)
            if not page.after or len(topics) == most:
                return topics
            query = replace(query, offset=0, after=page.after)
            current_read_caller().renew()  # the query timeout applies to each page

    async def _count(self, asked: QueryWrite, caller: Caller) -> int:
        query = asked.query
        everything = replace(query, limit=None, offset=0, sort=())
        count = max(0, await self._reads.count(asked.table, everything, caller) - query.offset)
        return count if query.limit is None else min(count, query.limit)

    def _recheck(self, table: Table, query: Query, caller: Caller) -> "_Recheck | None":
        """Return the check of each record when it is decided; None if none can match."""
        narrowed = self._visibility.narrowed(caller, table, query)
        if narrowed is None:
            return None
        below = bound(table, self._now()) if query.stale is not None else 0
        return _Recheck(table, narrowed.where, query.stale, below, self._transcoder)

    @staticmethod
    def _unconfirmed(asked: QueryWrite, count: int) -> Error:
        what = "deletes" if asked.event.kind == DELETE else "patches"
        return Error(
            Code.PRECONDITION,
            f"without a condition this {what} {count} records of {asked.table.name}; write "
            f"confirm={count} if you mean that",
            count=count,
        )

    def _too_many(self, asked: QueryWrite, count: int, size: int) -> Error:
        if count > asked.most:
            why = f"one request writes at most {asked.most}"
        else:
            why = f"they have more than {self._bytes_max} bytes ({size} so far)"
        return Error(
            Code.UNPROCESSABLE,
            f"the query matches {count} records of {asked.table.name}, and {why}; nothing was "
            "written: narrow it, or write the first ones with limit(1000), and then repeat",
            count=count,
        )


class _Recheck:
    """Checks that a record still matches; ``changed`` is set when one did not.

    Called where numbers are assigned, in the order of commits.
    """

    def __init__(
        self,
        table: Table,
        where: Where | None,
        stale: bool | None,
        below: int,
        transcoder: Transcoder,
    ) -> None:
        self._table = table
        self._where = where
        self._stale = stale
        self._below = below
        self._transcoder = transcoder
        self.changed = False

    def __call__(self, write: Write, record: Record | None, _current: Current) -> int:
        if record is None or not self._matches(record):
            self.changed = True
            raise Error(Code.CONFLICT, f"{write.event.topic!r} no longer matches the query")
        return 0

    def _matches(self, record: Record) -> bool:
        if self._stale is not None and (record.version < self._below) is not self._stale:
            return False
        value = record.decoded if self._transcoder.structured(record) else None
        return holds(self._where, value, parse_id(self._table, local_id(self._table, record.topic)))


def _miscounted(confirmed: int, count: int) -> Error:
    return Error(
        Code.PRECONDITION,
        f"the query matches {count} records, and {confirmed} were confirmed; nothing was written",
        count=count,
    )
