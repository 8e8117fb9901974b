"""Conditions and order as SQL, exactly or not at all: the one compiler of ``core/conditions.py``.

The evaluator there says what conditions mean. What a column keeps natively, SQL decides in the same
way. For the rest (Decimal, nested and undeclared values) SQL only narrows: it selects at least the
right rows, and the caller finishes in Python. A ``Filter`` says which of the two it is.

Every value is bound, never written into the text; every identifier comes from the schema. JSON
paths, which contain names of the caller, are bound as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from rowcast.core.conditions import (
    ID_PATH,
    Claim,
    ComputedPath,
    Condition,
    Group,
    Operator,
    Where,
)
from rowcast.core.queries import Sort
from rowcast.core.scalars import FLOAT_EXACT_MAX, LONG_MAX, LONG_MIN
from rowcast.core.tables import Type
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_dates import date_cell
from rowcast.store.sql_rows import TYPED, Cell
from rowcast.store.sql_tables import EXTRA, FORM, quoted, term_text, value_attributes

_ORDER: Final = {Operator.GT: ">", Operator.GE: ">=", Operator.LT: "<", Operator.LE: "<="}
_TEXT: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS})
_NATIVE: Final = frozenset(
    {Type.ID, Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.BOOLEAN, Type.DATE, Type.BYTES}
)
"""Types whose columns compare and sort like their values."""
_PARTS: Final = 500
"""Conditions joined on one level: half of SQLite's limit."""
_JSON: Final = frozenset({Type.ANY, Type.OBJECT, Type.LIST})


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition as SQL; an empty text selects everything. ``exact``: no other row is selected."""

    text: str = ""
    values: tuple[Cell, ...] = ()
    exact: bool = True


_UNKNOWN: Final = Filter(exact=False)
_NOTHING: Final = Filter("0")
_EVERYTHING: Final = Filter("1")


@dataclass(frozen=True, slots=True)
class Term:
    """The column of a path, and the type of its values."""

    text: str
    type: Type


def terms(part: LogPartition) -> dict[tuple[str, ...], Term]:
    """Return the paths of a table that are columns."""
    layout = part.rows.layout
    key = Term(part.rows.key, Type.LONG if layout.integer else Type.ID)
    found: dict[tuple[str, ...], Term] = {ID_PATH: key}
    if not layout.typed or layout.table is None:
        return found
    found |= {
        (item.name,): Term(quoted(item.name), item.type) for item in value_attributes(layout.table)
    }
    if layout.key_name is not None:
        # Only values have attributes; if all rows are values, the key is one of them.
        text = f"CASE WHEN {quoted(FORM)}={TYPED} THEN {key.text} END" if part.mixed else key.text
        found[(layout.key_name,)] = Term(text, key.type)
    return found


class Conditions:
    """Compiles the conditions of a query to SQL for one table."""

    def __init__(self, part: LogPartition) -> None:
        self._terms = terms(part)
        self._key_name = part.rows.layout.key_name
        self._typed = part.rows.layout.typed

    def filter(self, where: Where | None) -> Filter:
        """Return the SQL of the conditions."""
        if where is None:
            return Filter()
        if isinstance(where, Group):
            return _joined([self.filter(item) for item in where.items], where.all_of)
        if isinstance(where, Condition) and not isinstance(where.value, Claim):
            return self._condition(where)
        return _NOTHING  # a claim that nobody bound is unknown

    def _condition(self, where: Condition) -> Filter:
        if where.operator is Operator.IN and isinstance(where.value, tuple):
            return self._in(where.path, where.value)
        operator = Operator.EQ if where.operator is Operator.IN else where.operator
        term = self._terms.get(where.path)
        if where.operator is Operator.HAS:
            return _having(term, where.value)
        if term is None:
            return self._within(where.path, operator, where.value)
        if where.value is None:
            return _null(term, operator)
        if term.type is Type.DECIMAL:
            return _near(f"CAST({term.text} AS REAL)", operator, where.value)
        value = native(term.type, where.value)
        return _UNKNOWN if value is None else _compared(term, operator, value)

    def _in(self, path: tuple[str, ...], choices: tuple[object, ...]) -> Filter:
        """Return the SQL of a list of choices, in parts: SQLite limits the depth of expressions."""
        term = self._terms.get(path)
        if term is not None and term.type in _NATIVE:
            cells = [native(term.type, choice) for choice in choices]
            if None not in cells:
                marks = ",".join("?" * len(cells))
                return Filter(f"{term.text} IN ({marks})", tuple(cells))
        each = [self._condition(Condition(path, Operator.EQ, choice)) for choice in choices]
        parts = [each[start : start + _PARTS] for start in range(0, len(each), _PARTS)]
        return _joined([_joined(part, all_of=False) for part in parts], all_of=False)

    def _within(self, path: tuple[str, ...], operator: Operator, value: object) -> Filter:
        """Narrow by a value inside a JSON column, if that is cheap and safe."""
        if isinstance(path, ComputedPath):
            return self._computed(path, operator, value)
        declared = self._terms.get(path[:1])
        column = quoted(EXTRA) if declared is None else declared.text
        inner = path if declared is None else path[1:]
        if (declared is not None and declared.type not in _JSON) or path[0] == self._key_name:
            return _UNKNOWN
        if not all(map(_is_plain_name, inner)):
            return _UNKNOWN
        where = "$" + "".join(f'."{name}"' for name in inner)
        narrow = _narrowed(f"json_extract({column},?)", operator, value)
        if not narrow.text:
            return _UNKNOWN
        values = tuple(cell for bound in narrow.values for cell in (where, bound))
        # Always include two spellings that SQLite does not interpret: escaped keys, and types that
        # JSON lacks, such as {"$decimal": "1.5"}.
        other = f"instr({column},'\\')>0 OR instr({column},'\"$')>0"
        return Filter(f"({narrow.text} OR {other})", values, exact=False)

    def _computed(self, path: ComputedPath, operator: Operator, value: object) -> Filter:
        """Narrow by a computed number; for NULL it may be another than SQL has."""
        term = path.formula.term
        if term is None or not self._typed:
            return _UNKNOWN
        return _near(term_text(term), operator, value)


def _having(term: Term | None, value: object) -> Filter:
    """Select a superset of the rows whose list has a text: their JSON contains it, or an escape."""
    if term is None or term.type not in _JSON or not isinstance(value, str):
        return _UNKNOWN
    if not value.isascii() or not value.replace("-", "").replace("_", "").isalnum():
        return _UNKNOWN
    text = f"(instr({term.text},?)>0 OR instr({term.text},'\\')>0)"
    return Filter(text, (value,), exact=False)


def _narrowed(found: str, operator: Operator, value: object) -> Filter:
    """Select a superset of the rows whose JSON value satisfies a comparison."""
    if isinstance(value, str) and operator is Operator.EQ and _encodable(value):
        return Filter(f"{found}=?", (value,), exact=False)
    return _near(found, operator, value)


def _is_plain_name(name: str) -> bool:
    """Whether a key needs no escaping, neither in a JSON path nor in JSON."""
    if not name or not {'"', "\\", "\0"}.isdisjoint(name):
        return False
    return _encodable(name)


def _joined(filters: Sequence[Filter], all_of: bool) -> Filter:
    """Join conditions; an unknown one may be true."""
    exact = all(item.exact for item in filters)
    if not filters:
        return _EVERYTHING if all_of else _NOTHING
    known = [item for item in filters if item.text]
    if not all_of and len(known) < len(filters):
        return Filter(exact=exact)
    if not known:
        return Filter(exact=exact)
    text = (" AND " if all_of else " OR ").join(item.text for item in known)
    values = tuple(value for item in known for value in item.values)
    return Filter(f"({text})", values, exact)


def _null(term: Term, operator: Operator) -> Filter:
    if operator is Operator.EQ:
        return Filter(f"{term.text} IS NULL")
    return Filter(f"{term.text} IS NOT NULL") if operator is Operator.NE else _NOTHING


def _compared(term: Term, operator: Operator, value: Cell) -> Filter:
    """Compare a column with a value of its own type."""
    column = term.text
    if operator is Operator.EQ:
        return Filter(f"{column}=?", (value,))
    if operator is Operator.NE:
        return Filter(f"{column} IS NOT ?", (value,))
    if operator in _ORDER:
        if term.type is Type.BOOLEAN:
            return _NOTHING
        return Filter(f"{column}{_ORDER[operator]}?", (value,))
    if isinstance(value, str) and term.type in {Type.ID, Type.STRING}:
        return _TEXTS[operator](column, value)
    return _NOTHING


def _starts_with(column: str, text: str) -> Filter:
    if not text:
        return Filter(f"{column} IS NOT NULL")
    # A range can use an index. Its upper end is ``text`` and the greatest character; texts with
    # that character right after ``text`` need a range without an upper end.
    if text[-1] >= "\ud7ff":
        return Filter(
            f"({column}>=? AND substr(CAST({column} AS BLOB),1,?)=CAST(? AS BLOB))",
            (text, len(text.encode()), text),
        )
    return Filter(f"({column}>=? AND {column}<?)", (text, text[:-1] + chr(ord(text[-1]) + 1)))


def _ends_with(column: str, text: str) -> Filter:
    if not text:
        return Filter(f"{column} IS NOT NULL")
    # As bytes, because text functions stop at NUL; a suffix in UTF-8 is a suffix in bytes.
    return Filter(f"substr(CAST({column} AS BLOB),?)=CAST(? AS BLOB)", (-len(text.encode()), text))


def _contains(column: str, text: str) -> Filter:
    if not text:
        return Filter(f"{column} IS NOT NULL")
    return Filter(f"instr(CAST({column} AS BLOB),CAST(? AS BLOB))>0", (text,))


_TEXTS: Final[dict[Operator, Callable[[str, str], Filter]]] = {
    Operator.STARTS_WITH: _starts_with,
    Operator.ENDS_WITH: _ends_with,
    Operator.CONTAINS: _contains,
}

_SLACK: Final = 1e-9
"""Tolerance far above the rounding of REAL, and small enough to select few extra rows."""


def _near(number: str, operator: Operator, value: object) -> Filter:
    """Select a superset of the rows whose number satisfies a comparison."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return _UNKNOWN
    try:
        near = float(value)
    except OverflowError:
        return _UNKNOWN
    low, high = near - abs(near) * _SLACK, near + abs(near) * _SLACK
    if near != near or low != low or high != high:  # noqa: PLR0124 - NaN, or infinite
        return _UNKNOWN
    match operator:
        case Operator.EQ:
            return Filter(f"({number}>=? AND {number}<=?)", (low, high), exact=False)
        case Operator.GT | Operator.GE:
            return Filter(f"{number}>=?", (low,), exact=False)
        case Operator.LT | Operator.LE:
            return Filter(f"{number}<=?", (high,), exact=False)
        case _:
            return _UNKNOWN


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def native(type_: Type, value: object) -> Cell:
    """Return the cell of a value in a column of this type; None when it is of another kind."""
    match type_:
        case Type.ID | Type.STRING:
            return value if isinstance(value, str) and _encodable(value) else None
        case Type.INT | Type.LONG | Type.FLOAT:
            return _native_number(type_, value)
        case Type.BOOLEAN:
            return int(value) if isinstance(value, bool) else None
        case Type.DATE:
            return date_cell(value) if isinstance(value, datetime) else None
        case Type.BYTES:
            return value if isinstance(value, bytes) else None
        case _:
            return None


