"""The columns of a copy: from declared attributes to types of PostgreSQL, and from records to rows.

Every record has a row, whatever it holds: a value that its column cannot take, and attributes that
are not declared, are in ``_more`` (jsonb). PostgreSQL's text has no NUL, so it is left out.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB

from rowcast.codecs import JSON, encode
from rowcast.core.errors import Error
from rowcast.core.events import Event, local_id
from rowcast.core.tables import Attribute, Table, Type

NAME_BYTES_MAX: Final = 63
"""Of an identifier of PostgreSQL: a longer one would be cut (NAMEDATALEN)."""
SYSTEM_COLUMNS: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Names that PostgreSQL keeps for itself in every table; such attributes are in ``_more``."""
KEY: Final = "_key"
VERSION: Final = "_version"
POSITION: Final = "_position"
MORE: Final = "_more"
GENERATION: Final = "_generation"
KEY_BYTES_MAX: Final = 2_000
"""Of a key: an index takes 2,704 bytes at most, in a page of 8 KB."""
Row = dict[str, Any]

_TYPES: Final[dict[Type, Callable[[], sa.types.TypeEngine[Any]]]] = {
    Type.ID: sa.Text,
    Type.STRING: sa.Text,
    Type.INT: sa.BigInteger,
    Type.LONG: sa.BigInteger,
    Type.FLOAT: DOUBLE_PRECISION,
    Type.DECIMAL: sa.Numeric,
    Type.BOOLEAN: sa.Boolean,
    Type.DATE: lambda: sa.DateTime(timezone=True),
    Type.BYTES: sa.LargeBinary,
}
_LONG: Final = 1 << 63


def columns_of(table: Table) -> dict[str, Attribute]:
    """Return the attributes that have columns, by the names of these."""
    return {
        item.name: item
        for item in table.attributes
        if item.stored
        and len(item.name.encode()) <= NAME_BYTES_MAX
        and item.name not in SYSTEM_COLUMNS
    }


def copy_of(table: Table, metadata: sa.MetaData) -> sa.Table:
    """Return the copy of a declared table; its key is the last part of the topic."""
    own = [
        sa.Column(name, _TYPES.get(item.type, lambda: JSONB(none_as_null=True))())
        for name, item in columns_of(table).items()
    ]
    return sa.Table(
        table.name[:NAME_BYTES_MAX],
        metadata,
        sa.Column(KEY, sa.Text, primary_key=True),
        *own,
        sa.Column(MORE, JSONB(none_as_null=True)),
        sa.Column(VERSION, sa.BigInteger, nullable=False),
        sa.Column(POSITION, sa.BigInteger, nullable=False),
        sa.Column(GENERATION, sa.Integer, nullable=False),
    )


def key_of(table: Table, topic: str) -> str:
    """Return the key of a record's row; empty if no index takes it."""
    key = _text(local_id(table, topic))
    return key if len(key.encode()) <= KEY_BYTES_MAX else ""


def row_of(table: Table, event: Event, value: object) -> Row:
    """Return the row of a record, whose decoded value this is."""
    row: Row = {KEY: key_of(table, event.topic)}
    row |= {VERSION: event.version, POSITION: event.seq, MORE: None}
    rest: dict[str, object] = {}
    columns = columns_of(table)
    if isinstance(value, Mapping):
        for name, item in value.items():
            attribute = columns.get(name)
            if attribute is None or not _fits(attribute, item):
                rest[name] = item
            else:
                row[name] = _value(attribute, item)
    elif value is not None:
        rest[""] = value
    row |= dict.fromkeys(columns.keys() - row.keys())
    if rest:
        row[MORE] = _without_nul(rest)
    return row


def _fits(attribute: Attribute, value: object) -> bool:
    """Whether a column takes a value."""
    match attribute.type:
        case _ if value is None:
            return True
        case Type.ID | Type.STRING:
            return isinstance(value, str)
        case Type.INT | Type.LONG:
            return type(value) is int and -_LONG <= value < _LONG
        case Type.FLOAT:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Type.DECIMAL:
            exact = isinstance(value, Decimal) and value.is_finite()
            return exact or (isinstance(value, int | float) and not isinstance(value, bool))
        case Type.BOOLEAN:
            return isinstance(value, bool)
        case Type.DATE:
            return isinstance(value, datetime)
        case Type.BYTES:
            return isinstance(value, bytes)
        case _:
            return True


def _value(attribute: Attribute, value: object) -> object:
    if value is None:
        return None
    if attribute.type not in _TYPES:
        return _without_nul(value)
    if isinstance(value, str):
        return _text(value)
    if attribute.type is Type.DECIMAL:
        return Decimal(str(value))
    if attribute.type is Type.FLOAT:
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError:
            return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    return value


def _text(value: str) -> str:
    """Return text as PostgreSQL takes it."""
    return value.replace("\x00", "").encode("utf-8", "replace").decode()


def json_text(value: object) -> str:
    """Return a value of a jsonb column as JSON, as REST would write it."""
    try:
        return encode(value, JSON).decode()
    except Error:  # cannot be: the value was encoded when it was written
        return json.dumps(value, default=str)


def _without_nul(value: object) -> object:
    """Return a value without what jsonb refuses in text."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_text(str(name)): _without_nul(item) for name, item in value.items()}
    return value
