"""Decimals that came as JSON numbers: taken with the digits that were written.

JSON text is decoded with floats, which keep fifteen digits and no zero at the end of ``12.50``. So
where a table declares a Decimal, the text of the number replaces the float before the value is
checked; a number in any other place is a float as before. The cost is a second look at payloads
with such numbers, for tables that have a Decimal.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import cast

from rowcast.core.merge_patch import is_operation
from rowcast.core.tables import Attribute, Type

Taking = Callable[[object, object], object]
"""Returns a value with what was written in its places; the same object if nothing changes."""


def taking(attributes: Sequence[Attribute]) -> Taking | None:
    """Return what takes the digits of an object's decimals; None if it declares none."""
    found = {
        item.name: taken
        for item in attributes
        if item.stored and (taken := _taking_of(item)) is not None
    }
    return _of_object(found) if found else None


def _taking_of(attribute: Attribute) -> Taking | None:
    if attribute.type is Type.DECIMAL:
        return _of_decimal
    if attribute.type is Type.OBJECT:
        return taking(attribute.fields)
    if attribute.type is Type.LIST and attribute.items is not None:
        each = _taking_of(attribute.items)
        return None if each is None else _of_list(each)
    return None


def _of_decimal(value: object, said: object) -> object:
    """Return the text of a number; for an operation of a patch a number with these digits."""
    if isinstance(value, float) and isinstance(said, str):
        return said
    if not is_operation(value) or not is_operation(said):
        return value
    amount, text = value.get("value"), said.get("value")
    if not (isinstance(amount, float) and isinstance(text, str)):
        return value
    return {**value, "value": Decimal(text)}


def _of_object(fields: Mapping[str, Taking]) -> Taking:
    def take(value: object, said: object) -> object:
        if not (isinstance(value, dict) and isinstance(said, dict)):
            return value
        known, out = cast("dict[str, object]", value), cast("dict[str, object]", value)
        for name, inner in fields.items():
            if name in known:
                item = known[name]
                taken = inner(item, said.get(name))
                if taken is not item:
                    out = dict(known) if out is known else out
                    out[name] = taken
        return out

    return take


def _of_list(each: Taking) -> Taking:
    def take(value: object, said: object) -> object:
        if not (isinstance(value, list) and isinstance(said, list)):
            return value
        out = [each(item, text) for item, text in zip(value, said, strict=False)]
        same = all(one is other for one, other in zip(out, value, strict=True))
        return value if same else out

    return take
