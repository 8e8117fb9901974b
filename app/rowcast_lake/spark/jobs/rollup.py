"""Rollups: count, minimum, maximum, mean and percentiles per series, measure and time window.

Percentiles of windows cannot be combined to those of a longer one, so each window is computed from
the readings. In a batch no reading is late: the result covers all data, and a later run replaces
rows of the same window. On a stream a window is complete when the watermark (the newest time seen,
less ``--late``) has passed its end; later readings of it are left out, and counted, until the next
batch.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rowcast_lake.spark.jobs.columns import (
    column,
    identifier,
    instant,
    keys,
    measures,
    number,
    readings,
    series,
    steady,
    time_column,
)
from rowcast_lake.spark.jobs.job import Given, Job, Option, Reads
from rowcast_lake.spark.jobs.kinds import DURATION_KIND, DURATIONS, NAMES, SHARES, TEXT

ACCURACY: Final = 10_000
"""The rank of a percentile is off by at most count / ACCURACY; exact up to ACCURACY readings."""
TAKEN: Final = (
    "id", "measure", "every", "start", "end", "count", "min", "max", "mean", "stretch", "r",
)  # fmt: skip
"""Column names of the result, which keys may not use."""


def share_name(share: float) -> str:
    """Return a percentile's column name: 0.95 is ``p95``, 0.999 is ``p99_9``."""
    return "p" + f"{share * 100:.4f}".rstrip("0").rstrip(".").replace(".", "_")


def compute(given: Given) -> DataFrame:
    """Return the windows of all requested lengths in one frame."""
    time = time_column(given, given.events)
    frame, by = series(given, given.events, TAKEN)
    named = measures(given, given.events, without=keys(given, given.events))
    frame = readings(frame, time)
    if frame.isStreaming:
        frame = frame.withWatermark(time, f"{given.options['late']} seconds")
    parts = [
        _stretches(frame, given, time, by, named, label, length)
        for label, length in given.options["every"]
    ]
    return reduce(DataFrame.unionByName, parts)


def _stretches(
    frame: DataFrame,
    given: Given,
    time: str,
    by: list[str],
    named: list[str],
    label: str,
    length: int,
) -> DataFrame:
    shares = given.options["percentiles"]
    window = F.window(column(time), f"{length} seconds").alias("stretch")
    # All measures in one pass, then unpivot to one row for each measure.
    grouped = frame.groupBy(*map(column, by), window).agg(
        *(_summary(name, shares).alias(f"m{i}") for i, name in enumerate(named))
    )
    rows = F.array(
        *(
            F.struct(F.lit(name).alias("measure"), F.col(f"m{i}").alias("x"))
            for i, name in enumerate(named)
        )
    )
    long = grouped.select(*map(column, by), "stretch", F.explode(rows).alias("r"))
    start, x = F.col("stretch.start"), F.col("r.x")
    return long.where(x["count"] > 0).select(
        identifier(*map(column, by), F.col("r.measure"), F.lit(label), instant(start)).alias("id"),
        *map(column, by),
        F.col("r.measure").alias("measure"),
        F.lit(label).alias("every"),
        start.alias("start"),
        F.col("stretch.end").alias("end"),
        *(x[field].alias(field) for field in ("count", "min", "max")),
        steady(x["mean"]).alias("mean"),
        *(x["shares"][i].alias(share_name(share)) for i, share in enumerate(shares)),
    )


def _summary(name: str, shares: tuple[float, ...]) -> Column:
    value = number(name)
    found = [
        F.count(value).alias("count"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.avg(value).alias("mean"),
    ]
    if shares:
        approximate = F.percentile_approx(value, list(shares), F.lit(ACCURACY))
        found.append(approximate.alias("shares"))
    return F.struct(*found)


JOB: Final = Job(
    name="rollup",
    summary="Count, minimum, maximum, mean and percentiles of numbers, by intervals.",
    reads=(Reads.EVENTS,),
    writes="id, the columns of --by, measure, every, start, end, count, min, max, mean, p50, …",
    compute=compute,
    options=(
        Option("every", DURATIONS, "1m,1h,1d", "Lengths of the intervals, aligned to UTC."),
        Option("by", NAMES, "", "Columns that identify a series [default: the table's key]."),
        Option("values", NAMES, "", "Columns of numbers [default: all]."),
        Option("time", TEXT, "", "Column of the time [default: the time of the write]."),
        Option("percentiles", SHARES, "0.5,0.95", "Percentiles, as numbers between 0 and 1."),
        Option("late", DURATION_KIND, "10m", "Watermark of a stream: how late a reading may be."),
    ),
    streams=True,
    example="rowcast pipeline run rollup --table Weather --every 1d --values temp,humid",
)
