"""Topic rules: who may do what below which topics, and the one evaluator of all that say so.

Rows of ``$SYS/rules``, which the commands of ``$CONTROL`` make too, and the access list of the
settings are read into ``TopicRule``; ``RulesOf`` answers with those that concern one caller. What
the spellings mean differently is data here: which actions a rule answers, what stands for the
caller's names in its filters, and by ``Combining`` which of several rules decides. What holds where
no rule decides is for whoever asks.

It knows no grants and no records; which records of a table a rule allows is kept here, for others
to evaluate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, product
from typing import Final

from rowcast.core.claims import Facts
from rowcast.core.conditions import EVERYTHING, Path, Where
from rowcast.core.patterns import filled
from rowcast.core.right_limits import RULE_PATTERNS_MAX
from rowcast.core.topics import Levels, covers, overlaps


class Combining(Enum):
    """Which rule decides, of those that answer a question."""

    DENIAL_WINS = "denial wins"
    """One that denies, wherever it stands; else the first that allows."""
    FIRST_MATCH = "first match"
    """The first, whether it allows or denies."""


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One rule; ``name`` says to people which one it is."""

    name: str
    filters: tuple[str, ...]
    allows: bool
    answered: frozenset[str]
    """The actions that it says anything of."""

    roles: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    """It is about callers with one of these roles or names; about all if there are none."""

    clients: frozenset[str] = frozenset()
    """It is about these client ids only; about all if there are none."""

    attributes: frozenset[str] = frozenset()
    """It is about these parts of a table's records only, and denies no topic as a whole."""

    table: str = ""
    """The table of which it allows the records that satisfy ``where`` only, or with ``masks``."""
    where: Where = EVERYTHING
    masks: tuple[tuple[str, str], ...] = ()
    """Attributes of those records that readers see in part, and how (``masks.py``)."""

    places: Mapping[str, Path] = field(default_factory=dict, compare=False)
    """What stands in the filters for claims of the caller, by how it is written there."""

    def concerns(self, user: str, roles: frozenset[str], client_id: str) -> bool:
        """Tell whether it is about a caller."""
        if self.clients and client_id not in self.clients:
            return False
        if not self.roles and not self.users:
            return True
        return user in self.users or bool(self.roles & roles)

    def answers(self, action: str) -> bool:
        """Tell whether it says anything of an action."""
        return action in self.answered

    def patterns(self, facts: Facts) -> list[Levels]:
        """Return what it selects for one caller: a claim with several values gives several."""
        values = (_names(facts(path)) for path in self.places.values())
        known = [
            dict(zip(self.places, names, strict=True))
            for names in islice(product(*values), RULE_PATTERNS_MAX)
        ]
        return [filled(text, names) for text in self.filters for names in known]


def _names(value: object) -> list[str]:
    """Return the names that a claim gives; an empty one fits nowhere."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(item) if isinstance(item, str | int) else "" for item in values]


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with a caller's names in its filters."""

    rule: TopicRule
    patterns: Sequence[Levels]

    def covers(self, wanted: Sequence[str]) -> bool:
        """Tell whether it is about all that a topic or filter selects."""
        return any(covers(pattern, wanted) for pattern in self.patterns)

    def overlaps(self, wanted: Sequence[str]) -> bool:
        """Tell whether it is about anything that a topic or filter selects."""
        return any(overlaps(pattern, wanted) for pattern in self.patterns)

    def divides(self, wanted: Sequence[str]) -> bool:
        """Tell whether it is about some of that and not about the rest."""
        return any(overlaps(p, wanted) and not covers(p, wanted) for p in self.patterns)


class RulesOf:
    """The rules about one caller."""

    __slots__ = ("_combining", "_rules")

    def __init__(self, rules: Iterable[BoundRule], combining: Combining) -> None:
        self._rules: Final = tuple(rules)
        self._combining = combining

    def answering(self, action: str) -> Iterator[BoundRule]:
        """Give the rules that say anything of an action, in their order."""
        return (item for item in self._rules if item.rule.answers(action))

    def deciding(self, action: str, wanted: Sequence[str]) -> TopicRule | None:
        """Return the rule that decides about the whole of a topic or filter, given as levels."""
        found = (item.rule for item in self.answering(action) if item.covers(wanted))
        if self._combining is Combining.FIRST_MATCH:
            return next(found, None)
        allowing: TopicRule | None = None
        for rule in found:
            if rule.allows:
                allowing = allowing or rule
            elif not rule.attributes:
                return rule
        return allowing

    def allowing_some(self, action: str, wanted: Sequence[str]) -> TopicRule | None:
        """Return the first rule that allows anything of what a filter selects."""
        allowing = (item for item in self.answering(action) if item.rule.allows)
        return next((item.rule for item in allowing if item.overlaps(wanted)), None)
