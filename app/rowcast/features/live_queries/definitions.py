"""Since when named queries have their conditions, and tables what they compute (M3).

A reader that returns with a cursor has the records of the conditions at that time. So the server
remembers the definition of each name, with the position at which it began to be that; a cursor from
before it cannot be continued. So it is with the computed attributes and relationships of a table,
which any query may compare. What a function in ``resources/`` computes is not known here.
"""

from collections.abc import Iterable
from typing import Final

from rowcast.core.facts import Change
from rowcast.core.named_queries import NamedQuery
from rowcast.core.tables import Table

OWNER: Final = "live_queries/names"


class Definitions:
    """The named queries of one server, and what its tables compute and lead to."""

    def __init__(self, queries: Iterable[NamedQuery]) -> None:
        self._queries = {query.name: query for query in queries}
        self._since: dict[str, int] = {}
        self.changes: list[Change] = []
        """What is to be stored: the definitions that are new or changed."""

    @property
    def names(self) -> list[str]:
        """The names."""
        return list(self._queries)

    def get(self, name: str) -> NamedQuery | None:
        """Return the query of that name."""
        return self._queries.get(name)

    def since(self, name: str) -> int:
        """Return the position from which on a name has its conditions."""
        return self._since.get(name, 0)

    def since_of(self, tables: Iterable[Table]) -> int:
        """Return the position from which on tables have what they compute and lead to."""
        return max((self.since(_name_of(table)) for table in tables), default=0)

    def restore(
        self, facts: Iterable[tuple[str, str, bytes]], position: int, tables: Iterable[Table] = ()
    ) -> None:
        """Compare the definitions with stored ones; what is another one begins after ``position``.

        A cursor at ``position`` is of before, too, unless nothing was written since the start.
        """
        known = {name: value.decode() for _, name, value in facts}
        now = {name: query.definition for name, query in self._queries.items()}
        derived = {_name_of(table): _derived(table) for table in tables}
        now |= {name: text for name, text in derived.items() if text or name in known}
        for name, text in now.items():
            seq, space, definition = known.get(name, "").partition(" ")
            if space and definition == text:
                self._since[name] = int(seq)
                continue
            self._since[name] = position + 1 if space else 0
            value = f"{self._since[name]} {text}"
            self.changes.append(Change(OWNER, name, value.encode()))


def _name_of(table: Table) -> str:
    """Return the name of what a table computes; no query is called so."""
    return f"{table.name}/"


def _derived(table: Table) -> str:
    """Return what a table computes and leads to, as text."""
    return ";".join(
        f"{item.name}={item.computed or '>'.join(item.relationship or ())}"
        for item in table.attributes
        if not item.stored
    )
