"""Scalars: conversion of a value to a declared type, and its plain JSON spelling.

Each conversion is a function that returns the value of the type, the same object when it already is
one, or raises Mismatch. There is no implicit conversion: neither text nor a boolean is a number.
Records are checked in ``values`` and conditions in ``query_text``; this module knows no tables.
"""

import math
import re
from base64 import b64encode
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Final, TypeGuard, cast

from rowcast.core.limits import DECIMAL_DIGITS_MAX, DECIMAL_EXPONENT_MAX, DECIMAL_TEXT_CHARS_MAX
from rowcast.core.tables import Type

Convert = Callable[[object], object]
"""Converts a value to a type or raises Mismatch."""
Number = int | float | Decimal

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
FLOAT_EXACT_MAX: Final = 2**53
"""Up to here every integer has an exact float (IEEE 754 binary64)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


class Mismatch(Exception):  # noqa: N818 - not an Error: its catcher adds what and where
    """The value is not of the type; the text, if any, states the violated rule."""


def to_id(value: object) -> object:
    """Return text; an integer becomes its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(_within(value, LONG_MIN, LONG_MAX))
    return to_string(value)


def to_string(value: object) -> object:
    """Return text unchanged."""
    if isinstance(value, str):
        return value
    raise Mismatch


def to_int(value: object) -> object:
    """Return an integer of 32 bits (GraphQL, 3.5.1)."""
    return _integer(value, INT_MIN, INT_MAX)


def to_long(value: object) -> object:
    """Return an integer of 64 bits."""
    return _integer(value, LONG_MIN, LONG_MAX)


def _integer(value: object, least: int, most: int) -> object:
    """Return the integer itself, so that its record keeps the bytes that it came as."""
    known = type(value) is int  # narrowed to an int, compiled code would return another one
    if isinstance(value, bool):
        raise Mismatch
    if isinstance(value, int):
        number = _within(value, least, most)
    # Some JSON writers spell 3 as 3.0.
    elif isinstance(value, float) and value.is_integer() and abs(value) <= FLOAT_EXACT_MAX:
        number = _within(int(value), least, most)
    else:
        raise Mismatch
    return value if known else number


def _within(value: int, least: int, most: int) -> int:
    if least <= value <= most:
        return value
    raise Mismatch(f"it must be from {least} to {most}")


def to_float(value: object) -> object:
    """Return a float; integers of 64 bits are converted, because the store has only floats."""
    known = isinstance(value, float)  # narrowed to a float, compiled code would return another one
    if known:
        return value
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= 300:
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(_within(value, LONG_MIN, LONG_MAX))
    raise Mismatch


def to_decimal(value: object) -> object:
    """Return a finite decimal within the bounds of decimal128, from a decimal, text or a number."""
    if isinstance(value, float):
        value = repr(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(_within(value, LONG_MIN, LONG_MAX))
    if isinstance(value, str):
        value = _decimal_of_text(value)
    if isinstance(value, Decimal) and value.is_finite():
        return _bounded(value)
    raise Mismatch


def _decimal_of_text(text: str) -> Decimal:
    if len(text) > DECIMAL_TEXT_CHARS_MAX or _DECIMAL.fullmatch(text) is None:
        raise Mismatch('write it as "12.50"')
    return Decimal(text)


def _bounded(value: Decimal) -> Decimal:
    digits, exponent = value.as_tuple()[1:]
    if len(digits) > DECIMAL_DIGITS_MAX or abs(int(exponent)) > DECIMAL_EXPONENT_MAX:
        raise Mismatch(
            f"it must have at most {DECIMAL_DIGITS_MAX} digits"
            f" and an exponent within {DECIMAL_EXPONENT_MAX}"
        )
    return value or value.copy_abs()  # a zero has no sign: CBOR, in which rows are, has none


def decimal_of(precision: int, scale: int) -> Convert:
    """Return the conversion of a decimal with so many digits, some of them after the point."""

    def convert(value: object) -> object:
        number = cast("Decimal", to_decimal(value))
        if not fits(number, precision, scale):
            raise Mismatch(
                f"it must have at most {precision - scale} digits before the point and {scale}"
                " after it"
            )
        return number

    return convert


def fits(number: Decimal, precision: int, scale: int) -> bool:
    """Whether a decimal fits a precision and scale."""
    digits, exponent = number.as_tuple()[1:]
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return True
    places = -(int(exponent) + len(digits) - len(text))
    return places <= scale and number.adjusted() < precision - scale


def to_boolean(value: object) -> object:
    """Return a boolean unchanged."""
    if isinstance(value, bool):
        return value
    raise Mismatch


def to_date(value: object) -> object:
    """Return a time in UTC, from a time, ISO 8601 text or milliseconds since 1970.

    Text without an offset is UTC; digits beyond microseconds are dropped.
    """
    try:
        return _date(value)
    except (ValueError, OverflowError):
        raise Mismatch('write it as "2026-01-31T12:00:00Z"') from None


def _date(value: object) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return _EPOCH + timedelta(milliseconds=value)
    if not isinstance(value, datetime):
        raise Mismatch
    if value.tzinfo is UTC:
        return value
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def to_bytes(value: object) -> object:
    """Return bytes, from bytes or base64 text (RFC 4648, section 4)."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return a2b_base64(value, strict_mode=True)
        except (BinasciiError, ValueError):
            raise Mismatch('write it in base64 with padding, as "AAEC"') from None
    raise Mismatch


def to_any(value: object) -> object:
    """Return the value unchanged."""
    return value


CONVERT: Final[Mapping[Type, Convert]] = MappingProxyType(
    {
        Type.ID: to_id,
        Type.STRING: to_string,
        Type.INT: to_int,
        Type.LONG: to_long,
        Type.FLOAT: to_float,
        Type.DECIMAL: to_decimal,
        Type.BOOLEAN: to_boolean,
        Type.DATE: to_date,
        Type.BYTES: to_bytes,
        Type.ANY: to_any,
    }
)
"""The conversion of each scalar type; lists and objects use these."""

EXACT: Final[Mapping[Type, type]] = MappingProxyType(
    {
        Type.ID: str,
        Type.STRING: str,
        Type.FLOAT: float,
        Type.BOOLEAN: bool,
        Type.BYTES: bytes,
    }
)
"""Types with a Python class all of whose values are valid, so that no conversion is needed."""


def date_text(value: object) -> object:
    """Return a time as ISO 8601 text that ends in ``Z``; anything else unchanged."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def bytes_text(value: object) -> object:
    """Return bytes as base64 text; anything else unchanged."""
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def decimal_text(value: object) -> object:
    """Return a decimal as text; anything else unchanged."""
    return str(value) if isinstance(value, Decimal) else value


PLAIN: Final[Mapping[Type, Convert]] = MappingProxyType(
    {Type.DATE: date_text, Type.BYTES: bytes_text, Type.DECIMAL: decimal_text}
)
"""The JSON spelling of each type that JSON lacks."""


def is_number(value: object) -> TypeGuard[Number]:
    """Whether the value is a number; booleans and NaN are not."""
    if isinstance(value, float):
        return not math.isnan(value)
    if isinstance(value, Decimal):
        return not value.is_nan()
    return isinstance(value, int) and not isinstance(value, bool)
