"""The value model: the types that every structured codec carries, and their checks.

A value is ``None``, ``bool``, a signed 64-bit ``int``, ``float`` (NaN and infinities included),
``str`` (without lone surrogates), ``bytes``, an aware ``datetime`` (an instant, to the
microsecond), a finite ``Decimal`` (digits and exponent kept, zero without a sign), a ``list`` of
values or a ``dict`` from ``str`` to values, nested at most ``limits.VALUE_DEPTH_MAX`` deep. Types
are exact: a tuple, a set or an enumeration is refused, because it would come back as something
else.

The model stands apart from the formats so that JSON, CBOR and MessagePack agree on every edge:
each codec asks ``simple`` first (one cheap pass; most records are simple) and ``validate``
otherwise. This module must not know any format, media type or header.
"""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Final

from rowcast.core import limits
from rowcast.core.errors import Code, Error

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SPELLINGS: Final = frozenset(("$bytes", "$date", "$decimal", "$float", "$map"))
"""Keys of JSON's spellings for types it lacks; a map of exactly one such key is not simple."""
TOO_DEEP: Final = (
    f"lists and maps are nested more than {limits.VALUE_DEPTH_MAX} deep; flatten the value."
)
TOO_WIDE: Final = "an integer does not fit in signed 64 bits; send it as a decimal or as text."
SURROGATE: Final = (
    "A text or a key holds half of a surrogate pair and has no UTF-8 form; mend the text."
)

_NO_OFFSET: Final = timedelta()
_PATH_CHARS_MAX: Final = 100  # of a path shown to the caller: a sentence, whatever the keys are
_TRIVIAL: Final = frozenset((str, bool, NoneType))
_PLAIN_SCALARS: Final = frozenset((str, bool, NoneType, float, bytes))
_KINDS: Final = (
    "null, a boolean, an integer, a float, text, bytes, a datetime, a Decimal, a list or a map"
)
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")


class ModelMismatch(Exception):  # noqa: N818 - ``validate`` makes an Error of it
    """An invalid part of a value; the path to the part is collected on the way out."""

    def __init__(self, reason: str, code: Code = Code.INVALID) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.path: list[str] = []

    def error(self) -> Error:
        """The sentence for the caller."""
        where = "".join(reversed(self.path)).lstrip(".") or "the top"
        if len(where) > _PATH_CHARS_MAX:
            where = where[:_PATH_CHARS_MAX] + "..."
        return Error(self.code, f"The value does not fit at {where}: {self.reason}")


def simple(value: object, below: int = limits.VALUE_DEPTH_MAX) -> bool:
    """Whether a value keeps every bound and holds only what JSON can write natively.

    It works by exact type and says False whenever a second look is needed: no verdict.
    """
    if type(value) is dict:
        if len(value) == 1 and not SPELLINGS.isdisjoint(value):
            return False
        for key in value:
            if type(key) is not str:
                return False
        return below > 0 and _simple_items(value.values(), below - 1)
    if type(value) is list:
        return below > 0 and _simple_items(value, below - 1)
    return _simple_items((value,), 0)


def _simple_items(items: Iterable[object], below: int) -> bool:
    """Judge scalars in place: a call for each of them would double the cost of a record."""
    for item in items:
        kind = type(item)
        if kind in _TRIVIAL:
            continue
        if type(item) is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif type(item) is float:
            if item - item != 0:  # true of NaN and the infinities only
                return False
        elif not ((kind is dict or kind is list) and simple(item, below)):
            return False
    return True


def validate(value: object, depth_max: int = limits.VALUE_DEPTH_MAX) -> None:
    """Refuse a value outside the model, naming the place and the reason."""
    if _sound((value,), depth_max):
        return
    try:
        _check(value, depth_max)
    except ModelMismatch as misfit:
        raise misfit.error() from None


def _sound(items: Iterable[object], below: int) -> bool:
    """Whether values are of the model; False whenever ``_check`` has to look again.

    Like ``simple`` it judges scalars in place, and knows the other types, too: a table imported or
    a batch sent has dates in every row.
    """
    for item in items:
        kind = type(item)  # compared one by one: compiled, that is a tenth of a look in a set
        if kind is float or kind is str or item is None or kind is bool or kind is bytes:
            continue
        if type(item) is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif type(item) is datetime:
            if item.tzinfo is not UTC and item.utcoffset() != _NO_OFFSET:
                return False  # none is known, or the year in UTC may leave the range
        elif type(item) is dict:
            if below <= 0 or not _sound(item.values(), below - 1):
                return False
            for key in item:
                if type(key) is not str:
                    return False
        elif type(item) is not list or below <= 0 or not _sound(item, below - 1):
            return False
    return True


