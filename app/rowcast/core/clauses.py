"""Clauses: the directives of a table that are about the content of its records, as data.

``@auth`` of a table or an attribute: several clauses are alternatives, and a caller needs to
satisfy one. A clause without roles is for everybody. ``@alarm`` of a table: when it is raised for a
record, and when it is cleared; ``features/alarms`` applies it.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from rowcast.core.conditions import EVERYTHING, Where, holds, is_constant, join


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


class Severity(StrEnum):
    """How severe an alarm is (ITU-T X.733, 8.1.2.3)."""

    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """One ``@alarm`` of a table."""

    name: str
    when: Where
    """It is raised for a record for which this holds."""
    clear: Where | None = None
    """It is cleared when this holds and ``when`` does not; None: as soon as ``when`` does not."""
    for_seconds: float = 0
    """How long ``when`` must hold without a break."""
    severity: Severity = Severity.MAJOR
    webhook: str = ""
    """The name of the configured webhook that is told of it; empty: the default one, if any."""
    when_text: str = ""
    clear_text: str = ""

    @property
    def digest(self) -> str:
        """A text that differs for a rule that decides differently."""
        facts = (self.when_text, self.clear_text, self.for_seconds)
        return blake2b(repr(facts).encode(), digest_size=8).hexdigest()

    def hot(self, value: object, record_id: object) -> bool:
        """Whether a record's value raises it."""
        return holds(self.when, value, record_id)

    def cool(self, value: object, record_id: object) -> bool:
        """Whether a record's value, for which ``when`` does not hold, clears it."""
        return self.clear is None or holds(self.clear, value, record_id)
