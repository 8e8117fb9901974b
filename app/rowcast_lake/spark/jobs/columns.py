"""Columns by name: what a user named is there and of the right sort, or a sentence says what is."""

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
"""What rows of the log have beside those of a snapshot."""
SAID: Final = (PUT, PATCH, MESSAGE, SNAPSHOT)
"""What brings a value."""


def require(frame: DataFrame, names: Iterable[str], option: str = "") -> None:
    """Raise an Error that names the first of these columns that is not there."""
    for name in names:
        if name not in frame.columns:
            before = f"--{option}: " if option else ""
            raise Error(
                Code.UNPROCESSABLE,
                f"{before}there is no column {name}{did_you_mean(name, frame.columns)}; there are "
                f"{', '.join(frame.columns)}",
            )


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions want it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the column of exactly this name; a dot in it is no way into a struct."""
    return F.col(quoted(name))


def keys(given: Given, frame: DataFrame) -> list[str]:
    """Return what ``--by`` names, else the key of the table, else the topic."""
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
    """Return the frame and its keys under names that a result may have.

    A record's attributes do not begin with an underscore, and ``taken`` are the result's own.
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
    """Return what ``--time`` names, else when it was written, else the only column of times."""
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
    """Return what ``--values`` names, else all columns of numbers but the server's own."""
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
    """Return what brought a value, and when; deletions did not."""
    said = frame.where(F.col(OP).isin(*SAID)) if OP in frame.columns else frame
    return said.where(column(time).isNotNull())


def identifier(*parts: Column) -> Column:
    """Return a record's id made of these: levels of a topic, the same whenever it is computed."""
    return F.concat_ws("/", *(F.coalesce(part.cast("string"), F.lit("null")) for part in parts))


def instant(time: Column) -> Column:
    """Return a time as text, for an id: with as many digits as it needs."""
    return F.concat(F.translate(time.cast("string"), " ", "T"), F.lit("Z"))


def steady(value: Column) -> Column:
    """Round to 12 digits: sums of the same numbers in another order then are the same number."""
    text = F.format_string("%.12g", value)
    return F.when(value.isNotNull(), text.cast("double"))


def number(name: str) -> Column:
    """Return a column as a double; what is not a number (NaN) is nothing."""
    return F.nanvl(column(name).cast("double"), F.lit(None).cast("double"))
