"""A query: a selection of one table's records, as data.

``core/query_text.py`` reads one from a URL's query string; ``store`` turns one into SQL;
``core/evaluation.py`` answers one in memory. All three give the same result for the same
records.
"""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How a condition compares; the value is its spelling between ``=`` signs."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"
    STARTS_WITH = "sw"
    ENDS_WITH = "ew"
    CONTAINS = "ct"
    IN = "in"
    HAS = "has"
    """The list at the path has the value as an item; only rules say so."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of the value at ``path`` (attribute, then keys within it) with ``value``.

    ``value`` is already of the attribute's type where that is declared; a tuple for IN. A missing
    value equals null, and no ordering or text operator holds for it.
    """

    path: tuple[str, ...]
    operator: Operator
    value: object


@dataclass(frozen=True, slots=True)
class Group:
    """Conditions joined by ``and`` (``all_of``) or by ``or``."""

    items: tuple["Condition | Group", ...]
    all_of: bool = True


class Projection(StrEnum):
    """What ``select`` makes of a record."""

    OBJECT = "object"
    """``select(a,b)``: an object with these keys."""
    VALUE = "value"
    """``select(a)``: the bare value."""
    ARRAY = "array"
    """``select([a,b])``: a list of the values."""


@dataclass(frozen=True, slots=True)
class Select:
    """Which parts of each record are returned; ``$id`` is the record's id."""

    paths: tuple[tuple[str, ...], ...]
    shape: Projection = Projection.OBJECT


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of the order; records without a value come last, whatever the direction."""

    path: tuple[str, ...]
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions, order, page and parts.

    The order is always total: the record's id is the last key. ``after`` is an opaque page token
    that an earlier answer gave; it makes pages stable under concurrent writes.
    """

    where: Condition | Group | None = None
    select: Select | None = None
    sort: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int = 0
    after: str | None = None
    stale: bool | None = None
    """Only records that are stale (``_stale=true``), or only fresh ones; None: both."""
    stale_below: int = 0
    """The version below which records are stale: the reader of the query fills it in."""
