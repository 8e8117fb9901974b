"""Comparison of two values: equality and order, whatever their kinds.

Values are those of ``values.Checker``: dates are times, not text. Numbers compare across integer,
float and decimal; text by code point; times by instant; bytes by byte. A boolean is not a number.
Values of different kinds are never equal; kinds are ordered: booleans, numbers, text, times, bytes,
then missing and unordered values.
"""

from datetime import UTC, datetime
from decimal import Decimal
from functools import total_ordering
from typing import Final

from rowcast.core.scalars import is_number

RANK_LAST: Final = 9
"""The rank of missing and of unordered values: lists, objects, NaN."""

_REAL: Final = (int, float, Decimal)


def equal(one: object, other: object) -> bool:
    """Compare as JSON does: 1 equals 1.0, and neither equals true."""
    if is_number(one) and is_number(other):
        return one == other
    if isinstance(one, datetime) and isinstance(other, datetime):
        return _instant(one) == _instant(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def _instant(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def comparable(value: object) -> object:
    """Return a value as it compares with others of its kind: times as instants."""
    return _instant(value) if isinstance(value, datetime) else value


@total_ordering
class Place:  # noqa: PLW1641 - it is ordered, never a key
    """The rank of a value in one sort key."""

    __slots__ = ("descending", "rank", "value")

    def __init__(self, value: object, descending: bool = False) -> None:
        self.rank = rank_of(value)
        self.value = comparable(value)
        self.descending = descending

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place) or self.rank != other.rank:
            return False
        return self.rank == RANK_LAST or self.value == other.value

    def __lt__(self, other: "Place") -> bool:
        if RANK_LAST in {self.rank, other.rank}:
            return self.rank < other.rank
        if self.descending:
            return other._before(self)
        return self._before(other)

    def _before(self, other: "Place") -> bool:
        if self.rank != other.rank:
            return self.rank < other.rank
        one, two = self.value, other.value
        if isinstance(one, str) and isinstance(two, str):
            return one < two
        if isinstance(one, datetime) and isinstance(two, datetime):
            return one < two
        if isinstance(one, bytes) and isinstance(two, bytes):
            return one < two
        return isinstance(one, _REAL) and isinstance(two, _REAL) and one < two


_RANKS: Final[dict[type, int]] = {bool: 0, int: 1, str: 2, datetime: 3, bytes: 4}


def rank_of(value: object) -> int:
    """Return the rank of a value's kind."""
    rank = _RANKS.get(type(value))
    if rank is not None:
        return rank
    if is_number(value):
        return 1
    return next((rank for kind, rank in _RANKS.items() if isinstance(value, kind)), RANK_LAST)
