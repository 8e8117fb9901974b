"""Clauses: what ``@auth`` says of a table or of an attribute, as data.

Clauses of one thing add up: who satisfies one of them may. One without roles is for everybody.
"""

from dataclasses import dataclass

from rowcast.core.conditions import EVERYTHING, Where, is_constant, join


@dataclass(frozen=True, slots=True)
class Clause:
    """One ``@auth``; ``read`` and ``write`` are None where it does not say."""

    roles: frozenset[str] = frozenset()
    read: Where | None = None
    write: Where | None = None
    masks: tuple[tuple[str, str], ...] = ()
    """Attributes that are shown masked to those whom it lets read, and how."""

    text: str = ""
    """As it was written."""

    @property
    def bare(self) -> bool:
        """Whether it names roles or masks alone: then it lets them read and write."""
        return self.read is None and self.write is None

    @property
    def looks(self) -> bool:
        """Whether it looks at the record."""
        return any(rule is not None and not is_constant(rule) for rule in (self.read, self.write))


def read_rules(clauses: tuple[Clause, ...], roles: frozenset[str]) -> list[tuple[Where, Clause]]:
    """Return the rules by which somebody of these roles may read."""
    return [
        (EVERYTHING if item.read is None else item.read, item)
        for item in clauses
        if _applies(item, roles) and (item.bare or item.read is not None)
    ]


def rules_reading(clauses: tuple[Clause, ...]) -> bool:
    """Tell whether clauses say anything of reading; if not, everybody may."""
    return any(item.bare or item.read is not None for item in clauses)


def write_rule(clauses: tuple[Clause, ...], roles: frozenset[str]) -> Where:
    """Return the rule by which somebody of these roles may write.

    Where no clause says who may write, who may read may.
    """
    said = any(item.write is not None for item in clauses)
    rules: list[Where] = []
    for item in clauses:
        if not _applies(item, roles):
            continue
        if item.write is not None:
            rules.append(item.write)
        elif item.bare:
            rules.append(EVERYTHING)
        elif not said and item.read is not None:
            rules.append(item.read)
    return join(rules, all_of=False)


def _applies(clause: Clause, roles: frozenset[str]) -> bool:
    return not clause.roles or bool(clause.roles & roles)
