"""Rows of ``$SYS/conflicts``: the writes that lost without being seen, the oldest first (K3).

GET    $SYS/conflicts/                              the list
GET    $SYS/conflicts/<version>@<origin>/<topic>    one of them
DELETE the same                                     forget one, or all

Who may not read a topic sees none of its conflicts. Administrators see all.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from rowcast.core.errors import Code, Error
from rowcast.core.queries import Query
from rowcast.core.tables import Table
from rowcast.features.sites.conflicts import MEMBERS, Conflicts
from rowcast.routes.registry import Registry
from rowcast.routes.system_rows import SystemRows

PATH: Final = "$SYS/conflicts"


class RowsOfConflicts(SystemRows):
    """One row for each write that lost; extended with what it reads from."""

    path = PATH
    followed = None
    members = MEMBERS
    conflicts: ClassVar[Conflicts]

    @classmethod
    def table_of(cls, topic: str) -> Table | None:
        """Return the declared table of a topic."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        """Return the names of all rows, the oldest first."""
        return self.conflicts.names

    def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
        """Return a row."""
        return self.conflicts.row(name)

    async def get(self, query: Query | None = None) -> object:
        """Return one, or those that match a query; what the caller may not read is absent."""
        self.kernel.authorise_read(self.topic, self.caller)
        if self.id and not self.may_list(self.id):
            return None
        return await super().get(query)

    def may_list(self, name: str) -> bool:
        """Whether the caller may read the topic of the write that lost."""
        row, visibility = self.conflicts.row(name), self.kernel.visibility
        if row is None or self.caller.grants.administer:
            return row is not None
        topic = str(row["topic"])
        table = self.table_of(topic)
        if table is not None and visibility.limits(self.caller, table):
            return False
        return super().may_list(name) and visibility.may_read(self.caller, topic)

    async def delete(self) -> None:
        """Forget a row, or all of them."""
        if not self.conflicts.forget(self.id) and self.id:
            raise Error(Code.NOT_FOUND, f"{self.id!r} is not in the list of conflicts")
        await self.durable()


def conflict_rows(found: Conflicts, registry: Registry) -> type[SystemRows]:
    """Return the resource class that reads and forgets the conflicts of one server."""

    class ConflictRows(RowsOfConflicts):
        conflicts = found

        @classmethod
        def table_of(cls, topic: str) -> Table | None:
            shape = registry.route(topic).shape
            return None if shape is None else shape.table

    return ConflictRows
