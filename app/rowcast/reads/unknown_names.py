"""Misspelt names in queries: refused where that is certain and cheap to know (P5).

A table that is not sealed keeps attributes that it does not declare. So a name that it does not
declare is looked for in the records, and only when the answer has nothing of it: no record for a
condition, no value at the head of an order or in what is selected. Of a table with few records
they are all looked at; of a larger one only where the query did that too. Whoever is shown only
some records one by one is told nothing, because the others may have it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rowcast.core.conditions import Condition, Operator, Path, compared, reach
from rowcast.core.errors import Code, Error
from rowcast.core.events import Record
from rowcast.core.queries import Query
from rowcast.core.query_names import undeclared, unknown_name
from rowcast.core.tables import Table
from rowcast.rows.transcoder import Transcoder
from rowcast.store.store import Page

LOOKED_AT_RECORDS_MAX: Final = 10_000
"""Records that are looked at for a name though the query was answered from an index: some ten
milliseconds of a reader's thread."""

Search = Callable[[Table, Query], Awaitable[Page]]
Count = Callable[[Table], Awaitable[int]]


class Names:
    """Looks for names that a query uses, in the answer and then in the table."""

    def __init__(
        self, transcoder: Transcoder, count: Count, looked_at_max: int = LOOKED_AT_RECORDS_MAX
    ) -> None:
        self._transcoder = transcoder
        self._count = count
        self._looked_at_max = looked_at_max

    async def check(
        self, table: Table, query: Query, records: Sequence[Record], search: Search
    ) -> None:
        """Raise INVALID for a name that neither the table declares nor any record has.

        ``records`` are the first of the answer; ``search`` finds what the caller is shown.
        """
        if table.sealed or query.after is not None or query.offset:
            return
        for path, use in undeclared(table, query).items():
            if self._shows(path, use, records):
                continue
            whole = looks_at_all(table, query, use)
            if await self._is_unknown(table, path, search, whole=whole):
                raise Error(Code.INVALID, unknown_name(table, path))

    def _shows(self, path: Path, use: str, records: Sequence[Record]) -> bool:
        """Whether the answer shows that some record has a value at a path.

        Records without one come last in an order, so there the first tells.
        """
        if use == "where":
            return bool(records)
        return any(self._has(record, path) for record in records[: 1 if use == "sort" else None])

    def _has(self, record: Record, path: Path) -> bool:
        self._transcoder.structured(record)
        return reach(path, record.decoded, "") is not None

    async def _is_unknown(self, table: Table, path: Path, search: Search, *, whole: bool) -> bool:
        count = await self._count(table)
        if count == 0:
            return not table.open
        if count > self._looked_at_max and not whole:
            return False
        wanted = Condition(path, Operator.NE, None)
        return not (await search(table, Query(wanted, limit=1))).records


def looks_at_all(table: Table, query: Query, use: str) -> bool:
    """Whether the query looked at each record: no index narrows it, and no limit.

    Where the name is compared there is no record in the answer, so no limit was reached; where it
    is sorted by, all are looked at for their order.
    """
    if use == "select" and query.limit is not None:
        return False
    indexed = {item.name for item in table.attributes if item.indexed or item.primary_key}
    return {path[0] for path in compared(query.where)}.isdisjoint({"$id", *indexed})
