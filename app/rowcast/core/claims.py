"""Claims in conditions, and their substitution by facts about one caller.

The result is conditions on a record alone, which the evaluator and every store support. Missing
facts deny: a comparison with a claim that the caller lacks, or whose value cannot be of the
attribute's type, becomes NOTHING, whatever its operator.
"""

from collections.abc import Callable, Iterator
from typing import Final

from rowcast.core.conditions import (
    EVERYTHING,
    NOTHING,
    Claim,
    ClaimCondition,
    Condition,
    Group,
    Operator,
    Path,
    Where,
    compare,
    join,
    leaves,
)
from rowcast.core.query_terms import ORDERINGS, TEXT_OPERATORS
from rowcast.core.right_limits import RULE_CLAIM_ITEMS_MAX
from rowcast.core.scalars import CONVERT, Mismatch
from rowcast.core.tables import Type

USER: Final = ("$user",)
CLIENT: Final = ("$clientid",)

Facts = Callable[[Path], object]
"""Returns a fact about a caller by the path of a claim; None if unknown."""

_SCALARS: Final = (str, int, float, bool)
_UNFIT: Final = object()


def claims_of(where: Where | None) -> Iterator[Path]:
    """Yield the paths of the claims in conditions."""
    for leaf in leaves(where):
        sides = (leaf.value, leaf.claim if isinstance(leaf, ClaimCondition) else None)
        yield from (side.path for side in sides if isinstance(side, Claim))


def bind(where: Where, facts: Facts) -> Where:
    """Return the conditions for one caller: without claims, and simplified by ``join``."""
    if isinstance(where, Group):
        return join([bind(item, facts) for item in where.items], all_of=where.all_of)
    claim, value = where.value, where.value
    if isinstance(claim, Claim):
        value = facts(claim.path)
        if value is None:
            return NOTHING
    if isinstance(where, ClaimCondition):
        known = _known(facts(where.claim.path), where.operator, value)
        return EVERYTHING if known else NOTHING
    if not isinstance(claim, Claim):
        return where
    operand = _operand(claim.type, where.operator, value)
    return NOTHING if operand is _UNFIT else Condition(where.path, where.operator, operand)


def _known(found: object, operator: Operator, wanted: object) -> bool:
    """Compare a claim's value, which may be a list."""
    if found is None:
        return False
    if operator is Operator.CONTAINS and isinstance(found, list | tuple):
        operator = Operator.HAS
    if operator is Operator.IN and isinstance(wanted, list):
        wanted = tuple(wanted)
    return compare(found, operator, wanted)


def _operand(type_: Type, operator: Operator, value: object) -> object:
    """Convert a claim's value to the attribute's type; _UNFIT if that is impossible."""
    if operator is Operator.IN:
        items = value if isinstance(value, list | tuple) else [value]
        fitting = [_fitted(type_, item) for item in items[:RULE_CLAIM_ITEMS_MAX]]
        return tuple(item for item in fitting if item is not _UNFIT) or _UNFIT
    if operator is Operator.HAS:  # a claim with several values is not a single item
        return value if isinstance(value, _SCALARS) else _UNFIT
    fitted = _fitted(type_, value)
    if operator in TEXT_OPERATORS and not isinstance(fitted, str):
        return _UNFIT
    if operator in ORDERINGS and isinstance(fitted, bool):
        return _UNFIT
    return fitted


def _fitted(type_: Type, value: object) -> object:
    if not isinstance(value, _SCALARS):
        return _UNFIT
    if type_ is Type.ANY:
        return value
    if type_ in {Type.ID, Type.STRING}:  # tokens may have numbers for text
        fits = isinstance(value, str | int) and not isinstance(value, bool)
        return str(value) if fits else _UNFIT
    if type_ in {Type.LIST, Type.OBJECT}:
        return _UNFIT
    try:
        return CONVERT[type_](value)
    except Mismatch:
        return _UNFIT
