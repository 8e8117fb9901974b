"""Groups of records in SQL where that is exact, completed in Python elsewhere.

SQL groups by columns that compare like their values, and computes what is exact there: numbers of
integer and float columns, extremes of columns with an order. For the rest, and where a sum of
integers exceeds 64 bits, the matching rows are added up one by one, in the memory of the groups.
"""

# ruff: noqa: S608 - names are quoted and of the schema, values are bound

from collections.abc import Iterable, Iterator
from sqlite3 import Cursor, OperationalError
from typing import Final

from rowcast.core.grouping import (
    Aggregate,
    GroupFunction,
    Grouping,
    GroupRow,
    Groups,
    in_order,
    too_many_groups,
)
from rowcast.core.tables import Type
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_query import Filter, Term, terms
from rowcast.store.sql_rows import Row, cell_value
from rowcast.store.sql_tables import quoted

_KEYS: Final = frozenset(
    {Type.ID, Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.BOOLEAN, Type.DATE, Type.BYTES}
)
_NUMBERS: Final = frozenset({Type.INT, Type.LONG, Type.FLOAT})
_OVERFLOW: Final = "integer overflow"


def grouped_in_sql(
    cursor: Cursor, part: LogPartition, grouping: Grouping, selected: Filter, most: int
) -> list[GroupRow] | None:
    """Return the rows of the groups; None when SQL cannot compute them exactly."""
    known = terms(part)
    keys = [known.get(path) for path in grouping.paths]
    computed = [_computed(item, known) for item in grouping.aggregates]
    if not selected.exact or not all(computed):
        return None
    found = [term for term in keys if term is not None and term.type in _KEYS]
    if len(found) < len(keys):
        return None
    columns = ",".join([*(term.text for term in found), *(item for item in computed if item)])
    where = f"WHERE {selected.text}" if selected.text else ""
    by = f"GROUP BY {','.join(map(str, range(1, len(found) + 1)))}" if found else ""
    text = f"SELECT {columns} FROM {quoted(part.rows.name)} {where} {by} LIMIT {most + 1}"
    try:
        rows = cursor.execute(text, selected.values).fetchall()
    except OperationalError as error:
        if str(error) != _OVERFLOW:
            raise
        return None
    if len(rows) > most:
        raise too_many_groups(most)
    types = [term.type for term in found] + [_type(item, known) for item in grouping.aggregates]
    return in_order([_row(grouping, types, row) for row in rows], grouping)


def _computed(item: Aggregate, known: dict[tuple[str, ...], Term]) -> str:
    """Return the SQL of an aggregate; empty when it is not exact."""
    if item.path is None:
        return "count(*)"
    term = known.get(item.path)
    if term is None:
        return ""
    if item.function is GroupFunction.COUNT:
        return f"count({term.text})"
    summed = item.function in {GroupFunction.SUM, GroupFunction.AVG}
    exact = term.type in (_NUMBERS if summed else _KEYS)
    return f"{item.function.value}({term.text})" if exact else ""


def _type(item: Aggregate, known: dict[tuple[str, ...], Term]) -> Type:
    """Return the type of an aggregate's cells."""
    extreme = item.function in {GroupFunction.MIN, GroupFunction.MAX}
    return known[item.path].type if extreme and item.path is not None else Type.LONG


def _row(grouping: Grouping, types: list[Type], cells: Iterable[object]) -> GroupRow:
    values = [cell_value(type_, cell) for type_, cell in zip(types, cells, strict=True)]
    return dict(zip(grouping.names, values, strict=True))


def grouped_one_by_one(
    part: LogPartition, grouping: Grouping, rows: Iterator[Row], most: int
) -> list[GroupRow]:
    """Return the rows of the groups of these records."""
    groups, value = Groups(grouping, most), part.rows.value
    for row in rows:
        groups.add(value(row), row[0])
    return groups.rows()
