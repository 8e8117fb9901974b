"""Queries of the past: any query over a table's records as of a moment (B14, M6).

The records of the moment are reconstructed and evaluated in memory, as callers see them, so that
conditions, order and groups tell no more than what they may read. An order needs all matching
records at once, which is bounded; a count and groups keep none. Relationships lead to the other
table's records of the same moment.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from rowcast.core.callers import Caller
from rowcast.core.conditions import holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import Row, answer
from rowcast.core.events import Record, local_id
from rowcast.core.grouping import Grouping, GroupRow, Groups
from rowcast.core.limits import HISTORY_WHOLE_BYTES_MAX
from rowcast.core.moments import Moment
from rowcast.core.queries import Query
from rowcast.core.read_limits import HISTORY_SORTED_RECORDS_MAX
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.features.history.history import history_of
from rowcast.kernel.kernel import Kernel
from rowcast.kernel.related_reads import RelatedReads
from rowcast.store.store import Page


class PastQueries:
    """Queries as of one moment; ``most`` and ``most_bytes`` bound the records that are sorted."""

    def __init__(
        self,
        kernel: Kernel,
        moment: Moment,
        most: int = HISTORY_SORTED_RECORDS_MAX,
        most_bytes: int = HISTORY_WHOLE_BYTES_MAX,
    ) -> None:
        self._kernel = kernel
        self._past = history_of(kernel)
        self._moment = moment
        self._most = most
        self._most_bytes = most_bytes
        self.related = RelatedReads(self, kernel.transcoder)
        """Follows relationships as of the moment."""

    async def position(self, table: Table) -> int:
        """Return the position of the moment in a table; raises INVALID, GONE."""
        return await self._past.position(table, self._moment)

    async def record(self, topic: str, table: Table | None, caller: Caller) -> Record:
        """Return the record at a topic then; raises NOT_FOUND, DENIED, GONE."""
        return await self._past.record(topic, table, self._moment, caller)

    async def pages(
        self, table: Table, query: Query, caller: Caller
    ) -> AsyncIterator[list[Record]]:
        """Yield the records that satisfy the conditions, by id; raises DENIED, GONE, INVALID."""
        if query.stale is not None:
            raise Error(Code.INVALID, "_stale is about now; leave it out with asof")
        transcoder = self._kernel.transcoder
        position = await self._past.position(table, self._moment)
        async for page in self._past.records(table, position, caller):
            for record in page:
                transcoder.structured(record)  # from the log, not decoded yet
            yield [item for item in page if holds(query.where, item.decoded, _id(table, item))]

    async def search(self, table: Table, query: Query, caller: Caller) -> Page:
        """Return one page of a query; raises TOO_LARGE when too many would be sorted."""
        position = await self._past.position(table, self._moment)
        found: list[Record] = []
        size, ordered = 0, bool(query.sort or query.after is not None)
        wanted = None if ordered or query.limit is None else query.offset + query.limit + 1
        async for page in self.pages(table, query, caller):
            found += page
            size += sum(len(record.payload) for record in page)
            if wanted is not None and len(found) >= wanted:
                del found[wanted:]
                break
            if len(found) > self._most or size > self._most_bytes:
                raise self._too_many(table)
        rows: Sequence[Row] = [(_id(table, record), record.decoded) for record in found]
        by_id = {row[0]: record for row, record in zip(rows, found, strict=True)}
        part = answer(replace(query, where=None), rows)
        return Page(position, [by_id[row[0]] for row in part.rows], after=part.after)

    def _too_many(self, table: Table) -> Error:
        return Error(
            Code.TOO_LARGE,
            f"more than {self._most} records of {table.name}, or {self._most_bytes} bytes, would "
            "have to be held at once to answer this of the past; add conditions, or leave sort out",
        )

    async def count(self, table: Table, query: Query, caller: Caller) -> int:
        """Return the number of records that satisfy the conditions."""
        return sum([len(page) async for page in self.pages(table, query, caller)])

    async def grouped(self, table: Table, query: Query, caller: Caller) -> list[GroupRow]:
        """Return the groups of a query; raises INVALID when there are too many."""
        kernel = self._kernel
        groups = Groups(query.group or Grouping(()), kernel.reader.groups_max)
        async for page in self.pages(table, query, caller):
            for record in page:
                groups.add(record.decoded, _id(table, record))
        return groups.rows()


def _id(table: Table, record: Record) -> object:
    return parse_id(table, local_id(table, record.topic))
