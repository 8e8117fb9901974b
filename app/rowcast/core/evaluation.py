"""What a query means, in plain Python: the reference that every store must agree with.

The memory store answers with it, live queries ask it about one record, and the tests compare each
SQL store with it. Values are as ``values.Checker`` leaves them: dates are times, not text.

The rules. A missing value equals null, and so does NaN, as SQL stores it. Numbers compare across
integer, float and decimal; text by code point; times by instant; bytes by byte. A boolean is not
a number and has no order in a condition. Values of different kinds are never equal and never
ordered. In a sort, kinds follow one another (booleans, numbers, text, times, bytes), what is
missing or has no order comes last whatever the direction, and the record's id, ascending, decides
last.
"""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import total_ordering
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.queries import Condition, Group, Operator, Projection, Query, Select, Sort
from rowcast.core.scalars import CONVERT, LONG_MAX, LONG_MIN, PLAIN, Mismatch, is_number
from rowcast.core.tables import Type

ID_PATH: Final = ("$id",)
"""The path of the record's id."""

Row = tuple[object, object]
"""A record as a query sees it: its id (``values.parse_id``) and its value."""

_ABSENT: Final = object()
_LAST: Final = 9
"""The rank of what is missing."""


# -- conditions ------------------------------------------------------------------------------------


def holds(where: Condition | Group | None, value: object, record_id: object) -> bool:
    """Tell whether a record satisfies the conditions."""
    if where is None:
        return True
    if isinstance(where, Group):
        held = (holds(item, value, record_id) for item in where.items)
        return all(held) if where.all_of else any(held)
    return _compare(where.operator, reach(where.path, value, record_id), where.value)


def reach(path: tuple[str, ...], value: object, record_id: object) -> object:
    """Return the value at a path; None when it is missing or NaN."""
    found = _at(path, value, record_id)
    if isinstance(found, float | Decimal) and not is_number(found):
        return None
    return None if found is _ABSENT else found


def _at(path: tuple[str, ...], value: object, record_id: object) -> object:
    if path == ID_PATH:
        return record_id
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def _compare(operator: Operator, found: object, wanted: object) -> bool:
    match operator:
        case Operator.EQ:
            return _equal(found, wanted)
        case Operator.NE:
            return not _equal(found, wanted)
        case Operator.IN:
            choices = wanted if isinstance(wanted, tuple) else (wanted,)
            return any(_equal(found, choice) for choice in choices)
        case Operator.HAS:
            return isinstance(found, list | tuple) and any(_equal(one, wanted) for one in found)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS:
            return _text_holds(operator, found, wanted)
        case _:
            return _order_holds(operator, found, wanted)


def _text_holds(operator: Operator, found: object, wanted: object) -> bool:
    if not isinstance(found, str) or not isinstance(wanted, str):
        return False
    if operator is Operator.STARTS_WITH:
        return found.startswith(wanted)
    return found.endswith(wanted) if operator is Operator.ENDS_WITH else wanted in found


def _order_holds(operator: Operator, found: object, wanted: object) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return False
    one, other = Place(found), Place(wanted)
    if _LAST in {one.rank, other.rank} or one.rank != other.rank:
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


