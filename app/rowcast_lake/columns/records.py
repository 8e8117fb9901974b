"""Rows of Arrow as records: without nulls, and without the columns of events."""

from datetime import UTC, date, datetime, time
from typing import Final

from rowcast.codecs import json_text

KEY: Final = "_id"
REST: Final = "_extra"
Row = dict[str, object]


def plain(row: Row) -> Row:
    """Return a row as a record: without nulls, and without the columns of events."""
    known = {KEY, REST}
    return _members({k: item for k, item in row.items() if k in known or not k.startswith("_")})


def _members(row: Row) -> Row:
    """Return the members of a row or struct that are not null, with those of its ``_extra``."""
    rest = row.get(REST)
    more = json_text.decode(str(rest).encode()) if rest is not None else {}
    own = {k: _value(item) for k, item in row.items() if item is not None and k != REST}
    return {**(more if isinstance(more, dict) else {}), **own}


def _value(value: object) -> object:
    """Convert a value of Arrow to one of a record."""
    if isinstance(value, dict):
        return _members(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    return value
