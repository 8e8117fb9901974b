"""Evaluation of queries in memory: order, pages and parts of records.

It is the reference that every store must agree with: the memory store of the tests uses it.
``conditions.py`` evaluates conditions. A sort orders by kind (``comparison.py``), then by value;
missing and unordered values are last in both directions, and the record's id, ascending, breaks
ties.
"""

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from rowcast.core.comparison import RANK_LAST, Place, rank_of
from rowcast.core.conditions import ABSENT, Path, holds, reach, value_at
from rowcast.core.errors import Code, Error
from rowcast.core.queries import Projection, Query, Select, Sort
from rowcast.core.scalars import CONVERT, LONG_MAX, LONG_MIN, PLAIN, Mismatch
from rowcast.core.tables import Type

Row = tuple[object, object]
"""A record in a query: its id (``values.parse_id``) and its value."""


# -- order -----------------------------------------------------------------------------------------


def order_key(sort: tuple[Sort, ...], value: object, record_id: object) -> tuple[Place, ...]:
    """Return the key for ``sorted`` in a query's order."""
    places = [Place(reach(item.path, value, record_id), item.descending) for item in sort]
    return (*places, Place(record_id))


# -- pages -----------------------------------------------------------------------------------------

_TAGGED: Final = ((datetime, Type.DATE), (bytes, Type.BYTES), (Decimal, Type.DECIMAL))


def page_token(sort: tuple[Sort, ...], value: object, record_id: object) -> str:
    """Return the token of the page that begins after this record.

    It contains the record's sort values and id, not an offset, so pages neither repeat nor skip a
    record when others are written or deleted in between.
    """
    keys = [_tag(reach(item.path, value, record_id)) for item in sort]
    text = json.dumps([_mark(sort), *keys, record_id], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode("ascii").rstrip("=")


def token_values(sort: tuple[Sort, ...], token: str) -> tuple[object, ...]:
    """Decode a page token: the value of each sort key, then the record's id.

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
    """Return a hash of an order."""
    return zlib.crc32(repr([(item.path, item.descending) for item in sort]).encode())


def _tag(value: object) -> object:
    for kind, type_ in _TAGGED:
        if isinstance(value, kind):
            return {type_.value: PLAIN[type_](value)}
    return None if rank_of(value) == RANK_LAST else value


def _untag(item: object) -> object:
    """Decode one value of a token; ValueError for a value that no record can have."""
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
    return item if rank_of(item) != RANK_LAST else None


@dataclass(frozen=True, slots=True)
class Answer:
    """One page: complete records in order, and the token of the next page if there is one."""

    rows: tuple[Row, ...]
    after: str = ""


def answer(query: Query, records: Iterable[Row]) -> Answer:
    """Evaluate a query over all of a table's records."""
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
    parts = [value_at(path, value, record_id) for path in select.paths]
    bare = [None if part is ABSENT else part for part in parts]
    return bare if select.shape is Projection.ARRAY else bare[0]


def _object_of(paths: tuple[Path, ...], value: object, record_id: object) -> object:
    """Build an object of the parts; one that lies within another selected part is in it already."""
    whole = frozenset(paths)
    made: dict[Path, dict[str, object]] = {(): {}}
    for path in paths:
        part = value_at(path, value, record_id)
        if part is ABSENT or any(path[:length] in whole for length in range(1, len(path))):
            continue
        for length in range(1, len(path)):
            if path[:length] not in made:
                made[path[:length]] = made[path[: length - 1]][path[length - 1]] = {}
        made[path[:-1]][path[-1]] = part
    return made[()]
