"""Values in error messages: a short text of a value, and the name of its kind."""

import json
from collections.abc import Iterable
from decimal import Decimal

from rowcast.core.scalars import LONG_MAX, LONG_MIN


def shown(value: object) -> str:
    """Format a value for an error message: short, and text in quotes."""
    if isinstance(value, str):
        text = json.dumps(value[:60], ensure_ascii=not value.isprintable())
        return text if len(value) <= 60 else f'{text[:-1]}..."'
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float | Decimal):
        return _digits(value)
    return kind_of(value)


def _digits(value: float | Decimal) -> str:
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        return "an integer beyond 64 bits"  # its digits could be many
    return str(value)[:60]


def kind_of(value: object) -> str:
    """Return what kind of value it is, in the words of JSON."""
    kinds: Iterable[tuple[type | tuple[type, ...], str]] = (
        (dict, "an object"),
        ((list, tuple), "a list"),
        ((bytes, bytearray, memoryview), "bytes"),
        (str, "text"),
        (bool, "a boolean"),
        ((int, float, Decimal), "a number"),
        (type(None), "null"),
    )
    for type_, name in kinds:
        if isinstance(value, type_):
            return name
    return f"a {type(value).__name__}"
