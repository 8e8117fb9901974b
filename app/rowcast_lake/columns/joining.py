"""Joining: a common type for columns of one name whose types differ from file to file.

A declared type may change between two exports, so a reader of several files calls ``joined`` for
the type that holds the values of all, and ``converted`` to cast each file's column to it. Proof,
compaction, import and Spark all follow this rule:

    left                  right                    together
    equal types                                    that type
    null                  any                      the other
    int32                 int64                    int64
    int32, int64          double                   double, where each value is exactly one
    int32, int64          decimal                  decimal with room for both
    decimal               decimal                  decimal with room for both
    date                  timestamp                timestamp, midnight in UTC
    struct                struct                   struct of the fields of both, each joined
    list                  list                     list of the joined elements
    anything else                                  text

A decimal of more than 38 digits is text, too. A column that one side lacks is null there.

As text, text is itself; numbers are as in JSON, a decimal with its digits; booleans ``true`` and
``false``; times ISO 8601 in UTC with ``Z``; bytes base64; structs and lists JSON, spelled as
everywhere (``codecs/json_text.py``), without members that are null, and with those of ``_extra``.

Nothing is rounded: a value that the wanted type cannot hold raises ``pa.ArrowInvalid``.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Final, cast

import pyarrow as pa

from rowcast.codecs import json_text, model
from rowcast.core.errors import Error

TEXT: Final = pa.string()
MOMENT: Final = pa.timestamp("us", "UTC")
REST: Final = "_extra"
_DIGITS_MAX: Final = 38  # of decimal128
_DIGITS: Final = {pa.int32(): 10, pa.int64(): 19}
"""The maximum number of decimal digits of an integer type."""


def joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of two types."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(list(_joined_fields([*one], [*other])))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(pa.field("element", joined(one.value_type, other.value_type)))
    return _joined_scalars(one, other)


def _joined_scalars(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    both = (one, other)
    if all(kind in _DIGITS for kind in both):
        return pa.int64()
    if pa.float64() in both and any(kind in _DIGITS for kind in both):
        return pa.float64()
    if all(kind in _DIGITS or pa.types.is_decimal(kind) for kind in both):
        return _joined_decimals(one, other)
    if all(pa.types.is_date(kind) or kind.equals(MOMENT) for kind in both):
        return MOMENT
    return TEXT


def _joined_decimals(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    sizes = [
        (_DIGITS[kind], 0) if kind in _DIGITS else (kind.precision, kind.scale)
        for kind in (one, other)
    ]
    scale = max(scale for _, scale in sizes)
    precision = scale + max(precision - scale for precision, scale in sizes)
    return pa.decimal128(precision, scale) if precision <= _DIGITS_MAX else TEXT


def _joined_fields(one: list[pa.Field], other: list[pa.Field]) -> Iterable[pa.Field]:
    """Return the fields of both: those of the first, then those that only the other has."""
    kinds = {field.name: field.type for field in one}
    for field in other:
        known = kinds.get(field.name)
        kinds[field.name] = field.type if known is None else joined(known, field.type)
    never_null = {field.name for field in one if not field.nullable}
    never_null &= {field.name for field in other if not field.nullable}
    return (pa.field(name, kind, name not in never_null) for name, kind in kinds.items())


def joined_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of all, each of a type that holds the values of all."""
    found: list[pa.Field] | None = None
    for schema in schemas:
        found = list(schema if found is None else _joined_fields(found, list(schema)))
    return pa.schema(found or []).remove_metadata()


# -- values ----------------------------------------------------------------------------------------


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table or batch with exactly these columns; one that it lacks is null."""
    columns = []
    for field in schema:
        place = rows.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            columns.append(converted(rows.column(place), field.type))
    return type(rows).from_arrays(columns, schema=schema)


def converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column in another type; raises ``pa.ArrowInvalid`` for a value it cannot hold."""
    kind = column.type
    if kind.equals(wanted):
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column), wanted)
    if kind in _DIGITS and pa.types.is_decimal(wanted):
        scale = min(wanted.scale, _DIGITS_MAX - _DIGITS[kind])
        return column.cast(pa.decimal128(_DIGITS[kind] + scale, scale)).cast(wanted)
    if _by_value(kind, wanted):
        try:
            return pa.array([_value(item, wanted) for item in column.to_pylist()], wanted)
        except (Error, TypeError, ValueError) as error:
            raise pa.ArrowInvalid(f"{kind} does not become {wanted}: {error}") from error
    try:
        return column.cast(wanted)
    except pa.ArrowNotImplementedError as error:
        raise pa.ArrowInvalid(f"{kind} does not become {wanted}") from error


def _by_value(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values are converted one by one, because Arrow cannot or formats text differently."""
    if pa.types.is_nested(kind) or pa.types.is_nested(wanted):
        return True
    if wanted.equals(TEXT):
        return kind not in _DIGITS
    return bool(kind.equals(TEXT) and pa.types.is_binary(wanted))


def _value(item: object, wanted: pa.DataType) -> object:
    """Return a value in the form that ``pa.array`` accepts for a type."""
    if item is None:
        return None
    if wanted.equals(TEXT):
        return text_of(item)
    if isinstance(item, str) and pa.types.is_binary(wanted):
        return b64decode(item, validate=True)
    if isinstance(item, str) and pa.types.is_nested(wanted):
        item = json_text.decode(item.encode())
    if pa.types.is_struct(wanted) and isinstance(item, dict):
        return {field.name: _value(item.get(field.name), field.type) for field in wanted}
    if pa.types.is_list(wanted) and isinstance(item, list):
        return [_value(each, wanted.value_type) for each in item]
    return item


def text_of(item: object) -> str:
    """Return a value as text."""
    match item:
        case str():
            return item
        case Decimal():
            return f"{item:f}"
        case datetime():
            return model.text_of(item)
        case date():
            return item.isoformat()
        case bytes():
            return b64encode(item).decode()
        case float() if not math.isfinite(item):
            return model.name_of(item)
        case _:
            return json_text.encode(_whole(item)).decode()


def _whole(item: object) -> object:
    """Return a value of structs and lists without the nulls that Arrow adds to it."""
    if isinstance(item, list):
        return [_whole(each) for each in item]
    if not isinstance(item, dict):
        return item
    known = {name: _whole(each) for name, each in item.items() if each is not None}
    rest = known.pop(REST, None)
    more = json_text.decode(rest.encode()) if isinstance(rest, str) else {}
    return known | cast("dict[str, object]", more)
