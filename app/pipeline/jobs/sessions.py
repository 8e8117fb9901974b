"""Sessions and uptime: when each client was connected, from what ``$SYS/events`` tells.

A connection begins with ``connected`` and ends with the first of these: ``disconnected`` or
``taken_over`` from the same peer; the next ``connected`` of the same client id, for there is only
one; the end of the server. A server that was killed said nothing of its end, so its connections
end with the last thing that it told; whoever is connected at the cut is still.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from app.pipeline.jobs.columns import SEQ, identifier, instant, require
from app.pipeline.jobs.job import Given, Job, Option, Reads
from app.pipeline.jobs.kinds import DURATIONS

TABLE: Final = "mqtt_sys_events"
"""Where snapshots have what is told at ``$SYS/events/<client id>``."""
SERVER: Final = "$SYS/events/server/process"
PREFIX: Final = "$SYS/events/"
FACTS: Final = (
    "event string, client_id string, user string, peer string, door string, at timestamp, "
    "reason string"
)
ENDS: Final = ("disconnected", "taken_over")


def told(events: DataFrame) -> DataFrame:
    """Return what was told, in columns, with the number of the server's run that it was told in."""
    require(events, ("topic", "payload", SEQ))
    facts = F.from_json(F.col("payload").cast("string"), FACTS)
    rows = (
        events.select("topic", SEQ, facts.alias("facts"))
        .select("topic", SEQ, "facts.*")
        .where(F.col("at").isNotNull())
    )
    started = (F.col("topic") == SERVER) & (F.col("event") == "started")
    # Starts are few: as one sorted list, beside every row, they need no order over all rows.
    starts = rows.where(started).agg(F.sort_array(F.collect_list(SEQ)).alias("starts"))
    before = F.filter("starts", lambda start: start <= F.col(SEQ))
    return rows.crossJoin(F.broadcast(starts)).withColumn("run", F.size(before)).drop("starts")


def sessions(given: Given) -> DataFrame:
    """Return every connection, from when to when, and what ended it."""
    rows = told(given.events)
    runs = rows.groupBy("run").agg(
        F.max("at").alias("alive"),
        F.max(
            F.when((F.col("topic") == SERVER) & (F.col("event") == "stopped"), F.col("at"))
        ).alias("stopped"),
    )
    newest = runs.agg(F.max("run").alias("newest"))
    order = (F.col("at"), F.col(SEQ))
    peer = Window.partitionBy("topic", "run", "peer").orderBy(*order)
    client = Window.partitionBy("topic", "run").orderBy(*order)
    opened = (
        rows.where(F.col("event").isin("connected", *ENDS) & (F.col("topic") != SERVER))
        .withColumn("own_end", F.lead("at").over(peer))
        .withColumn("own_event", F.lead("event").over(peer))
        .withColumn("own_reason", F.lead("reason").over(peer))
        .where(F.col("event") == "connected")
        .withColumn("next", F.when(F.col("client_id").isNotNull(), F.lead("at").over(client)))
    )
    own = F.col("own_end").isNotNull() & (
        F.col("next").isNull() | (F.col("own_end") <= F.col("next"))
    )
    ended = F.when(F.col("run") < F.col("newest"), F.col("alive"))
    how = (
        F.when(own & F.col("own_event").isin(*ENDS), F.col("own_event"))
        .when(own | F.col("next").isNotNull(), "taken_over")
        .when(F.col("stopped").isNotNull(), "server_stopped")
        .when(F.col("run") < F.col("newest"), "server_killed")
        .otherwise("open")
    )
    end = F.coalesce(F.when(own, F.col("own_end")), "next", "stopped", ended)
    name = F.substring(F.col("topic"), len(PREFIX) + 1, 2**31 - 1)
    last = F.greatest(F.coalesce("disconnected", F.lit(given.until)), F.col("connected"))
    return (
        opened.join(F.broadcast(runs), "run")
        .crossJoin(F.broadcast(newest))
        .withColumns({"client": name, "connected": F.col("at"), "disconnected": end, "how": how})
        .withColumn("seconds", F.timestamp_diff("MILLISECOND", F.col("connected"), last) / 1000)
        .select(
            identifier(F.col("client"), F.col("connected"), F.col(SEQ)).alias("id"),
            *("client", "user", "door", "peer", "connected", "disconnected", "seconds", "how"),
            F.when(own, F.col("own_reason")).alias("reason"),
        )
    )


def uptime(given: Given) -> DataFrame:
    """Return for each client and stretch of time how long it was connected."""
    parts = given.options["every"]
    spans = _merged(sessions(given), given)
    first = F.broadcast(told(given.events).agg(F.min("at").alias("first")))
    frame = spans.crossJoin(first)
    result = _by_stretch(frame, given, *parts[0])
    for label, length in parts[1:]:
        result = result.unionByName(_by_stretch(frame, given, label, length))
    return result


def _merged(connections: DataFrame, given: Given) -> DataFrame:
    """Return stretches of each client without overlap: a user may have many streams at once."""
    order = Window.partitionBy("client").orderBy("connected", "until")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.coalesce(F.col("connected") > F.max("until").over(before), F.lit(True))
    return (
        connections.withColumn("until", F.coalesce("disconnected", F.lit(given.until)))
        .withColumn("island", F.when(begins, 1).otherwise(0))
        .withColumn("island", F.sum("island").over(order))
        .groupBy("client", "island")
        .agg(
            F.min("connected").alias("connected"),
            F.max("until").alias("until"),
            F.count("*").alias("sessions"),
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
    # What was before the first event or is after the cut is not known: it is in no share.
    known = F.timestamp_diff(
        "MILLISECOND", F.greatest("first", "start"), F.least(F.lit(given.until), "end")
    )
    begun = F.when(F.col("connected") >= F.col("start"), F.col("sessions")).otherwise(0)
    return (
        stretch.groupBy("client", "start", "end")
        .agg(
            (F.sum(inside) / 1000).alias("seconds"),
            F.first(known).alias("known"),
            F.sum(begun).alias("sessions"),
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
    summary="When each client was connected, and what ended it.",
    reads=(Reads.EVENTS,),
    writes="id, client, user, door, peer, connected, disconnected (null: still), seconds, how, …",
    compute=sessions,
    table=TABLE,
    example="rowcast pipeline run sessions",
)
UPTIME: Final = Job(
    name="uptime",
    summary="How long each client was connected, by stretches of time.",
    reads=(Reads.EVENTS,),
    writes="id, client, every, start, end, seconds, sessions (begun), share (of what is known)",
    compute=uptime,
    table=TABLE,
    options=(Option("every", DURATIONS, "1d", "Lengths of the stretches, aligned to UTC."),),
    example="rowcast pipeline run uptime --every 1h,1d",
)
