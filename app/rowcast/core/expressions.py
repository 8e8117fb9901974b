"""Expressions: arithmetic on attributes, and texts joined, as closures that are typed when made.

``row_rules`` parses them; this module says what they mean. It is apart from the parser because the
meaning is that of values and types, and knows no words. A missing value makes the whole null, and
so does what has no value of its type: a division by zero, an integer beyond 64 bits, a number that
is infinite, a text that is too long.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext
from math import isfinite
from operator import add, mul, sub, truediv
from types import MappingProxyType
from typing import Final

from rowcast.core.computed_limits import COMPUTED_TEXT_CHARS_MAX, EXPRESSION_SIZE_MAX
from rowcast.core.conditions import (
    ComputedPath,
    Condition,
    Path,
    Where,
    holds,
    inputs_of,
    leaves,
    reach,
)
from rowcast.core.formula import Arithmetic, Term
from rowcast.core.limits import DECIMAL_DIGITS_MAX
from rowcast.core.query_terms import Target, Unreadable
from rowcast.core.scalars import (
    CONVERT,
    FLOAT_EXACT_MAX,
    LONG_MAX,
    LONG_MIN,
    Mismatch,
    decimal_of,
    is_number,
)
from rowcast.core.tables import Attribute, Type

Of = Callable[[object], object]
"""Returns the value of an expression for the value of a record."""

ADD: Final = "+"
_TEXT: Final = frozenset({Type.ID, Type.STRING})
_WHOLE: Final = frozenset({Type.INT, Type.LONG})
_NUMBERS: Final = _WHOLE | {Type.FLOAT, Type.DECIMAL}
_BINARY: Final = _WHOLE | {Type.FLOAT}
_COMPOUND: Final = frozenset({Type.LIST, Type.OBJECT})
_SIGNS: Final[Mapping[str, Callable[..., object]]] = MappingProxyType(
    {ADD: add, "-": sub, "*": mul, "/": truediv}
)
_FITTING: Final[Mapping[Type, frozenset[Type]]] = MappingProxyType(
    {
        Type.LONG: _NUMBERS,
        Type.FLOAT: frozenset({Type.FLOAT}),
        Type.DECIMAL: frozenset({Type.DECIMAL}),
        Type.STRING: _TEXT,
    }
)
"""The types that an attribute may have, by the type of its expression."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A typed expression: ``inputs`` are stored attributes, ``size`` counts operations."""

    type: Type
    of: Of
    inputs: frozenset[str] = frozenset()
    size: int = 1
    term: Term | None = None
    """The same for a store, whose arithmetic is that of binary numbers."""


# -- parts -----------------------------------------------------------------------------------------


def constant(value: object, type_: Type) -> Expression:
    """Return the expression of a number or text."""
    number = value if isinstance(value, int | float) and _is_exact(value) else None
    return Expression(type_, lambda _: value, term=number)


def _is_exact(value: float) -> bool:
    """Whether it is a quotient of integers that a store divides without rounding."""
    above, below = value.as_integer_ratio()
    return abs(above) <= FLOAT_EXACT_MAX and below <= LONG_MAX


def reference(target: Target) -> Expression:
    """Return the expression of an attribute's value."""
    path = target.path
    if target.type in _COMPOUND:
        raise Unreadable(f"{target.name} is of type {target.type}, of which nothing is computed")
    type_ = _widened(target.type)
    if isinstance(path, ComputedPath):
        formula = path.formula
        return Expression(type_, formula.of, formula.inputs, formula.size, formula.term)
    own: Term | None = target.name if target.type in _BINARY and len(path) == 1 else None
    if own is not None and target.type is Type.FLOAT:
        own = Arithmetic("/", own, 1)  # a column that was Int once has integers, also beyond 2**53
    of = _number_at(path, target.type) if own is not None else _value_at(path)
    return Expression(type_, of, frozenset(path[:1]), term=own)


def _value_at(path: Path) -> Of:
    return lambda value: reach(path, value, None)


def _number_at(path: Path, type_: Type) -> Of:
    """Return what gives a number of its attribute's type, else None, as a store's column has it.

    A value that was there before the attribute was declared may be of another type.
    """
    kinds = int if type_ in _WHOLE else (int, float)

    def of(value: object) -> object:
        found = reach(path, value, None)
        return found if isinstance(found, kinds) and not isinstance(found, bool) else None

    return of


def _widened(type_: Type) -> Type:
    if type_ in _WHOLE:
        return Type.LONG
    return Type.STRING if type_ in _TEXT else type_


