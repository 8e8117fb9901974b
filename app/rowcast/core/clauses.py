"""Clauses: the ``@auth`` directives of a table or an attribute, as data.

Several clauses are alternatives: a caller needs to satisfy one. A clause without roles is for
everybody.
"""

from dataclasses import dataclass

from rowcast.core.conditions import EVERYTHING, Where, is_constant, join


@dataclass(frozen=True, slots=True)
class Clause:
    """One ``@auth``; ``read`` and ``write`` are None if it does not set them."""

    roles: frozenset[str] = frozenset()
    read: Where | None = None
    write: Where | None = None
    masks: tuple[tuple[str, str], ...] = ()
    """Masked attributes of readers by this clause, with their masks."""

    text: str = ""
    """The source text."""

    @property
    def bare(self) -> bool:
        """Whether it has only roles or masks: then it allows reading and writing."""
        return self.read is None and self.write is None

    @property
    def looks(self) -> bool:
        """Whether it depends on the record."""
        return any(rule is not None and not is_constant(rule) for rule in (self.read, self.write))


def read_rules(clauses: tuple[Clause, ...], roles: frozenset[str]) -> list[tuple[Where, Clause]]:
    """Return the read rules for a caller with these roles."""
    return [
        (EVERYTHING if item.read is None else item.read, item)
        for item in clauses
        if _applies(item, roles) and (item.bare or item.read is not None)
    ]


def rules_reading(clauses: tuple[Clause, ...]) -> bool:
    """Whether clauses restrict reading; if not, everybody may read."""
    return any(item.bare or item.read is not None for item in clauses)


def write_rule(clauses: tuple[Clause, ...], roles: frozenset[str]) -> Where:
    """Return the write rule for a caller with these roles.

    If no clause sets ``write``, the read rules apply.
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
