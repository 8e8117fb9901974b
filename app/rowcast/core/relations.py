"""Relationships: how records of one table lead to those of another (A9).

``owner: Owner @relationship(from: owner_id)`` leads from the value of an attribute here, which may
be a list, to the key there; ``dogs: [Dog] @relationship(to: owner_id)`` from the key here to an
attribute there. Data and names only: the kernel reads the other table, with the caller's rights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rowcast.core.conditions import ID_PATH, Condition, Group, Operator, Path, Where, reach
from rowcast.core.tables import Attribute, Table, Type

Tables = Mapping[str, Table]
"""The tables of a schema, by name."""

_PART: Final = 500
"""Alternatives on one level of a condition, whose depth SQL limits."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One relationship: the other table, and the paths whose values are equal.

    ``own`` is the path here, ``other`` that in the other table; ``many``: it leads to a list.
    """

    name: str
    table: Table
    own: Path
    other: Path
    many: bool
    listed: bool = False
    """Whether the value here is a list of keys."""
    lists: bool = False
    """Whether the value there is one: of a relationship that is followed backwards."""

    def keys(self, value: object, record_id: object) -> list[object]:
        """Return the values here by which the other records are found."""
        found = reach(self.own, value, record_id)
        items = found if self.listed and isinstance(found, list | tuple) else [found]
        return [item for item in items if item is not None]


@dataclass(frozen=True, slots=True)
class RelatedKeys:
    """Stands in a condition for the keys of the other records that match ``where``.

    The kernel replaces it by these keys; until then the condition holds for no record.
    """

    relation: Relation
    where: Where


def relation_of(table: Table, name: str, tables: Tables) -> Relation | None:
    """Return a table's relationship; None if there is none of that name that may be followed.

    An attribute that is never returned must not be found out by its relationship.
    """
    attribute = table.attribute(name)
    if attribute is None or attribute.relationship is None or attribute.hidden:
        return None
    other = tables.get(attribute.type_name)
    end, joint = attribute.relationship
    holder = table if end == "from" else other
    through = holder.attribute(joint) if holder is not None else None
    if other is None or other.path is None or through is None or through.hidden:
        return None
    many = attribute.type is Type.LIST
    if end == "from":
        listed = through.type is Type.LIST
        return Relation(name, other, _path(table, through), ID_PATH, many, listed)
    return Relation(name, other, ID_PATH, _path(other, through), many)


def backwards(relation: Relation, table: Table) -> Relation:
    """Return the way back to ``table``, from which a relationship leads."""
    return Relation(relation.name, table, relation.other, relation.own, True, lists=relation.listed)


def _path(table: Table, attribute: Attribute) -> Path:
    return ID_PATH if attribute is table.primary_key else (attribute.name,)


def of_keys(relation: Relation, keys: Sequence[object]) -> Where:
    """Return the condition on the records here that lead to any of these keys."""
    if not relation.listed:
        return Condition(relation.own, Operator.IN, tuple(keys))
    each = [Condition(relation.own, Operator.HAS, item) for item in keys]
    parts = [Group(tuple(each[at : at + _PART]), False) for at in range(0, len(each), _PART)]
    return Group(tuple(parts), all_of=False)


def related_conditions(where: Where | None) -> Iterator[Condition]:
    """Yield the conditions that stand for those on other tables."""
    if isinstance(where, Group):
        for item in where.items:
            yield from related_conditions(item)
    elif isinstance(where, Condition) and isinstance(where.value, RelatedKeys):
        yield where


def through(relation: Relation, where: Where) -> Condition:
    """Return the condition on this table that stands for one on the other."""
    operator = Operator.IN
    return Condition(relation.own, operator, RelatedKeys(relation, where))
