"""Columns by name: check that the columns a user named exist and have the right type."""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PATCH, PUT, SNAPSHOT
from rowcast.core.suggestions import did_you_mean
from rowcast_lake.spark.jobs.job import Given

TOPIC: Final = "_topic"
SEQ: Final = "_seq"
TS: Final = "_ts"
OP: Final = "_op"
TOLD: Final = (OP, "_origin", "_client")
"""Columns that rows of the log have and rows of a snapshot lack."""
SAID: Final = (PUT, PATCH, MESSAGE, SNAPSHOT)
"""The operations that set a value."""


def require(frame: DataFrame, names: Iterable[str], option: str = "") -> None:
    """Raise an Error that names the first missing column."""
    for name in names:
        if name not in frame.columns:
            before = f"--{option}: " if option else ""
            raise Error(
                Code.UNPROCESSABLE,
                f"{before}there is no column {name}{did_you_mean(name, frame.columns)}; there are "
                f"{', '.join(frame.columns)}",
            )


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark's expressions."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the column of exactly this name; a dot in it does not select a struct's field."""
    return F.col(quoted(name))


def keys(given: Given, frame: DataFrame) -> list[str]:
    """Return the columns of ``--by``, else the key of the table, else the topic."""
    named = list(given.options["by"])
    require(frame, named, "by")
    if named:
        return named
    key = given.table.primary_key if given.table else None
    if key is not None and key.name in frame.columns:
        return [key.name]
    for name in ("_id", TOPIC, "topic"):
        if name in frame.columns:
            return [name]
    raise Error(
        Code.UNPROCESSABLE,
        f"--by: name the columns that tell one series from another, of {', '.join(frame.columns)}",
    )


def series(given: Given, frame: DataFrame, taken: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Return the frame and its keys, renamed to names that a result may have.

    A record's attributes must not begin with an underscore; ``taken`` are the result's own names.
    """
    named = []
    for name in keys(given, frame):
        plain = name.lstrip("_") or name
        plain = f"by_{plain}" if plain in taken else plain
        if plain != name:
            frame = frame.withColumn(plain, column(name))
        named.append(plain)
    return frame, named


def time_column(given: Given, frame: DataFrame) -> str:
    """Return the column of ``--time``, else the time of the write, else the only time column."""
    times = [field.name for field in frame.schema if isinstance(field.dataType, T.TimestampType)]
    name = str(given.options["time"]) or (TS if TS in times else "")
    if not name and len(times) == 1:
        name = times[0]
    if not name:
        raise Error(
            Code.UNPROCESSABLE,
            f"--time: name the column of the time{', one of ' + ', '.join(times) if times else ''}",
        )
    require(frame, [name], "time")
    if name not in times:
        raise Error(
            Code.UNPROCESSABLE,
            f"--time {name}: that column holds {frame.schema[name].dataType.simpleString()}, "
            f"not times; {', '.join(times) or 'no column'} does",
        )
    return name


def measures(given: Given, frame: DataFrame, without: Sequence[str] = ()) -> list[str]:
    """Return the columns of ``--values``, else all columns of numbers except the server's own."""
    numbers = [
        field.name
        for field in frame.schema
        if isinstance(field.dataType, T.NumericType)
        and not field.name.startswith("_")
        and field.name not in without
    ]
    named = list(given.options["values"])
    require(frame, named, "values")
    for name in named:
        if name not in numbers:
            raise Error(
                Code.UNPROCESSABLE,
                f"--values {name}: that column holds "
                f"{frame.schema[name].dataType.simpleString()}, not numbers to add up; "
                f"{', '.join(numbers) or 'no column'} does",
            )
    if not (named or numbers):
        raise Error(Code.UNPROCESSABLE, "--values: the data has no column of numbers")
    return named or numbers


def readings(frame: DataFrame, time: str) -> DataFrame:
    """Return the rows that set a value at a known time; deletions do not."""
    said = frame.where(F.col(OP).isin(*SAID)) if OP in frame.columns else frame
    return said.where(column(time).isNotNull())


def identifier(*parts: Column) -> Column:
    """Return a deterministic record id: these parts as levels of a topic."""
    return F.concat_ws("/", *(F.coalesce(part.cast("string"), F.lit("null")) for part in parts))


def instant(time: Column) -> Column:
    """Return a time as text for an id, with as many digits as it needs."""
    return F.concat(F.translate(time.cast("string"), " ", "T"), F.lit("Z"))


def steady(value: Column) -> Column:
    """Round to 12 digits, so that sums do not depend on the order of their numbers."""
    text = F.format_string("%.12g", value)
    return F.when(value.isNotNull(), text.cast("double"))


def number(name: str) -> Column:
    """Return a column as a double; NaN becomes null."""
    return F.nanvl(column(name).cast("double"), F.lit(None).cast("double"))