def operation(left: Expression, sign: str, right: Expression) -> Expression:
    """Return the expression ``left sign right``; raises Unreadable for types it does not have."""
    type_ = _type_of(left.type, sign, right.type)
    size = left.size + right.size + 1
    if size > EXPRESSION_SIZE_MAX:
        raise Unreadable(
            f"it has more than {EXPRESSION_SIZE_MAX} operations and names, those of the computed "
            "attributes that it uses included"
        )
    one, other = left.of, right.of

    def of(value: object) -> object:
        return _result(one(value), sign, other(value))

    term = None
    if left.term is not None and right.term is not None:
        term = Arithmetic(sign, left.term, right.term)
    return Expression(type_, of, left.inputs | right.inputs, size, term)


def _type_of(one: Type, sign: str, other: Type) -> Type:
    types = {one, other}
    if Type.ANY in types:
        return Type.ANY
    if types == {Type.STRING} and sign == ADD:
        return Type.STRING
    if Type.STRING in types:
        raise Unreadable(f"'{sign}' of {one} and {other}: text is joined by '+', with text alone")
    if not types <= _NUMBERS:
        raise Unreadable(f"there is no '{sign}' of {one} and {other}; it takes numbers")
    if Type.DECIMAL in types:
        return Type.DECIMAL
    return Type.FLOAT if Type.FLOAT in types or sign == "/" else Type.LONG


# -- values ----------------------------------------------------------------------------------------


def _result(one: object, sign: str, other: object) -> object:
    """Return the result of an operation on two values; None where there is none."""
    if isinstance(one, str) and isinstance(other, str):
        fits = sign == ADD and len(one) + len(other) <= COMPUTED_TEXT_CHARS_MAX
        return one + other if fits else None
    if not is_number(one) or not is_number(other):
        return None
    try:
        if isinstance(one, Decimal) or isinstance(other, Decimal):
            with localcontext(prec=DECIMAL_DIGITS_MAX):
                return _finite(_SIGNS[sign](_decimal(one), _decimal(other)))
        if sign == "/":  # as a store divides, also what no float is exactly
            one, other = float(one), float(other)
        return _finite(_SIGNS[sign](one, other))
    except ArithmeticError:
        return None


def _decimal(value: float | Decimal) -> Decimal:
    """Return a decimal; of a float with the digits of its shortest spelling."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _finite(value: object) -> object:
    if isinstance(value, int):
        return value if LONG_MIN <= value <= LONG_MAX else None
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, Decimal) and value.is_finite() else None


# -- whole expressions -----------------------------------------------------------------------------


def comparison(where: Where) -> Expression:
    """Return the expression of a rule: true or false, and null where it compares a missing value.

    Comparing with null itself is no such comparison.
    """
    found = [item for item in leaves(where) if isinstance(item, Condition)]
    needed = tuple(item.path for item in found if item.value is not None)

    def of(value: object) -> object:
        if any(reach(path, value, None) is None for path in needed):
            return None
        return holds(where, value, None)

    inputs = frozenset(name for item in found for name in inputs_of(item.path))
    sizes = [item.path.formula.size for item in found if isinstance(item.path, ComputedPath)]
    size = len(found) + sum(sizes)
    if size > EXPRESSION_SIZE_MAX:
        raise Unreadable(f"it has more than {EXPRESSION_SIZE_MAX} comparisons and operations")
    return Expression(Type.BOOLEAN, of, inputs, size)


def fitted(expression: Expression, attribute: Attribute) -> Of:
    """Return what gives an attribute its values: of its type, or None.

    Raises Unreadable when the expression is of another type.
    """
    wanted, found = attribute.type, expression.type
    fits = _FITTING.get(found, frozenset({found}))
    if wanted is not Type.ANY and found is not Type.ANY and wanted not in fits:
        known = " or ".join(item for item in Type if item in fits)
        raise Unreadable(f"it is of type {found}, and {attribute.name} of {wanted}; write {known}")
    return _converted(expression.of, attribute)


def term_of(expression: Expression, attribute: Attribute) -> Term | None:
    """Return an attribute's term for stores; None if it is no number, or is rounded first."""
    same = _widened(attribute.type) is expression.type
    return expression.term if same and attribute.type in _BINARY else None


def _converted(of: Of, attribute: Attribute) -> Of:
    digits = attribute.digits
    convert = CONVERT[attribute.type] if digits is None else decimal_of(*digits)

    def converted(value: object) -> object:
        found = of(value)
        if found is None:
            return None
        try:
            return convert(found if digits is None else _rounded(found, digits[1]))
        except Mismatch:
            return None

    return converted


def _rounded(value: object, places: int) -> object:
    """Return a number with so many digits after the point, rounded half to even."""
    if not is_number(value):
        return value
    try:
        with localcontext(prec=DECIMAL_DIGITS_MAX):
            return _decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    except InvalidOperation:  # more digits than a decimal has
        return value