def _equal(one: object, other: object) -> bool:
    """Compare as JSON does: 1 equals 1.0, and neither equals true."""
    if is_number(one) and is_number(other):
        return one == other
    if isinstance(one, datetime) and isinstance(other, datetime):
        return _instant(one) == _instant(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and one == other


def _instant(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


# -- order -----------------------------------------------------------------------------------------


@total_ordering
class Place:  # noqa: PLW1641 - it is ordered, never a key
    """Where one value stands among the values of one sort key."""

    __slots__ = ("descending", "rank", "value")

    def __init__(self, value: object, descending: bool = False) -> None:
        self.rank = _rank(value)
        self.value = _instant(value) if isinstance(value, datetime) else value
        self.descending = descending

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place) or self.rank != other.rank:
            return False
        return self.rank == _LAST or self.value == other.value

    def __lt__(self, other: "Place") -> bool:
        if _LAST in {self.rank, other.rank}:
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


_REAL: Final = (int, float, Decimal)


def _rank(value: object) -> int:
    if isinstance(value, bool):
        return 0
    if is_number(value):
        return 1
    kinds: tuple[type, ...] = (str, datetime, bytes)
    return next((rank for rank, kind in enumerate(kinds, 2) if isinstance(value, kind)), _LAST)


def order_key(sort: tuple[Sort, ...], value: object, record_id: object) -> tuple[Place, ...]:
    """Return what ``sorted`` needs to put records into a query's order."""
    places = [Place(reach(item.path, value, record_id), item.descending) for item in sort]
    return (*places, Place(record_id))


# -- pages -----------------------------------------------------------------------------------------

_TAGGED: Final = ((datetime, Type.DATE), (bytes, Type.BYTES), (Decimal, Type.DECIMAL))


def page_token(sort: tuple[Sort, ...], value: object, record_id: object) -> str:
    """Return the token of the page that begins after this record.

    It holds the record's sort values and id, not a count, so pages neither repeat nor skip a record
    when others are written or deleted in between.
    """
    keys = [_tag(reach(item.path, value, record_id)) for item in sort]
    text = json.dumps([_mark(sort), *keys, record_id], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def token_values(sort: tuple[Sort, ...], token: str) -> tuple[object, ...]:
    """Return what a page token holds: the value of each sort key, then the record's id.

    Raises INVALID for text that is no token, and for a token of another order.
    """
    try:
        read = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        mark, *values = read
        values = [_untag(item) for item in values]
    except (ValueError, TypeError, KeyError, RecursionError):
        mark, values = None, []
    if mark != _mark(sort) or len(values) != len(sort) + 1 or type(values[-1]) not in {str, int}:
        raise Error(
            Code.INVALID,
            "the page token is not one that this server gave for this order;"
            " leave after(...) out to begin with the first page",
        )
    return tuple(values)


def _mark(sort: tuple[Sort, ...]) -> int:
    """Return a number that tells one order from another."""
    return zlib.crc32(repr([(item.path, item.descending) for item in sort]).encode())


def _tag(value: object) -> object:
    for kind, type_ in _TAGGED:
        if isinstance(value, kind):
            return {type_.value: PLAIN[type_](value)}
    return None if _rank(value) == _LAST else value


def _untag(item: object) -> object:
    """Read one value of a token; ValueError for one that no record of ours can have."""
    if isinstance(item, dict):
        (name, value), *_ = item.items()
        try:
            return CONVERT[Type(name)](value)
        except Mismatch as mismatch:
            raise ValueError from mismatch
    if isinstance(item, str):
        item.encode()  # half of a surrogate pair is a UnicodeEncodeError
    if isinstance(item, int) and not LONG_MIN <= item <= LONG_MAX:
        raise ValueError
    return item if _rank(item) != _LAST else None


@dataclass(frozen=True, slots=True)
class Answer:
    """One page: whole records in order, and the token of the next page when there is one."""

    rows: tuple[Row, ...]
    after: str = ""


def answer(query: Query, records: Iterable[Row]) -> Answer:
    """Answer a query over all of a table's records."""
    found = [row for row in records if holds(query.where, row[1], row[0])]
    found.sort(key=lambda row: order_key(query.sort, row[1], row[0]))
    if query.after is not None:
        *values, last = token_values(query.sort, query.after)
        keys = zip(values, query.sort, strict=True)
        bound = (*(Place(value, item.descending) for value, item in keys), Place(last))
        found = [row for row in found if order_key(query.sort, row[1], row[0]) > bound]
    end = len(found) if query.limit is None else query.offset + query.limit
    page = found[query.offset : end]
    more = bool(page) and end < len(found)
    return Answer(tuple(page), page_token(query.sort, page[-1][1], page[-1][0]) if more else "")


# -- parts -----------------------------------------------------------------------------------------


def project(select: Select | None, value: object, record_id: object) -> object:
    """Return the selected parts of a record.

    In an object, a part that is missing is left out, and ``a.b`` is ``b`` within ``a``; in a list,
    and as a bare value, it is null.
    """
    if select is None:
        return value
    if select.shape is Projection.OBJECT:
        return _object_of(select.paths, value, record_id)
    parts = [_at(path, value, record_id) for path in select.paths]
    bare = [None if part is _ABSENT else part for part in parts]
    return bare if select.shape is Projection.ARRAY else bare[0]


def _object_of(paths: tuple[tuple[str, ...], ...], value: object, record_id: object) -> object:
    """Build an object of the parts; one that lies within another selected part is in it already."""
    whole = frozenset(paths)
    made: dict[tuple[str, ...], dict[str, object]] = {(): {}}
    for path in paths:
        part = _at(path, value, record_id)
        if part is _ABSENT or any(path[:length] in whole for length in range(1, len(path))):
            continue
        for length in range(1, len(path)):
            if path[:length] not in made:
                made[path[:length]] = made[path[: length - 1]][path[length - 1]] = {}
        made[path[:-1]][path[-1]] = part
    return made[()]
