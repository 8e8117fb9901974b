"""Sessions and uptime: when each client was connected, from the messages of ``$SYS/events``.

A connection begins with ``connected`` and ends with ``disconnected`` or ``taken_over``, with the
next ``connected`` of the same client id (a client id has one connection at a time), or with the
server. A killed server publishes no end, so its connections end with its last message; a connection
that is open at the cut has no end.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from rowcast_lake.spark.jobs.columns import SEQ, identifier, instant, require
from rowcast_lake.spark.jobs.job import Given, Job, Option, Reads
from rowcast_lake.spark.jobs.kinds import DURATIONS

TABLE: Final = "mqtt_sys_events"
"""The table of snapshots with the messages of ``$SYS/events/<client id>``."""
SERVER: Final = "$SYS/events/server/process"
PREFIX: Final = "$SYS/events/"
FACTS: Final = (
    "event string, client_id string, user string, peer string, door string, at timestamp, "
    "reason string, code int"
)
BEGIN: Final = "connected"
ENDS: Final = ("disconnected", "taken_over")
TAKEN_OVER: Final = 142
"""MQTT's reason code "Session taken over" (MQTT 5, 3.14.2.1)."""
NAME_CHARS_MAX: Final = 2**31 - 1
"""A length that means "to the end" for Spark's ``substring``."""


def client_events(events: DataFrame) -> DataFrame:
    """Return the client events as columns, each with the number of the server's run."""
    require(events, ("topic", "payload", SEQ))
    facts = F.from_json(F.col("payload").cast("string"), FACTS)
    rows = (
        events.select("topic", SEQ, facts.alias("facts"))
        .select("topic", SEQ, "facts.*")
        .where(F.col("at").isNotNull())
    )
    started = (F.col("topic") == SERVER) & (F.col("event") == "started")
    # Starts are few: one sorted list joined to every row avoids sorting all rows.
    starts = rows.where(started).agg(F.sort_array(F.collect_list(SEQ)).alias("starts"))
    before = F.filter("starts", lambda start: start <= F.col(SEQ))
    return rows.crossJoin(F.broadcast(starts)).withColumn("run", F.size(before)).drop("starts")


def sessions(given: Given) -> DataFrame:
    """Return every connection with start, end and the cause of its end."""
    rows = client_events(given.events)
    stopped = F.when((F.col("topic") == SERVER) & (F.col("event") == "stopped"), F.col("at"))
    runs = rows.groupBy("run").agg(F.max("at").alias("alive"), F.max(stopped).alias("stopped"))
    newest = runs.agg(F.max("run").alias("newest"))
    # A takeover publishes ``taken_over`` first; the following ``disconnected`` is ignored.
    twice = (F.col("event") == "disconnected") & F.col("code").eqNullSafe(F.lit(TAKEN_OVER))
    marks = rows.where((F.col("topic") != SERVER) & F.col("event").isin(BEGIN, *ENDS) & ~twice)
    named = F.col("client_id").isNotNull()
    opened = _single(marks.where(named)).unionByName(_many(marks.where(~named)))
    killed = F.col("run") < F.col("newest")
    how = (
        F.when(F.col("next_event") == BEGIN, "taken_over")
        .when(F.col("next_event").isNotNull(), F.col("next_event"))
        .when(F.col("stopped").isNotNull(), "server_stopped")
        .when(killed, "server_killed")
        .otherwise("open")
    )
    end = F.coalesce("next_at", "stopped", F.when(killed, F.col("alive")))
    # A clock that went back lets none end before it began.
    end = F.when(end.isNotNull(), F.greatest(end, F.col("connected")))
    last = F.greatest(F.coalesce("disconnected", F.lit(given.until)), F.col("connected"))
    return (
        opened.join(F.broadcast(runs), "run")
        .crossJoin(F.broadcast(newest))
        .withColumn("client", F.substring(F.col("topic"), len(PREFIX) + 1, NAME_CHARS_MAX))
        .withColumn("connected", F.col("at"))
        .withColumns({"disconnected": end, "how": how})
        .withColumn("seconds", F.timestamp_diff("MILLISECOND", F.col("connected"), last) / 1000)
        .select(
            identifier(F.col("client"), instant(F.col("connected")), F.col(SEQ)).alias("id"),
            *("client", "user", "door", "peer", "connected", "disconnected", "seconds", "how"),
            F.when(F.col("next_event").isin(*ENDS), F.col("next_reason")).alias("reason"),
        )
    )


def _single(marks: DataFrame) -> DataFrame:
    """Return connections of client ids: one at a time, so the next event closes it."""
    order = Window.partitionBy("topic", "run").orderBy("at", SEQ)
    following = {f"next_{name}": F.lead(name).over(order) for name in ("at", "event", "reason")}
    return marks.withColumns(following).where(F.col("event") == BEGIN)


