"""Whether an index may serve a query: an estimate from the query and the table alone.

It only decides the order of reads. A query with an index may still examine many rows, and one
without may be satisfied by the first rows; the duration of the read shows which.
"""

from typing import Final

from rowcast.core.conditions import ID_PATH, Condition, Group, Operator, Where
from rowcast.core.queries import Query
from rowcast.core.tables import Table, Type

_FINDING: Final = frozenset(
    {
        Operator.EQ,
        Operator.IN,
        Operator.GT,
        Operator.GE,
        Operator.LT,
        Operator.LE,
        Operator.STARTS_WITH,
    }
)
"""Operators whose matching rows begin at a known place of an index."""
_JSON: Final = frozenset({Type.ANY, Type.OBJECT, Type.LIST})
"""Types whose columns are text of JSON, which no index orders."""


def is_helped(table: Table, query: Query) -> bool:
    """Whether an index may find a query's rows without a full scan."""
    if query.where is not None:
        return _finds(table, query.where)
    if query.stale is not None:
        return False
    return not query.sort or _is_indexed(table, query.sort[0].path)


def _finds(table: Table, where: Where) -> bool:
    if isinstance(where, Condition):
        return where.operator in _FINDING and _is_indexed(table, where.path)
    if not isinstance(where, Group):
        return False
    found = [_finds(table, item) for item in where.items]
    return any(found) if where.all_of else bool(found) and all(found)


def _is_indexed(table: Table, path: tuple[str, ...]) -> bool:
    if path == ID_PATH:
        return True
    item = table.attribute(path[0]) if len(path) == 1 else None
    if item is None:
        return False
    return item.primary_key or (item.indexed and item.has_value and item.type not in _JSON)
