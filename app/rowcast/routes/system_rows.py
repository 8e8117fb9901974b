"""System rows: the server's state, read like any resource, under ``$SYS`` (M11).

A class lists rows and implements delete; this module answers reads: one row, or a query, in slices
so that the loop is not blocked. Nothing is stored: a row is built on request. Rows cannot be
written; deleting one closes the object it represents, with the right to administer
(``seams/authorizer.py``). It knows neither sessions nor any protocol.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import ClassVar

from rowcast.core.conditions import Condition, Group, Operator, Where, holds
from rowcast.core.errors import Code, Error
from rowcast.core.evaluation import Row, answer, project
from rowcast.core.limits import SYSTEM_ROWS_MAX, SYSTEM_ROWS_SLICE
from rowcast.core.queries import Query
from rowcast.core.query_names import undeclared
from rowcast.core.query_terms import Unreadable, guessed
from rowcast.core.scalars import Mismatch
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.routes.resource import Resource

_LOOSE = frozenset({Operator.EQ, Operator.NE})


class SystemRows(Resource):
    """The rows of one kind of object; extended by the owner of the objects."""

    rows_max = SYSTEM_ROWS_MAX
    """Rows of one answer, and rows that are sorted."""
    slice_rows = SYSTEM_ROWS_SLICE
    """Rows that are made in one turn of the loop."""
    followed: ClassVar[Collection[str] | None] = ()
    """The members of which each change is reported, so that live queries may compare them; None:
    all members."""
    members: ClassVar[Collection[str]] = ()
    """Those that a row may have, even if none has them now: queries may name them."""
    recorded: ClassVar[bool] = False
    """Whether the rows are records, whose events are in the log: plain filters get these, and only
    live queries the reports."""

    def names(self) -> Sequence[str]:
        """Return the ids of all rows, the oldest first."""
        raise NotImplementedError

    def row(self, name: str, *, whole: bool) -> dict[str, object] | None:
        """Return one row, None when it is gone; not ``whole``: with truncated lists."""
        raise NotImplementedError

    async def refresh(self) -> None:
        """Wait for what the rows are made of; called before they are read."""

    async def is_there(self) -> bool | None:
        """Whether there is the row that was asked for."""
        await self.refresh()
        return self.row(self.id, whole=False) is not None

    async def get(self, query: Query | None = None) -> object:
        """Return the row, or a list of those that match the query."""
        self.kernel.authorise_read(self.topic, self.caller)
        await self.refresh()
        if self.id:
            row = self.row(self.id, whole=True)
            return None if row is None else project(query.select if query else None, row, self.id)
        return await self._listed(query or Query())

    def may_list(self, name: str) -> bool:
        """Whether the caller may read one row of a list."""
        visibility = self.kernel.visibility
        return not visibility.filtered or visibility.may_read(self.caller, f"{self.path}/{name}")

    async def durable(self) -> None:
        """Wait until all changes so far are durable; raises the Error of a failure."""
        await self.kernel.committer.durable()

    async def _listed(self, query: Query) -> list[object]:
        """Return a page; builds rows until it is full, or all matching ones to sort them."""
        if query.after is not None:
            raise Error(Code.INVALID, "these rows have no page tokens; use limit(from,to)")
        limit = self.rows_max if query.limit is None else min(query.limit, self.rows_max)
        wanted = query.offset + limit
        found: list[Row] = []
        known: dict[str, None] = dict.fromkeys(self.members)
        seen, where = 0, loosened(query.where)
        names = iter(self.names())
        while some := list(islice(names, self.slice_rows)):
            for name in some:
                row = self.row(name, whole=False) if self.may_list(name) else None
                if row is None:
                    continue
                known.update(dict.fromkeys(row))
                if not holds(where, row, name):
                    continue
                seen += 1
                if query.sort or seen > query.offset:
                    found.append((name, row))
            if not query.sort and seen >= wanted:
                break
            if len(found) > self.rows_max:  # so many only occur in a sort
                raise _too_many(self.rows_max)
            await asyncio.sleep(0)  # yield to the loop
        if seen < wanted or query.sort:  # then all rows were checked
            _check_names(query, known, self.topic, found=bool(seen))
        page = answer(replace(query, where=where), found).rows if query.sort else found[:limit]
        return [project(query.select, row, name) for name, row in page]


def _too_many(rows: int) -> Error:
    return Error(
        Code.TOO_LARGE,
        f"more than {rows} rows would have to be sorted; add conditions, or leave sort(...) out: "
        "they come in the order in which they began",
    )


def _check_names(query: Query, known: Mapping[str, None], topic: str, *, found: bool) -> None:
    """Raise for a name in the query that no row has (P5)."""
    for name, use in undeclared(Table(topic, None), query).items():
        if known and name[0] not in known and not (use == "where" and found):
            raise no_field(topic, name[0], known)


def no_field(topic: str, name: str, known: Collection[str]) -> Error:
    """Return the Error for a name in a query that no row has."""
    near = did_you_mean(name, known)
    return Error(Code.INVALID, f"no row at {topic!r} has a field {name[:80]!r}{near}")


def loosened(where: Where | None) -> Where | None:
    """Return conditions in which ``disabled=false`` matches text and boolean.

    ``=`` compares with text, because these rows' attributes are undeclared; but users see booleans
    and numbers in them, and mean those.
    """
    if isinstance(where, Group):
        items = (loosened(item) for item in where.items)
        return replace(where, items=tuple(item for item in items if item is not None))
    if not isinstance(where, Condition) or where.operator not in _LOOSE:
        return where
    if not isinstance(where.value, str):
        return where
    try:
        meant = guessed(where.value)
    except (Mismatch, Unreadable):
        return where
    if meant == where.value:
        return where
    return Group((where, replace(where, value=meant)), all_of=where.operator is Operator.NE)


def time_text(seconds: float | None) -> str | None:
    """Format a time for rows; None for None."""
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
