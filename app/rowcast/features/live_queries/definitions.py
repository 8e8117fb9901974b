"""The live queries that the schema names, and since when each name has its conditions.

A reader that returns with a cursor has the records of the conditions at that time. So the server
remembers the definition of each name, with the position at which it began to be that; a cursor from
before it cannot be continued.
"""

from collections.abc import Iterable
from typing import Final

from rowcast.core.facts import Change
from rowcast.core.named_queries import NamedQuery

OWNER: Final = "live_queries/names"


class Definitions:
    """The named queries of one server."""

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

    def restore(self, facts: Iterable[tuple[str, str, bytes]], position: int) -> None:
        """Compare the definitions with stored ones; what is another one begins at ``position``."""
        known = {name: value.decode() for _, name, value in facts}
        for name, query in self._queries.items():
            seq, _, definition = known.get(name, "").partition(" ")
            if definition == query.definition:
                self._since[name] = int(seq)
                continue
            self._since[name] = position if definition else 0
            value = f"{self._since[name]} {query.definition}"
            self.changes.append(Change(OWNER, name, value.encode()))
