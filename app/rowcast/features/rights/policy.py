"""The policy: all rules and ``@auth``, compiled for each kind of caller.

What is said, and which of it decides:

1. The role ``admin``, and the server itself, may everything.
2. A topic rule that denies (``core/topic_rules.py``) decides; else one that allows; else the
   caller's grants. Once there is any rule, what the server tells of itself under ``$SYS`` is for
   administrators and whomever a rule allows: its figures count what is hidden, too.
3. Beside that, the ``@auth`` of a table decides about its records (``row_policy.py``).
4. Beside all that, for administrators too, the access list of the settings (``access_list.py``).

Callers that no rule distinguishes are of one kind, and share a compiled policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.callers import ADMIN, Caller
from rowcast.core.claims import CLIENT, USER, claims_of
from rowcast.core.clauses import Clause
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule
from rowcast.features.rights.access_list import AccessList

ANONYMOUS: Final = "anonymous"

Kind = tuple[object, ...]
"""The key of a kind of caller."""


def fact_of(caller: Caller, path: tuple[str, ...]) -> object:
    """Return a fact about a caller for rules; None if missing, as for an anonymous one."""
    if path == USER:
        return caller.user if caller.user != ANONYMOUS else None
    if path == CLIENT:
        return caller.client_id or None
    return caller.claims.get(path[1])


@dataclass(frozen=True, slots=True)
class Policy:
    """The declared policy."""

    tables: Sequence[Table] = ()
    rules: Sequence[TopicRule] = ()
    remembered: bool = False
    """Whether the log may have earlier rules, which only administrators may read."""
    access: AccessList = field(default_factory=AccessList)

    @property
    def active(self) -> bool:
        """Whether there is more than grants."""
        return self.remembered or self.restricts or bool(self.access)

    @property
    def restricts(self) -> bool:
        """Whether there are rules now; then ``$SYS`` is for administrators.

        The access list says itself who may read there.
        """
        return bool(self.rules) or any(table.restricted for table in self.tables)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return the facts of callers that it uses."""
        found = {path for rule in self.rules for path in rule.places.values()}
        found.update(path for rule in self.rules for path in claims_of(rule.where))
        for clause in self._clauses():
            found.update(claims_of(clause.read), claims_of(clause.write))
        return tuple(sorted(found))

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that it names."""
        named = [rule.roles for rule in self.rules] + [item.roles for item in self._clauses()]
        return frozenset({ADMIN}.union(*named))

    @property
    def guarded(self) -> list[Table]:
        """Return the tables of which rules show some callers some records only."""
        named = {rule.table for rule in self.rules}
        return [table for table in self.tables if table.name in named]

    @property
    def users(self) -> frozenset[str]:
        """Return the users that it names."""
        return frozenset[str]().union(*(rule.users for rule in self.rules))

    def _clauses(self) -> list[Clause]:
        of_tables = [clause for table in self.tables for clause in table.auth]
        fields = [item for table in self.tables for item in table.attributes]
        return of_tables + [clause for item in fields for clause in item.auth]
