"""Table rules: what topic rules say to one kind of caller of the records of a table.

A rule that allows a whole table may name what it allows: attributes, the records that satisfy a
condition (``where``), and masks of attributes. What a caller is allowed is what any of its rules
allows; a rule that names nothing of this allows all. Rules that name attributes only allow these
in every record, so where both are there, such attributes are all that is shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rowcast.core.claims import Facts, bind
from rowcast.core.conditions import EVERYTHING, NOTHING, Where
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule


class Alternative(NamedTuple):
    """One of the ways in which a record may be seen."""

    where: Where
    masks: Mapping[str, str]
    """The masks of attributes where it holds, and no alternative without them does."""
    text: str = ""
    """Names it to people."""


View = tuple[Alternative, ...]
"""What must hold of a record for it to be seen: any of these."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """What rules say of reading a table's records, or of writing them."""

    out: frozenset[str] = frozenset()
    """Attributes that are denied."""
    only: frozenset[str] | None = None
    """Attributes that are allowed; None: all."""
    view: View | None = None
    """What a record must satisfy; None: every record is allowed, as it is."""

    @property
    def says_nothing(self) -> bool:
        """Whether all of every record is allowed."""
        return not self.out and self.only is None and self.view is None


def table_rules(rules: Iterable[TopicRule], table: Table, facts: Facts) -> TableRules:
    """Return what rules about the whole of a table say together; ``facts``: of the caller."""
    found = list(rules)
    out = frozenset[str]().union(*(rule.attributes for rule in found if not rule.allows))
    allowing = [rule for rule in found if rule.allows]
    if not allowing or any(not rule.attributes and not rule.table for rule in allowing):
        return TableRules(out)
    naming = [rule.attributes for rule in allowing if rule.attributes]
    narrowing = any(rule.table for rule in allowing)
    return TableRules(
        out,
        frozenset[str]().union(*naming) if naming else None,
        tuple(_alternative(rule, table, facts) for rule in allowing) if narrowing else None,
    )


def _alternative(rule: TopicRule, table: Table, facts: Facts) -> Alternative:
    """Return which records a rule allows, and its masks."""
    text = f"the rule {rule.name!r}"
    if not rule.table:
        return Alternative(EVERYTHING, {}, text)
    if rule.table != table.name:  # its filter selects another table's records, too
        return Alternative(NOTHING, {}, text)
    return Alternative(bind(rule.where, facts), dict(rule.masks), text)