def _many(marks: DataFrame) -> DataFrame:
    """Return connections of a user's streams, several of which may be open at once.

    An end does not name its stream: ends are matched to starts first in, first out, so the number
    of open streams is right at each moment. An end while none is open is that of a stream whose
    start is not known, and ends nothing.
    """
    begun = F.col("event") == BEGIN
    order = Window.partitionBy("topic", "run").orderBy("at", SEQ)
    known = F.sum(F.when(begun, 1).otherwise(-1)).over(order)
    ended = F.count_if(~begun).over(order)
    # How many ends until here had no start: the least balance says it.
    marks = marks.withColumns({"known": known, "ended": ended})
    marks = marks.withColumn("low", F.least(F.lit(0), F.min("known").over(order)))
    marks = marks.withColumn("strange", F.col("low") < F.lag("low", 1, 0).over(order))
    starts = F.count_if(begun).over(order)
    number = F.when(begun, starts).otherwise(F.col("ended") + F.col("low"))
    numbered = marks.withColumn("number", number).drop("known", "ended", "low")
    ends = numbered.where(~begun & ~F.col("strange")).select(
        *("topic", "run", "number"),
        *(F.col(name).alias(f"next_{name}") for name in ("at", "event", "reason")),
    )
    numbered = numbered.where(begun).drop("strange")
    return numbered.join(ends, ["topic", "run", "number"], "left").drop("number")


def uptime(given: Given) -> DataFrame:
    """Return the connected time per client and time window."""
    parts = given.options["every"]
    spans = _merged(sessions(given), given)
    first = F.broadcast(client_events(given.events).agg(F.min("at").alias("first")))
    frame = spans.crossJoin(first)
    result = _by_stretch(frame, given, *parts[0])
    for label, length in parts[1:]:
        result = result.unionByName(_by_stretch(frame, given, label, length))
    return result


def _merged(connections: DataFrame, given: Given) -> DataFrame:
    """Merge each client's overlapping intervals: a user may have several streams at once."""
    order = Window.partitionBy("client").orderBy("connected", "until")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.coalesce(F.col("connected") > F.max("until").over(before), F.lit(True))
    return (
        connections.withColumn("until", F.coalesce("disconnected", F.lit(given.until)))
        .withColumn("until", F.greatest("until", "connected"))
        .withColumn("island", F.when(begins, 1).otherwise(0))
        .withColumn("island", F.sum("island").over(order))
        .groupBy("client", "island")
        .agg(
            F.min("connected").alias("connected"),
            F.max("until").alias("until"),
            F.collect_list("connected").alias("begun"),
        )
    )


def _by_stretch(frame: DataFrame, given: Given, label: str, length: int) -> DataFrame:
    number = F.explode(
        F.sequence(
            F.floor(F.unix_seconds("connected") / length), F.floor(F.unix_seconds("until") / length)
        )
    )
    start = F.timestamp_seconds(F.col("number") * length)
    stretch = frame.withColumn("number", number).withColumns(
        {"start": start, "end": F.timestamp_seconds((F.col("number") + 1) * length)}
    )
    inside = F.timestamp_diff(
        "MILLISECOND", F.greatest("connected", "start"), F.least("until", "end")
    )
    # The time before the first event and after the cut is unknown: no share counts it.
    known = F.timestamp_diff(
        "MILLISECOND", F.greatest("first", "start"), F.least(F.lit(given.until), "end")
    )
    begun = F.filter("begun", lambda at: (at >= F.col("start")) & (at < F.col("end")))
    return (
        stretch.groupBy("client", "start", "end")
        .agg(
            (F.sum(inside) / 1000).alias("seconds"),
            F.first(known).alias("known"),
            F.sum(F.size(begun)).alias("sessions"),
        )
        .select(
            identifier(F.col("client"), F.lit(label), instant(F.col("start"))).alias("id"),
            "client",
            F.lit(label).alias("every"),
            *("start", "end", "seconds", "sessions"),
            F.least(F.lit(1.0), F.try_divide("seconds", F.col("known") / 1000)).alias("share"),
        )
    )


SESSIONS: Final = Job(
    name="sessions",
    summary="When each client was connected, and why its connection ended.",
    reads=(Reads.EVENTS,),
    writes="id, client, user, door, peer, connected, disconnected (null: still), seconds, how, …",
    compute=sessions,
    table=TABLE,
    example="rowcast pipeline run sessions",
)
UPTIME: Final = Job(
    name="uptime",
    summary="How long each client was connected, by intervals.",
    reads=(Reads.EVENTS,),
    writes="id, client, every, start, end, seconds, sessions (begun), share (of what is known)",
    compute=uptime,
    table=TABLE,
    options=(Option("every", DURATIONS, "1d", "Lengths of the intervals, aligned to UTC."),),
    example="rowcast pipeline run uptime --every 1h,1d",
)
