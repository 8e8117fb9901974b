"""JSON Merge Patch (RFC 7396), with counters: applies a patch to a value.

``merge_diff.py`` is the inverse. A patch knows no table: the caller checks the result against it.
"""

from decimal import Decimal, localcontext
from typing import Final, TypeGuard

from rowcast.core.errors import Code, Error
from rowcast.core.limits import DECIMAL_DIGITS_MAX
from rowcast.core.scalars import LONG_MAX, LONG_MIN, Number, is_number
from rowcast.core.value_texts import shown

OPERATION: Final = "__op__"
"""The key that makes ``{"__op__": "add", "value": 2}`` an operation on what is there."""


def is_operation(value: object) -> TypeGuard[dict[str, object]]:
    """Whether the value is an operation on the current value, such as an increment."""
    return isinstance(value, dict) and OPERATION in value


def merge_patch(current: object, patch: object) -> object:
    """Apply a patch to a value: a merge patch (RFC 7396, section 2) with counters.

    An object is merged into an object, null removes, anything else replaces. Beyond the RFC,
    ``{"__op__": "add", "value": 2}`` adds to the current number, or to 0. Neither argument is
    changed. The caller checks the result against the table.
    """
    if is_operation(patch):
        return _added(current, patch)
    if not isinstance(patch, dict):
        return patch
    out: dict[str, object] = dict(current) if isinstance(current, dict) else {}
    for name, item in patch.items():
        if item is None:
            out.pop(name, None)
        else:
            out[name] = merge_patch(out.get(name), item)
    return out


def _added(current: object, operation: dict[str, object]) -> object:
    amount = operation.get("value")
    if operation[OPERATION] != "add" or not is_number(amount):
        raise Error(
            Code.UNPROCESSABLE,
            'an operation in a patch must be {"__op__": "add", "value": <number>};'
            f" not {shown(operation[OPERATION])} with {shown(amount)}",
        )
    base = 0 if current is None else current
    if not is_number(base):
        raise Error(
            Code.UNPROCESSABLE,
            f"cannot add to {shown(current)}: only a number can be counted up",
        )
    try:
        return _sum(base, amount)
    except ArithmeticError:
        raise Error(
            Code.UNPROCESSABLE,
            f"cannot add {shown(amount)} to {shown(base)}: the sum is out of range",
        ) from None


def _sum(one: Number, other: Number) -> Number:
    """Add two numbers: a decimal with anything is a decimal, integers stay within 64 bits."""
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        with localcontext(prec=DECIMAL_DIGITS_MAX):
            return _decimal(one) + _decimal(other)
    if isinstance(one, float) or isinstance(other, float):
        return float(one) + float(other)
    if LONG_MIN <= one + other <= LONG_MAX:
        return one + other
    raise OverflowError


def _decimal(value: Number) -> Decimal:
    """Return a decimal; of a float with the digits of its shortest spelling."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
