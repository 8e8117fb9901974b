"""Retention: limits events or a result by age and by number.

The rest disappears when the new result atomically replaces the previous one.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from rowcast.core.errors import Code, Error
from rowcast_lake.spark.jobs.columns import SEQ, column, keys, time_column
from rowcast_lake.spark.jobs.job import Given, Job, Option, Reads
from rowcast_lake.spark.jobs.kinds import DURATION_KIND, MOMENT, NAMES, TEXT, WHOLE


def compute(given: Given) -> DataFrame:
    """Return the rows that are recent enough, and only the last ones of each series."""
    keep, last, at = (given.options[name] for name in ("keep", "last", "at"))
    if not (keep or last):
        raise Error(Code.UNPROCESSABLE, "say what to keep: --keep 30d, or --last 100")
    if isinstance(at, int):
        raise Error(Code.UNPROCESSABLE, f"--at {at}: age is counted from a time, not a position")
    frame = given.events
    time = time_column(given, frame)
    if keep:
        end = at if isinstance(at, datetime) else given.until
        since = F.lit(end) - F.make_dt_interval(secs=F.lit(keep))
        frame = frame.where(column(time) >= since)
    if not last:
        return frame
    # Of readings with the same time the one written last is the newer one.
    order = [column(time).desc_nulls_last()]
    order += [F.col(SEQ).desc()] if SEQ in frame.columns else []
    series = Window.partitionBy(*map(column, keys(given, frame))).orderBy(*order)
    return (
        frame.withColumn("_number", F.row_number().over(series))
        .where(F.col("_number") <= last)
        .drop("_number")
    )


JOB: Final = Job(
    name="retention",
    summary="Rows within an age limit, and the last rows of each series.",
    reads=(Reads.EVENTS,),
    writes="the columns that it read",
    compute=compute,
    options=(
        Option("keep", DURATION_KIND, "0", "Age limit, such as 30d; 0 means no limit."),
        Option("last", WHOLE, "0", "Keep the last N rows of each series; 0: all."),
        Option("at", MOMENT, "", "Time from which age is counted [default: the cut]."),
        Option("by", NAMES, "", "Columns that identify a series [default: the table's key]."),
        Option("time", TEXT, "", "Column of the time [default: the time of the write]."),
    ),
    example="rowcast pipeline run retention --table Weather --keep 30d --out data/kept",
)
