"""Gaps: when a series was silent for longer than it may be.

A gap is between two readings that are further apart than ``--longer``, or after the last reading of
a series while others have later ones: that gap is open.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from rowcast_lake.spark.jobs.columns import (
    column,
    identifier,
    instant,
    readings,
    series,
    time_column,
)
from rowcast_lake.spark.jobs.job import Given, Job, Option, Reads
from rowcast_lake.spark.jobs.kinds import DURATION_KIND, NAMES, TEXT

TAKEN: Final = ("id", "from", "to", "seconds", "open")


def compute(given: Given) -> DataFrame:
    """Return the gaps."""
    time = time_column(given, given.events)
    frame, by = series(given, given.events, TAKEN)
    one = Window.partitionBy(*map(column, by))
    moments = readings(frame, time).select(*map(column, by), column(time).alias("from"))
    # The newest time in the data, not the clock's: old recordings end in the past.
    newest = F.broadcast(moments.agg(F.max("from").alias("_newest")))
    ends = (
        moments.withColumn("_next", F.lead("from").over(one.orderBy("from")))
        .crossJoin(newest)
        .withColumn("open", F.col("_next").isNull())
        .withColumn("to", F.coalesce("_next", "_newest"))
    )
    seconds = F.timestamp_diff("SECOND", F.col("from"), F.col("to"))
    return (
        ends.withColumn("seconds", seconds)
        .where(F.col("seconds") > given.options["longer"])
        .select(
            identifier(*map(column, by), instant(F.col("from"))).alias("id"),
            *map(column, by),
            "from",
            "to",
            "seconds",
            "open",
        )
    )


JOB: Final = Job(
    name="gaps",
    summary="Intervals in which a series had no readings.",
    reads=(Reads.EVENTS,),
    writes="id, the columns of --by, from, to, seconds, open",
    compute=compute,
    options=(
        Option("longer", DURATION_KIND, "1h", "Least length of a gap."),
        Option("by", NAMES, "", "Columns that identify a series [default: the table's key]."),
        Option("time", TEXT, "", "Column of the time [default: the time of the write]."),
    ),
    example="rowcast pipeline run gaps --table Weather --time time_hour --longer 2h",
)
