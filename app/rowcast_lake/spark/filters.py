"""Filter pushdown: Spark's filters as expressions of the Parquet reader.

Unsupported filters are left out: Spark applies every filter itself, so that costs only time.
"""

from collections.abc import Container, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import datasource as spark


def expression_of(filters: Sequence[spark.Filter], columns: Container[str]) -> Any:
    """Return all filters about these columns as one expression; None if there is none."""
    found = [made for item in filters if (made := _one(item, columns)) is not None]
    return reduce(and_, found) if found else None


def _one(item: spark.Filter, columns: Container[str]) -> Any:
    name: tuple[str, ...] = getattr(item, "attribute", ())
    if len(name) != 1 or name[0] not in columns:
        return None
    field = pc.field(name[0])
    match item:
        case spark.EqualTo(value=value):
            return field == value
        case spark.GreaterThan(value=value):
            return field > value
        case spark.GreaterThanOrEqual(value=value):
            return field >= value
        case spark.LessThan(value=value):
            return field < value
        case spark.LessThanOrEqual(value=value):
            return field <= value
        case spark.In(value=values):
            return field.isin([value for value in values if value is not None])
        case spark.IsNotNull():
            return field.is_valid()
        case spark.StringStartsWith(value=value):
            return pc.starts_with(field, value)
    return None
