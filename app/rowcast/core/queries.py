"""A query: a selection of one table's records, as data.

``query_text.py`` reads one from a URL's query string; a store turns one into SQL; ``evaluation.py``
answers one in memory. Both give the same result for the same records.
"""

from dataclasses import dataclass
from enum import StrEnum

from rowcast.core.conditions import Path, Where
from rowcast.core.grouping import Grouping
from rowcast.core.relations import RelatedKeys, Relation, related_conditions
from rowcast.core.tables import Table


class Projection(StrEnum):
    """The form of a selected record."""

    OBJECT = "object"
    """``select(a,b)``: an object with these keys."""
    VALUE = "value"
    """``select(a)``: the bare value."""
    ARRAY = "array"
    """``select([a,b])``: a list of the values."""


@dataclass(frozen=True, slots=True)
class RelatedSelect:
    """A selected relationship, and which parts of the other records; None: all of them."""

    relation: Relation
    select: "Select | None" = None


@dataclass(frozen=True, slots=True)
class Select:
    """Which parts of each record are returned; ``$id`` is the record's id.

    ``related`` are the paths that are relationships, whose values come from other tables.
    """

    paths: tuple[Path, ...]
    shape: Projection = Projection.OBJECT
    related: tuple[RelatedSelect, ...] = ()


@dataclass(frozen=True, slots=True)
class Sort:
    """One key of the order; records without a value come last, whatever the direction."""

    path: Path
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions, order, page and parts.

    The order is always total: the record's id is the last key. ``after`` is an opaque page token
    from an earlier answer; it makes pages stable under concurrent writes.
    """

    where: Where | None = None
    select: Select | None = None
    sort: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int = 0
    after: str | None = None
    stale: bool | None = None
    """Only records that are stale (``_stale=true``), or only fresh ones; None: both."""
    stale_below: int = 0
    """The version below which records are stale; set when the query is read."""
    group: Grouping | None = None
    """The groups that are returned in place of records."""


def related_tables(table: Table, where: Where | None, select: Select | None = None) -> list[Table]:
    """Return the other tables that conditions are on, or parts are selected of, each once."""
    found: dict[str, Table] = {}
    for condition in related_conditions(where):
        if isinstance(condition.value, RelatedKeys):
            _add(found, condition.value.relation.table, condition.value.where, None)
    for related in select.related if select is not None else ():
        _add(found, related.relation.table, None, related.select)
    found.pop(table.name, None)
    return list(found.values())


def _add(found: dict[str, Table], other: Table, where: Where | None, select: Select | None) -> None:
    for one in (other, *related_tables(other, where, select)):
        found[one.name] = one
