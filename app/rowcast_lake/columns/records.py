"""Rows of Arrow as records: without nulls, and without the columns of events."""

from datetime import UTC, date, datetime, time
from typing import Final

from rowcast.codecs import json_text

KEY: Final = "_id"
REST: Final = "_extra"
Row = dict[str, object]


def plain(row: Row) -> Row:
    """Return a row as a record: without nulls, and without the columns of events."""
    rest = row.get(REST)
    more = json_text.decode(str(rest).encode()) if rest is not None else {}
    own = {
        name: _value(item)
        for name, item in row.items()
        if item is not None and (name == KEY or not name.startswith("_"))
    }
    return {**(more if isinstance(more, dict) else {}), **own}


def _value(value: object) -> object:
    """Convert a value of Arrow to one of a record."""
    if isinstance(value, dict):
        return {name: _value(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    return value
