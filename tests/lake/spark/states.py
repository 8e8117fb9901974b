"""States of tables at many moments, computed by Spark from files alone, all in one job.

A moment is a number, the microsecond before which its events are, and the position up to which.
"""

import json
from functools import reduce

from pyspark.sql import functions as F  # noqa: N812

from rowcast_lake.spark.unions import union

SINCE_EVER = -(2**53)
RETAINED = "_retained"
"""The table of records at undeclared topics."""


def micros(name):
    return F.unix_micros(F.col(name))


def of_table(frame, table):
    """Return what states are made of: topic, position, time and kind."""
    topic = F.col("topic" if table == RETAINED else "_topic")
    op = F.col("_op") if "_op" in frame.columns else F.lit("put")
    columns = topic.alias("topic"), "_seq", micros("_ts").alias("at"), op.alias("op")
    return frame.select(F.lit(table).alias("table"), *columns)


class Files:
    """The snapshots and pages of the log in a directory."""

    def __init__(self, spark, directory, tables):
        self.spark, self.tables = spark, (*tables, RETAINED)
        self.snapshots = sorted(path for path in directory.iterdir() if path.name.isdigit())
        self.pages = sorted((directory / "changes").iterdir())
        self._changes = {it: self._read_changes(it) for it in self.tables}

    def _of(self, places, table):
        """Return the frames of a table in some places, each with its place."""
        for place in places:
            known = json.loads((place / "manifest.json").read_text())["tables"].get(table)
            if known and known["rows"]:
                yield place, self.spark.read.parquet(str(place / table))

    def _read_changes(self, table):
        return reduce(union, (frame for _, frame in self._of(self.pages, table)))

    def values(self, table):
        """Return the rows of all that was written, by position, with the microsecond of each."""
        rows = self._changes[table].where(F.col("_op").isin("put", "patch"))
        rows = rows.withColumn("at", micros("_ts")).collect()
        return {row["_seq"]: row.asDict(recursive=True) for row in rows}

    def moments(self, limits):
        rows = [(number, *limit) for number, limit in enumerate(limits)]
        return F.broadcast(self.spark.createDataFrame(rows, "n int, before long, upto long"))

    def states(self, limits):
        """Return the state at each moment: the newest snapshot before it, and the log since.

        It is of all tables: by the number of the moment, the position of each topic's record.
        """
        events = reduce(union, (of_table(self._changes[it], it) for it in self.tables))
        events = events.localCheckpoint()  # it is used three times, and each plan has 25 scans
        records = reduce(
            union,
            (
                of_table(frame, table).withColumn("cut", F.lit(int(place.name)))
                for table in self.tables
                for place, frame in self._of(self.snapshots, table)
            ),
        )
        cuts = self.spark.createDataFrame([(int(it.name),) for it in self.snapshots], "cut long")
        upto = events.join(cuts, events["_seq"] <= cuts["cut"], "right").groupBy("cut")
        ends = upto.agg(F.coalesce(F.max("at"), F.lit(SINCE_EVER)).alias("end"))
        moments = self._places(limits, events)
        usable = (F.col("end") < F.col("before")) & (F.col("cut") <= F.col("upto"))
        begin = moments.join(ends, usable).groupBy("n", "table", "place")
        begin = begin.agg(F.max("cut").alias("cut")).localCheckpoint()
        later = (F.col("_seq") > F.col("cut")) & (F.col("_seq") <= F.col("place"))
        inside = [begin["table"] == events["table"], later & (F.col("op") != "message")]
        columns = "n", "table", "topic", "_seq", "op"
        first = begin.join(records, ["cut", "table"]).select(*columns)
        written = first.union(begin.join(events, inside).drop(begin["table"]).select(*columns))
        last = written.groupBy("n", "table", "topic").agg(
            F.max("_seq").alias("_seq"), F.max_by("op", "_seq").alias("op")
        )
        return self._told(last.where(F.col("op") != "delete"), len(limits))

    def _places(self, limits, events):
        """Return each moment in each table: it ends before the table's first event that is later.

        Earlier events may follow that one: their writer's clock had been wrong until then.
        """
        tables = self.spark.createDataFrame([(it,) for it in self.tables], "table string")
        moments = self.moments(limits).crossJoin(tables)
        after = events.select(F.col("table").alias("of"), "_seq", "at")
        follows = (F.col("table") == F.col("of")) & (F.col("at") >= F.col("before"))
        first = moments.join(after, follows, "left").groupBy("n", "before", "upto", "table")
        place = F.least("upto", F.coalesce(F.min("_seq") - 1, F.first("upto")))
        return first.agg(place.alias("place"))

    def intervals(self, limits):
        """Return the same of declared tables, by the intervals of the newest snapshot's history."""
        newest = self.snapshots[-1:]
        rows = reduce(
            union,
            (
                frame.select(
                    F.lit(table).alias("table"),
                    F.col("_topic").alias("topic"),
                    "_seq",
                    micros("valid_from").alias("since"),
                    micros("valid_to").alias("until"),
                )
                for table in self.tables
                for _, frame in self._of(newest, f"{table}_history")
            ),
        )
        valid = (F.col("since") < F.col("before")) & (
            F.col("until").isNull() | (F.col("until") >= F.col("before"))
        )
        return self._told(self.moments(limits).join(rows, valid), len(limits))

    @staticmethod
    def _told(rows, count):
        found = [{} for _ in range(count)]
        grouped = rows.groupBy("n").agg(
            F.map_from_entries(F.collect_list(F.struct("topic", "_seq"))).alias("state")
        )
        for row in grouped.collect():
            found[row["n"]] = row["state"]
        return found
