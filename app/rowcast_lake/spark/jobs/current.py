"""Current state: the last event of each topic, as a table.

A snapshot at cut N and the changes after it are folded by position: the greatest ``_seq`` of a
topic wins, messages change no record, and a deletion leaves nothing, or a tombstone for as long as
copies of the deleted record may exist elsewhere. The same fold up to a position is the table as of
then; a topic's successive events delimit intervals of validity.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from rowcast.core.events import DELETE, PUT, RETAINED
from rowcast_lake.spark.jobs.columns import OP, SEQ, TOLD, TOPIC, TS, require
from rowcast_lake.spark.jobs.job import Given, Job, Option, Reads
from rowcast_lake.spark.jobs.kinds import DURATION_KIND, MOMENT
from rowcast_lake.spark.unions import union

FROM: Final = "_valid_from"
TO: Final = "_valid_to"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def written(state: DataFrame, changes: DataFrame | None) -> DataFrame:
    """Return all writes of records: those of the state, and those after it."""
    require(state, (TOPIC, SEQ, TS))
    first = state.withColumn(OP, F.lit(PUT))
    if changes is None:
        return first
    later = changes.where(F.col(OP).isin(*sorted(RETAINED)))
    return union(first, later)


def folded(writes: DataFrame) -> DataFrame:
    """Return the last write of each topic."""
    whole = F.struct(*(F.col(f"`{name}`") for name in writes.columns))
    last = writes.groupBy(TOPIC).agg(F.max_by(whole, F.col(SEQ)).alias("last"))
    return last.select("last.*")


def compact(given: Given) -> DataFrame:
    """Return the records after the changes; with ``--tombstones`` also recent deletions."""
    last = folded(written(given.state, given.changes))
    seconds = given.options["tombstones"]
    if not seconds:
        return last.where(F.col(OP) != DELETE).drop(*TOLD)
    since = F.lit(given.until) - F.make_dt_interval(secs=F.lit(seconds))
    kept = (F.col(OP) != DELETE) | (F.col(TS) >= since)
    return last.where(kept).drop(*TOLD[1:])


def asof(given: Given) -> DataFrame:
    """Return the records as of ``--at``; exact, because the fold ends at a position."""
    writes = written(given.state, given.changes)
    at = given.options["at"]
    if isinstance(at, datetime):
        # As on the server, a time includes its millisecond, and ends before the first later event.
        later = writes.where(F.col(TS) >= F.lit(_next_millisecond(at)))
        first = later.agg(F.min(SEQ).alias("_first"))
        until = F.col("_first").isNull() | (F.col(SEQ) < F.col("_first"))
        writes = writes.crossJoin(F.broadcast(first)).where(until).drop("_first")
    elif at is not None:
        writes = writes.where(F.col(SEQ) <= at)
    return folded(writes).where(F.col(OP) != DELETE).drop(*TOLD)


def _next_millisecond(at: datetime) -> datetime:
    milliseconds = round(at.timestamp() * 1_000) + 1
    return _EPOCH + timedelta(milliseconds=milliseconds)


def history(given: Given) -> DataFrame:
    """Return every value of each record, with its interval of validity."""
    events = given.events.where(F.col(OP).isin(*sorted(RETAINED)))
    order = Window.partitionBy(TOPIC).orderBy(SEQ)
    ends = events.withColumn(TO, F.lead(TS).over(order)).withColumn(
        "_to_seq", F.lead(SEQ).over(order)
    )
    return ends.where(F.col(OP) != DELETE).withColumnRenamed(TS, FROM)


COMPACT: Final = Job(
    name="compact",
    summary="The current records, from a snapshot and the changes after it.",
    reads=(Reads.STATE, Reads.CHANGES),
    writes="the columns of the snapshot; with --tombstones also _op",
    compute=compact,
    options=(
        Option("tombstones", DURATION_KIND, "0", "How long deleted records are kept, such as 7d."),
    ),
    example="rowcast pipeline run compact --table Weather --out data/results",
)
ASOF: Final = Job(
    name="asof",
    summary="The records as of a time or position.",
    reads=(Reads.STATE, Reads.CHANGES),
    writes="the columns of the snapshot",
    compute=asof,
    options=(Option("at", MOMENT, "", "A time, a position or a cursor [default: the end]."),),
    example="rowcast pipeline run asof --table Weather --at 2026-01-31T12:00:00Z",
)
HISTORY: Final = Job(
    name="history",
    summary="Every value of a record, with its interval.",
    reads=(Reads.EVENTS,),
    writes="the columns of the changes, with _valid_from and _valid_to (null: still) for _ts",
    compute=history,
    example="rowcast pipeline run history --table Weather --out data/results",
)
