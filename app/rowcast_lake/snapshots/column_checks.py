"""Column checks: whether all rows of a batch are valid records by the types of its columns alone.

Most columns of Parquet have a type all of whose values are valid for their attribute: then no row
needs to be looked at. ``ColumnChecks.certain`` is no verdict when it says no: each row is checked
by itself then (``core/values.py:Checker``), which finds the invalid one and says what is wrong.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rowcast.core.limits import TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX
from rowcast.core.tables import Attribute, Role, Table, Type

_YEARS: Final = tuple(
    int(datetime(year, 1, 2, tzinfo=UTC).timestamp()) * 1_000_000 for year in (1, 9999)
)
"""The microseconds between which a time certainly has a year of four digits."""
Fits = Callable[[Any], bool]
"""Whether a column's type and values fit."""


def _text(column: Any) -> bool:
    return bool(kinds.is_string(column.type) or kinds.is_large_string(column.type))


def _int(column: Any) -> bool:
    return bool(kinds.is_int32(column.type) or kinds.is_int16(column.type))


def _long(column: Any) -> bool:
    return bool(kinds.is_int64(column.type)) or _int(column)


def _float(column: Any) -> bool:
    return bool(kinds.is_float64(column.type) or kinds.is_float32(column.type))


def _date(column: Any) -> bool:
    if column.type != pa.timestamp("us", "UTC"):
        return False
    bounds = pc.min_max(column.cast(pa.int64())).as_py()
    least, most = bounds["min"], bounds["max"]
    return least is None or _YEARS[0] <= least <= most <= _YEARS[1]


_FITS: Final[dict[Type, Fits]] = {
    Type.ID: _text,
    Type.STRING: _text,
    Type.INT: _int,
    Type.LONG: _long,
    Type.FLOAT: _float,
    Type.BOOLEAN: lambda column: bool(kinds.is_boolean(column.type)),
    Type.DATE: _date,
    Type.BYTES: lambda column: bool(kinds.is_binary(column.type)),
}
_IGNORED: Final = frozenset({"_topic", "_seq", "_ts", "_version", "_origin", "_client"})
"""What describes the write of a snapshot's row (``importing``)."""
_SET_BY_SERVER: Final = frozenset({Role.CREATED_TIME, Role.UPDATED_TIME})


class ColumnChecks:
    """The checks of the columns of one table."""

    def __init__(self, table: Table) -> None:
        self._attributes = {item.name: item for item in table.attributes}
        self._open = table.open
        key = table.primary_key
        self._key = "_id" if key is None else key.name
        self._prefix = table.topic("")
        self._required = [item.name for item in table.attributes
                          if item.required and item.stored and not item.primary_key
                          and item.role not in _SET_BY_SERVER]  # fmt: skip

    def certain(self, batch: Any) -> bool:
        """Whether every row of a batch is a valid record."""
        names = batch.schema.names
        if self._open or self._key not in names or len(set(names)) != len(names):
            return False
        if any(name not in names or batch.column(name).null_count for name in self._required):
            return False
        return all(self._fits(name, batch.column(name)) for name in names)

    def _fits(self, name: str, column: Any) -> bool:
        if name == self._key and (column.null_count or not self._are_ids(column)):
            return False
        if name in _IGNORED or column.null_count == len(column):
            return True
        if name == "_op":
            return _text(column) and bool(pc.all(pc.equal(column, "put")).as_py())
        if name == "_id":
            return name == self._key and _text(column)
        attribute: Attribute | None = self._attributes.get(name)
        if attribute is None or not attribute.stored or name.startswith("_"):
            return False
        check = _FITS.get(attribute.type)
        return check is not None and check(column)

    def _are_ids(self, column: Any) -> bool:
        """Whether keys of text are the ends of topics (``core/topics.py:check_topic``)."""
        if not _text(column) or not len(column):
            return True
        room = TOPIC_BYTES_MAX - len(self._prefix.encode())
        levels = TOPIC_LEVELS_MAX - self._prefix.count("/")
        sizes = pc.min_max(pc.binary_length(column)).as_py()
        return (
            0 < sizes["min"] <= sizes["max"] <= room
            and pc.max(pc.count_substring(column, "/")).as_py() < levels
            and not pc.any(pc.match_substring_regex(column, "[+#\\x00]")).as_py()
        )