def _native_number(type_: Type, value: object) -> Cell:
    if isinstance(value, bool) or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, float):
        return value
    if not isinstance(value, int):
        return None
    if type_ is Type.FLOAT:  # an index on REAL rounds the operand
        return value if -FLOAT_EXACT_MAX <= value <= FLOAT_EXACT_MAX else None
    return value if LONG_MIN <= value <= LONG_MAX else None


# -- order -----------------------------------------------------------------------------------------


def sort_terms(part: LogPartition, sort: Sequence[Sort]) -> list[tuple[Term, bool]] | None:
    """Return the columns of an order and which descend; None when SQL cannot sort so."""
    known = terms(part)
    found: list[tuple[Term, bool]] = []
    for item in sort:
        term = known.get(item.path)
        if term is None or term.type not in _NATIVE:
            return None
        found.append((term, item.descending))
    return found


def order_by(part: LogPartition, keys: Sequence[tuple[Term, bool]]) -> str:
    """Return the ORDER BY of an order: missing values last, then the record's id."""
    parts = [
        f"{term.text} DESC NULLS LAST" if descending else f"{term.text} NULLS LAST"
        for term, descending in keys
    ]
    return "ORDER BY " + ",".join([*parts, part.rows.key])


def segments(
    part: LogPartition, keys: Sequence[tuple[Term, bool]], values: Sequence[object]
) -> list[Filter]:
    """Return the rows after one with these sort values and id, as ranges in order.

    One range for each sort key that may be the first to differ, so that each range can use an index
    and needs no merge.
    """
    key = part.rows.key
    cells = [
        None if value is None else native(term.type, value)
        for (term, _), value in zip(keys, values, strict=False)
    ]
    found: list[Filter] = []
    for count in range(len(keys), -1, -1):
        same = [
            Filter(f"{term.text} IS ?", (cell,))
            for (term, _), cell in zip(keys[:count], cells[:count], strict=True)
        ]
        if count == len(keys):
            last = values[-1]
            cell = last if isinstance(last, str | int) else None
            found.append(_joined([*same, Filter(f"{key}>?", (cell,))], all_of=True))
        elif cells[count] is not None:
            term, descending = keys[count]
            beyond = Filter(f"{term.text}{'<' if descending else '>'}?", (cells[count],))
            missing = Filter(f"{term.text} IS NULL")
            found.append(_joined([*same, beyond], all_of=True))
            found.append(_joined([*same, missing], all_of=True))
    return found
