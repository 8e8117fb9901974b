"""Unions: frames written under different schemas as one, with columns matched by name.

The common type of a column follows ``rowcast_lake/columns/joining.py``; here Spark's columns are
cast to it. JSON of a struct or list has Spark's own spelling.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from rowcast_lake.columns.joining import joined_schema

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def union(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the rows of both; a column that one of them lacks is null there."""
    if left.schema != right.schema:
        both = joined_schema([_columns(left), _columns(right)])
        left, right = _shaped(left, both), _shaped(right, both)
    return left.unionByName(right, allowMissingColumns=True)


def _columns(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")


def _shaped(frame: DataFrame, wanted: pa.Schema) -> DataFrame:
    """Return a frame with its columns cast to these types."""
    changed = {
        field.name: _as(F.col(f"`{field.name}`"), field.type, wanted.field(field.name).type)
        for field in _columns(frame)
        if not field.type.equals(wanted.field(field.name).type)
    }
    return frame.withColumns(changed) if changed else frame


def _as(column: Column, kind: pa.DataType, wanted: pa.DataType) -> Column:
    """Return a column of one type, cast to the common type."""
    if kind.equals(wanted):
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return _as_struct(column, kind, wanted)
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        inner = kind.value_type, wanted.value_type
        return F.transform(column, lambda item: _as(item, *inner))
    if not pa.types.is_string(wanted):
        return column.cast(from_arrow_type(wanted))
    if pa.types.is_nested(kind):
        return F.to_json(column)
    if pa.types.is_binary(kind):
        return F.base64(column)
    if pa.types.is_timestamp(kind):
        return F.date_format(F.to_utc_timestamp(column, F.current_timezone()), _TIME)
    return column.cast("string")


def _as_struct(column: Column, kind: pa.DataType, wanted: pa.DataType) -> Column:
    known = {field.name: field.type for field in kind}
    fields = [
        _as(column.getField(field.name), known[field.name], field.type).alias(field.name)
        if field.name in known
        else F.lit(None).cast(from_arrow_type(field.type)).alias(field.name)
        for field in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*fields))
