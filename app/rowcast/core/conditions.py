"""Conditions on a record: the expression tree, and its reference evaluator.

Two parsers build the tree: ``query_text`` reads a URL's query string, ``row_rules`` the rules of
``@auth``. One compiler, ``store/sql_query.py``, turns it into SQL, and selects the records for
which ``holds`` is true here; ``tests/store/test_store_conditions.py`` compares the two.

The rules. A missing value equals null, and so does NaN, as SQL stores it. ``comparison.py`` defines
how values of one kind compare; values of different kinds are never equal and never ordered. Null,
booleans, lists and objects have no order. No operator of text holds for what is not text.

A caller's claim, on the other hand, may be *unknown*, which is not null: a comparison with an
unknown claim is false, whatever its operator, including ``!=``. Claims occur only in rules, and
``claims.bind`` replaces them by values; an unreplaced one is unknown. So missing claims deny.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Final, cast

from rowcast.core.comparison import RANK_LAST, Place, equal
from rowcast.core.formula import Formula
from rowcast.core.scalars import is_number
from rowcast.core.tables import Type

Path = tuple[str, ...]
"""The path of a value: an attribute, then keys within it."""

ID_PATH: Final[Path] = ("$id",)
"""The path of the record's id."""


class ComputedPath(Path):
    """The path of a computed attribute, whose value is made of others.

    Wherever the value at a path is reached, it is computed; stores that look for a column find
    none.
    """

    formula: Formula

    @classmethod
    def to(cls, name: str, formula: Formula) -> "ComputedPath":
        """Return the path of a computed attribute of this name."""
        path = cls((name,))
        path.formula = formula
        return path


ABSENT: Final = object()
"""Marks the value of a missing path."""


_PLAIN: Final = frozenset({int, float})
"""Types of numbers that Python orders as these conditions do; a boolean is of another type."""


# -- the tree --------------------------------------------------------------------------------------


class Operator(StrEnum):
    """Comparison operators; the value is the spelling between ``=`` signs."""

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
    """The list at the path has the value as an item; only in rules."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A reference to a fact about the caller: ``$user``, ``$clientid`` or ``$user.<name>``.

    ``type`` is that of the attribute that it is compared with; the claim is converted to it.
    """

    path: Path
    type: Type = Type.ANY


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of the value at ``path`` with ``value``.

    ``value`` is already of the attribute's type where that is declared; a tuple for IN.
    """

    path: Path
    operator: Operator
    value: object


@dataclass(frozen=True, slots=True)
class ClaimCondition:
    """One comparison of a caller's claim with a value or another claim, without the record."""

    claim: Claim
    operator: Operator
    value: object


@dataclass(frozen=True, slots=True)
class Group:
    """Conditions joined by ``and`` (``all_of``) or by ``or``."""

    items: tuple["Where", ...]
    all_of: bool = True


Where = Condition | ClaimCondition | Group

EVERYTHING: Final = Group(())
"""Holds for every record: all of no conditions do."""
NOTHING: Final = Group((), all_of=False)
"""Holds for no record: none of no conditions does."""


def is_constant(where: Where) -> bool:
    """Whether it is EVERYTHING or NOTHING, and so independent of the record."""
    return isinstance(where, Group) and not where.items


def join(items: Iterable[Where], *, all_of: bool) -> Where:
    """Join conditions, simplifying constants.

    A constant result is EVERYTHING or NOTHING itself, so that ``is`` works.
    """
    left: list[Where] = []
    for item in items:
        if not isinstance(item, Group) or item.items:
            left.append(item)
        elif item.all_of is not all_of:
            return EVERYTHING if item.all_of else NOTHING
    if not left:
        return EVERYTHING if all_of else NOTHING
    return left[0] if len(left) == 1 else Group(tuple(left), all_of)


def leaves(where: Where | None) -> Iterator[Condition | ClaimCondition]:
    """Yield the comparisons, from left to right."""
    if isinstance(where, Group):
        for item in where.items:
            yield from leaves(item)
    elif where is not None:
        yield where


def compared(where: Where | None) -> Iterator[Path]:
    """Yield the paths whose values are compared."""
    return (leaf.path for leaf in leaves(where) if isinstance(leaf, Condition))


def inputs_of(path: Path) -> frozenset[str]:
    """Return the attributes of a record that the value at a path comes from."""
    return path.formula.inputs if isinstance(path, ComputedPath) else frozenset(path[:1])


_ORDERS: Final[Mapping[Operator, Callable[[float, float], bool]]] = MappingProxyType(
    {Operator.GT: gt, Operator.GE: ge, Operator.LT: lt, Operator.LE: le}
)


# -- evaluation ------------------------------------------------------------------------------------


def holds(where: Where | None, value: object, record_id: object) -> bool:
    """Whether a record satisfies the conditions; None is no condition."""
    if isinstance(where, Condition):
        wanted = where.value
        if type(wanted) is Claim:  # unknown
            return False
        return compare(reach(where.path, value, record_id), where.operator, wanted)
    if isinstance(where, Group):
        held = (holds(item, value, record_id) for item in where.items)
        return all(held) if where.all_of else any(held)
    return where is None


def reach(path: Path, value: object, record_id: object) -> object:
    """Return the value at a path; None when it is missing or NaN."""
    found = value_at(path, value, record_id)
    return None if found is ABSENT or is_nan(found) else found


def is_nan(value: object) -> bool:
    """Whether a float or a decimal is not a number (IEEE 754 NaN); it equals null then."""
    return isinstance(value, float | Decimal) and not is_number(value)


def value_at(path: Path, value: object, record_id: object) -> object:
    """Return the value at a path unchanged; ABSENT when it is missing."""
    if path == ID_PATH:
        return record_id
    if isinstance(path, ComputedPath):
        return path.formula.of(value)
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def compare(found: object, operator: Operator, wanted: object) -> bool:
    """Whether a comparison of two values holds."""
    match operator:
        case Operator.EQ:
            return equal(found, wanted)
        case Operator.NE:
            return not equal(found, wanted)
        case Operator.IN:
            choices = wanted if isinstance(wanted, tuple) else (wanted,)
            return any(equal(found, choice) for choice in choices)
        case Operator.HAS:
            return isinstance(found, list | tuple) and any(equal(one, wanted) for one in found)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS:
            return _text_holds(found, operator, wanted)
        case _:
            return _order_holds(found, operator, wanted)


def _text_holds(found: object, operator: Operator, wanted: object) -> bool:
    if not isinstance(found, str) or not isinstance(wanted, str):
        return False
    if operator is Operator.STARTS_WITH:
        return found.startswith(wanted)
    return found.endswith(wanted) if operator is Operator.ENDS_WITH else wanted in found


def _order_holds(found: object, operator: Operator, wanted: object) -> bool:
    if type(found) in _PLAIN and type(wanted) in _PLAIN and not (is_nan(found) or is_nan(wanted)):
        return _ORDERS[operator](
            cast("float", found), cast("float", wanted)
        )  # what is compared most, at a third of the cost
    if isinstance(found, bool) or isinstance(wanted, bool):
        return False
    one, other = Place(found), Place(wanted)
    if RANK_LAST in {one.rank, other.rank} or one.rank != other.rank:
        return False
    match operator:
        case Operator.GT:
            return other < one
        case Operator.GE:
            return not one < other
        case Operator.LT:
            return one < other
        case _:
            return not other < one
