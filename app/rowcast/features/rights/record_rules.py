"""Rows of ``$SYS/rules`` that allow some of a table's records, or parts of them (M9).

    {"filter": "Dog/#", "actions": ["read"], "roles": ["vet"],
     "where": "site in $user.sites", "mask": {"phone": "last4"}}

The condition and the masks are those of ``@auth``. What several such rules say together is in
``table_rules.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rowcast.core.conditions import EVERYTHING, Where
from rowcast.core.errors import Code, Error
from rowcast.core.masks import MASKS, is_mask
from rowcast.core.query_terms import Unreadable
from rowcast.core.row_rules import parse_rule
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.core.topic_rules import TopicRule

_TAKING: Final = frozenset({"read", "write"})


def wrong(words: str) -> Error:
    """Return the error of a row that is no rule."""
    return Error(Code.INVALID, f"a rule {words}")


def names_records(value: object) -> bool:
    """Whether a row says which records it allows, or what of them."""
    return isinstance(value, Mapping) and any(
        value.get(member) is not None for member in ("where", "mask")
    )


def about_records(rule: TopicRule, value: object, tables: Sequence[Table]) -> TopicRule:
    """Return a rule with the condition and masks of its row; raises INVALID."""
    row = value if isinstance(value, Mapping) else {}
    if not rule.allows:
        raise wrong("that denies has no where and no mask: allow the records that remain instead")
    if rule.attributes:
        raise wrong('with where or mask has no attributes: hide one by mask, such as "null"')
    if not rule.answered & _TAKING:
        raise wrong("with where or mask is about reading or writing records, or all")
    table = _table_of(rule.filters[0], tables)
    masks = _masks(row.get("mask"), table)
    if masks and not rule.answers("read"):
        raise wrong("with a mask is about reading: add it to its actions")
    return replace(rule, table=table.name, where=_where(row.get("where"), table), masks=masks)


def _table_of(text: str, tables: Sequence[Table]) -> Table:
    """Return the table whose records a filter selects."""
    known = {f"{table.path}/#": table for table in tables if table.path}
    table = known.get(text)
    if table is None:
        hint = did_you_mean(text, known) or f"; known are {', '.join(sorted(known)[:9]) or 'none'}"
        raise wrong(f"with where or mask is about a whole declared table; {text!r} is none{hint}")
    return table


def _where(text: object, table: Table) -> Where:
    if text is None:
        return EVERYTHING
    if not isinstance(text, str):
        raise wrong('has where as a condition, such as "owner == $user"')
    try:
        return parse_rule(text, table)
    except Unreadable as unreadable:
        raise wrong(f"has a where that cannot be read: {unreadable}") from None


def _masks(value: object, table: Table) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping) or not value:
        raise wrong('has mask as a map of attributes, such as {"phone": "last4"}')
    known = [item.name for item in table.attributes if item.stored and not item.primary_key]
    for name, mask in value.items():
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise wrong(f"masks {name!r}, which {table.name} does not declare{hint}")
        if not isinstance(mask, str) or not is_mask(mask):
            raise wrong(f"has the mask {mask!r} for {name}; a mask is {MASKS}")
    return tuple((str(name), str(mask)) for name, mask in value.items())
