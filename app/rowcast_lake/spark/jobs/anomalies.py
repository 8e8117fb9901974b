"""Anomalies: readings far from the usual value of their series in that season.

The usual value is the median of the readings of the same series, measure, season (hour of the day,
or of the week) and span of days; the distance is measured in median absolute deviations (a robust
z-score after Iglewicz and Hoaglin, 1993), which single outliers do not distort. Where more than
half of the readings are equal that median is 0, and the mean distance replaces it.

On a stream the baseline is computed from the data present at its start, and each reading is checked
on arrival, by itself: no reading waits or is late. Readings of one time differ by the position of
their write, which is in the id.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rowcast_lake.spark.jobs.columns import (
    SEQ,
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
from rowcast_lake.spark.jobs.kinds import DURATION_KIND, NAMES, NUMBER, TEXT, WHOLE, one_of

OF_MEDIAN: Final = 0.6745
"""The median distance of a normal distribution from its median, in standard deviations."""
OF_MEAN: Final = 0.7979
"""The mean distance."""
SEASONS: Final[dict[str, Callable[[Column], Column]]] = {
    "none": lambda _: F.lit(0),
    "day": F.hour,
    "week": lambda time: F.weekday(time) * 24 + F.hour(time),
}
TAKEN: Final = (
    "id", "measure", "at", "value", "expected", "score", "season", "span", "pair", "scale", "seq",
)  # fmt: skip


def compute(given: Given) -> DataFrame:
    """Return the unusual readings, each with the expected value."""
    live = given.events
    time = time_column(given, live)
    named = measures(given, live, without=keys(given, live))
    live, by = series(given, live, TAKEN)
    if given.known is None:
        long = _long(live, given, time, by, named)
        return _judged(long, _baseline(long, by, given), by, given)
    known, _ = series(given, given.known, TAKEN)
    known = _long(known, given, time, by, named).withColumn("span", F.lit(0))
    judged = _long(live, given, time, by, named).withColumn("span", F.lit(0))
    return _judged(judged, _baseline(known, by, given), by, given)


def _long(frame: DataFrame, given: Given, time: str, by: list[str], named: list[str]) -> DataFrame:
    """Return one row for each number, with the group of readings that it belongs to."""
    span = given.options["span"]
    at = column(time)
    pairs = F.array(
        *(F.struct(F.lit(name).alias("measure"), number(name).alias("value")) for name in named)
    )
    return (
        readings(frame, time)
        .select(
            *map(column, by),
            at.alias("at"),
            (F.col(SEQ) if SEQ in frame.columns else F.lit(0)).alias("seq"),
            SEASONS[given.options["season"]](at).alias("season"),
            (F.floor(F.unix_seconds(at) / span) if span else F.lit(0)).alias("span"),
            F.explode(pairs).alias("pair"),
        )
        .select("*", "pair.measure", "pair.value")
        .drop("pair")
        .where(F.col("value").isNotNull())
    )


def _group(by: list[str]) -> list[str]:
    return [*by, "measure", "season", "span"]


def _same(left: DataFrame, right: DataFrame, by: list[str]) -> Column:
    """Return the condition that rows belong to one group; null series are equal to each other."""
    return reduce(
        Column.__and__,
        (left[f"`{name}`"].eqNullSafe(right[f"`{name}`"]) for name in _group(by)),
    )


def _baseline(long: DataFrame, by: list[str], given: Given) -> DataFrame:
    """Return for each group the usual value and the usual distance from it."""
    group = [column(name) for name in _group(by)]
    middle = long.groupBy(*group).agg(
        F.median("value").alias("expected"), F.count("value").alias("count")
    )
    middle = middle.where(F.col("count") >= given.options["least"]).alias("middle")
    long = long.alias("long")
    distances = long.join(middle, _same(long, middle, by)).select(
        "middle.*", F.abs(F.col("value") - F.col("expected")).alias("distance")
    )
    spread = distances.groupBy(*group, "expected").agg(
        F.median("distance").alias("_median"), steady(F.avg("distance")).alias("_mean")
    )
    scale = F.when(F.col("_median") > 0, F.col("_median") / OF_MEDIAN).when(
        F.col("_mean") > 0, F.col("_mean") / OF_MEAN
    )
    return spread.withColumn("scale", scale).drop("_median", "_mean")


def _judged(long: DataFrame, baseline: DataFrame, by: list[str], given: Given) -> DataFrame:
    long, baseline = long.alias("long"), F.broadcast(baseline).alias("baseline")
    score = (F.col("value") - F.col("expected")) / F.col("scale")
    parts = (F.col("measure"), instant(F.col("at")), F.col("seq"))
    return (
        long.join(baseline, _same(long, baseline, by))
        .select("long.*", "expected", steady(score).alias("score"))
        .where(F.abs("score") >= given.options["score"])
        .select(
            identifier(*map(column, by), *parts).alias("id"),
            *map(column, by),
            *("measure", "at", "value", "expected", "score"),
        )
    )


JOB: Final = Job(
    name="anomalies",
    summary="Readings far from the median of their series at that time of day.",
    reads=(Reads.EVENTS,),
    writes="id, the columns of --by, measure, at, value, expected, score",
    compute=compute,
    options=(
        Option("score", NUMBER, "6", "Least distance, in robust standard deviations."),
        Option("season", one_of(*SEASONS), "day", "Season of the comparison: none, day or week."),
        Option("span", DURATION_KIND, "30d", "Length of time whose readings are compared; 0: all."),
        Option("least", WHOLE, "10", "Least number of readings in a group."),
        Option("by", NAMES, "", "Columns that identify a series [default: the table's key]."),
        Option("values", NAMES, "", "Columns of numbers [default: all]."),
        Option("time", TEXT, "", "Column of the time [default: the time of the write]."),
    ),
    streams=True,
    example="rowcast pipeline run anomalies --table Weather --time time_hour --values temp",
)
