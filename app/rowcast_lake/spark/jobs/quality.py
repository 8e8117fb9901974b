"""Quality: records of a table that violate ``schema.graphql``.

The server checks each write against the schema of its time; records from before a change of the
schema, imports and Spark's results may not have been checked against this one. The result has one
row for each attribute and rule, with or without violations, so that a checked rule can be told from
a missing one.
"""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Attribute, Role, Table, Type
from rowcast_lake.spark.jobs.columns import TOPIC, column, identifier
from rowcast_lake.spark.jobs.job import Given, Job, Reads

FITTING: Final[dict[Type, tuple[type[T.DataType], ...]]] = {
    Type.ID: (T.StringType,),
    Type.STRING: (T.StringType,),
    Type.INT: (T.IntegerType,),
    Type.LONG: (T.LongType,),
    Type.FLOAT: (T.DoubleType,),
    Type.DECIMAL: (T.DecimalType, T.StringType),
    Type.BOOLEAN: (T.BooleanType,),
    Type.DATE: (T.TimestampType,),
    Type.BYTES: (T.BinaryType,),
    Type.ANY: (T.StringType,),
    Type.OBJECT: (T.StructType,),
    Type.LIST: (T.ArrayType,),
}
"""Spark's types for the Parquet column of each declared type."""
EXTRA: Final = "_extra"

Check = tuple[str, str, Column]
"""An attribute, a rule, and whether a row breaks it."""


def compute(given: Given) -> DataFrame:
    """Return how many rows break each rule of each attribute."""
    table = given.table
    if table is None:
        raise Error(
            Code.UNPROCESSABLE,
            "quality: the data is of no declared table; name one with --table, or its file with "
            "--schema",
        )
    frame = given.state
    checks = [*_of_columns(frame, table), *_of_rows(frame, table)]
    # One pass for all rules; column names do not contain attributes' names.
    counts = frame.agg(
        F.count("*").alias("rows"),
        *(
            F.count_if(F.coalesce(broken, F.lit(False))).alias(f"c{i}")
            for i, (*_, broken) in enumerate(checks)
        ),
    )
    found = F.explode(
        F.array(
            *(
                F.struct(
                    F.lit(attribute).alias("attribute"),
                    F.lit(rule).alias("rule"),
                    F.col(f"c{i}").alias("failed"),
                )
                for i, (attribute, rule, _) in enumerate(checks)
            )
        )
    )
    rows = counts.select("rows", found.alias("f")).select("f.*", "rows")
    for others in (_repeated(frame, table), _undeclared(frame)):
        rows = rows.unionByName(others) if others is not None else rows
    return rows.select(
        identifier(F.lit(table.name), F.col("attribute"), F.col("rule")).alias("id"),
        F.lit(table.name).alias("table"),
        *("attribute", "rule", "failed", "rows"),
        F.coalesce(F.try_divide("failed", "rows"), F.lit(0.0)).alias("share"),
        (F.col("failed") == 0).alias("good"),
    )


def _of_columns(frame: DataFrame, table: Table) -> Iterator[Check]:
    """Yield rules about a column's type: either all rows or none violate them."""
    fields = {field.name: field.dataType for field in frame.schema}
    for item in _stored(table):
        absent = item.name not in fields
        yield item.name, "present", F.lit(absent)
        if not absent:
            yield item.name, "type", F.lit(not _fits(item, fields[item.name]))


def _fits(item: Attribute, found: T.DataType) -> bool:
    if not isinstance(found, FITTING[item.type]):
        return False
    if isinstance(found, T.ArrayType) and item.items is not None:
        return _fits(item.items, found.elementType)
    if isinstance(found, T.StructType):
        inside = {field.name: field.dataType for field in found}
        return all(
            field.name in inside and _fits(field, inside[field.name])
            for field in item.fields
            if field.stored and not field.hidden
        )
    return True


def _of_rows(frame: DataFrame, table: Table) -> Iterator[Check]:
    """Yield rules that are checked for each row."""
    names = set(frame.columns)
    for item in _stored(table):
        if item.name not in names:
            continue
        value, kind = column(item.name), frame.schema[item.name].dataType
        if item.required or item.primary_key:
            yield item.name, "required", value.isNull()
        if item.primary_key and isinstance(kind, T.StringType):
            yield item.name, "not empty", value == ""
            if TOPIC in names:
                yield item.name, "is the topic's", ~F.endswith(F.col(TOPIC), value)
        if isinstance(kind, T.DoubleType | T.FloatType):
            yield item.name, "finite", F.isnan(value) | (F.abs(value) == float("inf"))
        if isinstance(kind, T.StringType) and item.type is Type.DECIMAL:
            yield (
                item.name,
                "a number",
                value.isNotNull() & value.try_cast("decimal(38,18)").isNull(),
            )
        if isinstance(kind, T.StringType) and item.type is Type.ANY:
            parsed = F.try_parse_json(value)
            yield item.name, "JSON", value.isNotNull() & parsed.isNull()
        if isinstance(kind, T.ArrayType) and item.items is not None and item.items.required:
            yield item.name, "no null inside", F.exists(value, lambda x: x.isNull())
    roles = {item.role: item.name for item in _stored(table) if item.role}
    made, changed = roles.get(Role.CREATED_TIME), roles.get(Role.UPDATED_TIME)
    if made in names and changed in names and made and changed:
        yield changed, f"not before {made}", column(changed) < column(made)


def _repeated(frame: DataFrame, table: Table) -> DataFrame | None:
    """Return the number of rows that share their key with another one."""
    key = table.primary_key
    if key is None or key.name not in frame.columns:
        return None
    each = frame.groupBy(column(key.name).alias("key")).count()
    return each.agg(
        F.lit(key.name).alias("attribute"),
        F.lit("unique").alias("rule"),
        F.coalesce(F.sum(F.when(F.col("count") > 1, F.col("count"))), F.lit(0)).alias("failed"),
        F.coalesce(F.sum("count"), F.lit(0)).alias("rows"),
    )


def _undeclared(frame: DataFrame) -> DataFrame | None:
    """Return the undeclared attributes of records; an open table may have them."""
    rows = F.broadcast(frame.agg(F.count("*").alias("rows")))
    if EXTRA not in frame.columns:
        return None
    names = frame.select(F.explode(F.json_object_keys(EXTRA)).alias("attribute"))
    return (
        names.groupBy("attribute")
        .agg(F.count("*").alias("failed"))
        .crossJoin(rows)
        .select("attribute", F.lit("declared").alias("rule"), "failed", "rows")
    )


def _stored(table: Table) -> list[Attribute]:
    return [item for item in table.attributes if item.stored and not item.hidden]


JOB: Final = Job(
    name="quality",
    summary="How many records break each rule of schema.graphql.",
    reads=(Reads.STATE,),
    writes="id, table, attribute, rule, failed (rows that break it), rows, share, good",
    compute=compute,
    order=("good", "id"),
    example="rowcast pipeline run quality --table Weather",
)
