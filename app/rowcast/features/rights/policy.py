"""The policy: all that is said of who may do what, compiled for one kind of caller at a time.

What is said, and which of it decides:

1. The role ``admin``, and the server itself, may everything.
2. A topic rule that denies (``core/topic_rules.py``) decides; else one that allows; else the
   caller's grants. Once there is any rule, what the server tells of itself under ``$SYS`` is for
   administrators and whomever a rule allows: its figures count what is hidden, too.
3. Beside that, the ``@auth`` of a table decides about its records (``table_sight.py``).

Callers that no rule could tell apart are of one kind, and share what was compiled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.core.callers import ADMIN, Caller
from rowcast.core.claims import CLIENT, USER, claims_of
from rowcast.core.clauses import Clause
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule

ANONYMOUS: Final = "anonymous"

Kind = tuple[object, ...]
"""What makes callers alike; it can be a key."""


def fact_of(caller: Caller, path: tuple[str, ...]) -> object:
    """Return what rules know of a caller; None where there is nothing, as of one without a name."""
    if path == USER:
        return caller.user if caller.user != ANONYMOUS else None
    if path == CLIENT:
        return caller.client_id or None
    return caller.claims.get(path[1])


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that is said, as it was declared."""

    tables: Sequence[Table] = ()
    rules: Sequence[TopicRule] = ()
    remembered: bool = False
    """Whether the log may have rules of before, which only administrators read."""

    @property
    def active(self) -> bool:
        """Whether anything is said beside grants."""
        return self.remembered or self.restricts

    @property
    def restricts(self) -> bool:
        """Whether anything is said now: then ``$SYS`` is for administrators."""
        return bool(self.rules) or any(table.restricted for table in self.tables)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return the facts of callers that any of it looks at."""
        found = {path for rule in self.rules for path in rule.places.values()}
        for clause in self._clauses():
            found.update(claims_of(clause.read), claims_of(clause.write))
        return tuple(sorted(found))

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that any of it names."""
        named = [rule.roles for rule in self.rules] + [item.roles for item in self._clauses()]
        return frozenset({ADMIN}.union(*named))

    @property
    def users(self) -> frozenset[str]:
        """Return the users that any of it names."""
        return frozenset[str]().union(*(rule.users for rule in self.rules))

    def _clauses(self) -> list[Clause]:
        of_tables = [clause for table in self.tables for clause in table.auth]
        fields = [item for table in self.tables for item in table.attributes]
        return of_tables + [clause for item in fields for clause in item.auth]
