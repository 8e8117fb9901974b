"""Filter pushdown: Spark's filters as expressions of the Parquet reader.

Unsupported filters are left out: Spark applies every filter itself, so that costs only time.

To Spark NaN is equal to itself and greater than any other number. Parquet's statistics are without
it, and its reader leaves it out of every comparison: so of a number with a fraction no lower bound
is used, and nothing that is compared with NaN.
"""

import math
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
        case spark.GreaterThan(value=float()) | spark.GreaterThanOrEqual(value=float()):
            return None
        case spark.In(value=values) if any(map(_is_nan, values)):
            return None
        case _ if _is_nan(getattr(item, "value", None)):
            return None
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


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