def _check(value: object, below: int) -> None:
    if type(value) is dict:
        _check_depth(below)
        for key, item in value.items():
            if type(key) is not str:
                raise ModelMismatch(
                    f"a key of a map is text, not {type(key).__name__}; write it as text."
                )
            _check_part(item, below - 1, f".{key}")
    elif type(value) is list:
        _check_depth(below)
        for index, item in enumerate(value):
            _check_part(item, below - 1, f"[{index}]")
    else:
        _check_scalar(value)


def _check_part(item: object, below: int, step: str) -> None:
    try:
        _check(item, below)
    except ModelMismatch as misfit:
        misfit.path.append(step)
        raise


def _check_depth(below: int) -> None:
    if below == 0:
        raise ModelMismatch(TOO_DEEP, Code.TOO_LARGE)


def _check_scalar(value: object) -> None:
    if type(value) is int:
        if not INT_MIN <= value <= INT_MAX:
            raise ModelMismatch(TOO_WIDE)
    elif type(value) is datetime:
        if value.utcoffset() is None:
            raise ModelMismatch("a datetime says no time zone; make it an aware one, in UTC.")
        in_utc(value)
    elif type(value) is Decimal:
        check_decimal(value)
    elif type(value) not in _PLAIN_SCALARS:
        raise ModelMismatch(f"{type(value).__name__} is not of the value model; use {_KINDS}.")


def check_decimal(value: Decimal) -> None:
    """Refuse a Decimal that is not finite or is out of decimal128's range."""
    if not value.is_finite():
        raise ModelMismatch("a Decimal is finite; use a float for NaN and the infinities.")
    _, digits, exponent = value.as_tuple()
    if len(digits) > limits.DECIMAL_DIGITS_MAX or abs(int(exponent)) > limits.DECIMAL_EXPONENT_MAX:
        raise ModelMismatch(
            f"a Decimal has at most {limits.DECIMAL_DIGITS_MAX} digits and an exponent of at most"
            f" {limits.DECIMAL_EXPONENT_MAX} either way; round it or send text."
        )


def too_many(format_name: str, parts_max: int) -> Error:
    """The refusal of a payload whose value has too many parts."""
    return Error(
        Code.TOO_LARGE,
        f"In the {format_name} there are more than {parts_max} items of lists and members of maps;"
        " divide it.",
    )


def unsigned_zero(value: Decimal) -> Decimal:
    """The same number; zero loses its sign, which CBOR's integers cannot carry."""
    return value or value.copy_abs()


def decimal_of(text: str) -> Decimal:
    """The Decimal that a text spells, digit for digit."""
    if len(text) > limits.DECIMAL_TEXT_CHARS_MAX or not _DECIMAL_TEXT.fullmatch(text):
        raise ModelMismatch("a decimal is text such as 1.10 or -2E+3.")
    value = unsigned_zero(Decimal(text))
    check_decimal(value)
    return value


def in_utc(value: datetime) -> datetime:
    """The same instant in UTC; years 1 to 9999 only."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ModelMismatch("a date is outside the years 1 to 9999.") from None


def datetime_of(text: str) -> datetime:
    """The instant of an ISO 8601 text with an offset or Z; finer than a microsecond is cut."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ModelMismatch("a date is text such as 2026-01-02T03:04:05.678901Z.") from None
    if value.utcoffset() is None:
        raise ModelMismatch("a date ends in Z or in an offset such as +02:00.")
    return in_utc(value)


def datetime_after(seconds: float) -> datetime:
    """The instant so many seconds after 1970 in UTC, rounded to the microsecond."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise ModelMismatch(
            "a date is a finite number of seconds within the years 1 to 9999."
        ) from None


def name_of(value: float) -> str:
    """Return the name of NaN or an infinity."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def text_of(value: datetime) -> str:
    """The shortest ISO 8601 text of an instant: UTC, with Z, microseconds where there are any."""
    return in_utc(value).replace(tzinfo=None).isoformat() + "Z"
