"""Types: the Parquet type of a declared attribute, and the conversion of its values.

    ID, String   string                  Boolean   bool
    Int          int32                   Date      timestamp, microseconds, UTC
    Long         int64                   Bytes     binary
    Float        double                  Any       string, JSON
    Decimal      string, digits kept; decimal128(12,2) with @decimal(precision: 12, scale: 2)
    nested type  struct of its fields    List      list

A nested type ends in ``_extra``, JSON of its undeclared fields; a sealed one too, if it has
optional fields. ``@hidden`` attributes are left out. A null of Parquet means that a value is
absent; an explicit null is also in ``_extra``: ``{"age":null}`` (not in format 1). Types that JSON
lacks have their usual spelling: ``{"$bytes": "AAEC"}``, ``$date``, ``$decimal``, ``$float``
(codecs/json_text.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa

from rowcast.codecs import json_text
from rowcast.core.tables import Attribute, Type

Values = Sequence[object]
"""The values of one column."""

MOMENT: Final = pa.timestamp("us", "UTC")
ID: Final = "_id"
"""The column with the key of a table that declares none."""
REST: Final = "_extra"
"""The column of undeclared attributes, as JSON."""

_PLAIN: Final = {
    Type.ID: pa.string(),
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.DECIMAL: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: MOMENT,
    Type.BYTES: pa.binary(),
    Type.ANY: pa.string(),
}


def dumps(value: object) -> str:
    """Return a value as JSON text, without loss."""
    return json_text.encode(value).decode()


def arrow_type(attribute: Attribute) -> pa.DataType:
    """Return the type of an attribute's column."""
    if attribute.type is Type.OBJECT:
        fields = [_field(item) for item in visible(attribute.fields)]
        rest = [pa.field(REST, pa.string())] if has_rest(attribute) else []
        return pa.struct(fields + rest)
    if attribute.type is Type.LIST:
        items = attribute.items or _ANYTHING
        return pa.list_(pa.field("element", arrow_type(items)))
    if attribute.digits is not None:
        return pa.decimal128(*attribute.digits)
    return _PLAIN[attribute.type]


def visible(attributes: Sequence[Attribute]) -> list[Attribute]:
    """Return the attributes that are stored and not hidden."""
    return [item for item in attributes if item.stored and not item.hidden]


def has_rest(attribute: Attribute) -> bool:
    """Whether a nested type may have undeclared fields or explicit nulls."""
    shown = visible(attribute.fields)
    return not attribute.sealed or not all(item.required for item in shown)


def _field(attribute: Attribute) -> pa.Field:
    return pa.field(attribute.name, arrow_type(attribute))


_ANYTHING: Final = Attribute("", Type.ANY)


# -- values of Python ------------------------------------------------------------------------------

Prepare = Callable[[object], object]
"""Converts a checked value to the form that Arrow accepts for the type."""


def prepare(attribute: Attribute) -> Prepare | None:
    """Return the conversion of an attribute's values for Arrow; None if none is needed."""
    if attribute.type is Type.DECIMAL:
        return None if attribute.digits else str
    if attribute.type is Type.ANY:
        return dumps
    if attribute.type is Type.LIST:
        return _of_list(attribute.items or _ANYTHING)
    if attribute.type is Type.OBJECT:
        return _of_object(attribute)
    return None


def _of_list(items: Attribute) -> Prepare | None:
    each = prepare(items)
    if each is None:
        return None
    return lambda value: [
        None if item is None else each(item) for item in cast("list[object]", value)
    ]


def _of_object(attribute: Attribute) -> Prepare:
    fields = [(item.name, prepare(item)) for item in visible(attribute.fields)]
    declared = frozenset(item.name for item in attribute.fields)
    closed = not has_rest(attribute)

    def convert(value: object) -> object:
        given = cast("dict[str, object]", value)
        out: dict[str, object] = {}
        for name, each in fields:
            item = given.get(name)
            out[name] = item if item is None or each is None else each(item)
        if not closed:
            rest = {name: item for name, item in given.items() if name not in declared}
            rest |= {name: None for name, _ in fields if given.get(name, name) is None}
            out[REST] = dumps(rest) if rest else None
        return out

    return convert


# -- columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table's files, built from cells of SQL or from checked values."""

    name: str
    type: pa.DataType
    of_cells: Callable[[Values], pa.Array]
    of_values: Callable[[Values], pa.Array]


def column_of(attribute: Attribute) -> Column:
    """Return the column of an attribute."""
    kind = arrow_type(attribute)
    each = prepare(attribute)

    def of_values(values: Values) -> pa.Array:
        return _array(values if each is None else _each(each, values), kind)

    return Column(attribute.name, kind, _reader(attribute, kind, of_values), of_values)


def plain_column(name: str, kind: pa.DataType) -> Column:
    """Return a column whose cells are its values."""

    def convert(values: Values) -> pa.Array:
        return _array(values, kind)

    return Column(name, kind, convert, convert)


def _array(values: Values, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def _each(convert: Prepare, values: Values) -> Values:
    return [None if value is None else convert(value) for value in values]


def _reader(
    attribute: Attribute, kind: pa.DataType, of_values: Callable[[Values], pa.Array]
) -> Callable[[Values], pa.Array]:
    """Return the conversion of SQL cells to a column (their types: ``sql_tables``)."""
    match attribute.type:
        case Type.BOOLEAN:
            return lambda cells: _array(cells, pa.int8()).cast(kind)
        case Type.DATE:
            return lambda cells: _array(cells, pa.string()).cast(kind)
        case Type.DECIMAL if attribute.digits:
            return lambda cells: _array(cells, pa.string()).cast(kind)
        case Type.OBJECT | Type.LIST:
            return lambda cells: of_values(_each(loads, cells))
        case _:
            return lambda cells: _array(cells, kind)


def loads(text: object) -> object:
    """Return the value of JSON text."""
    return json_text.decode(cast("str", text).encode())


Batch = Any
"""A ``pyarrow.RecordBatch``: rows of one table, by column. pyarrow has no type hints."""
