"""The peer of `scripts/snapshots`: Spark reads the same rows from PostgreSQL by JDBC.

It writes Parquet, as an export does. PostgreSQL has its defaults; Spark divides the rows by number
into one part for each core and fetches 10,000 rows at a time, as its documents advise.
"""

import os
import subprocess
import sys
from pathlib import Path

from postgres_server import PASSWORD, Postgres

FILL = """
CREATE TABLE reading (n bigint NOT NULL, id text PRIMARY KEY, station text, at timestamptz,
  temperature double precision, humidity double precision, count integer, total bigint, ok boolean);
INSERT INTO reading SELECT i, 'r' || lpad(i::text, 9, '0'), 'station-' || (i % 500),
  to_timestamp(1700000000 + i), (i % 4000) / 100.0, i % 100 + 0.5, i % 1000, i * 1000::bigint,
  i % 2 = 1 FROM generate_series(1, {rows}) AS i;
CREATE UNIQUE INDEX ON reading (n);
ANALYZE reading
"""
JOB = """
import sys, time
from pyspark.sql import SparkSession
url, jar, rows, cores, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
spark = (SparkSession.builder.master(f"local[{cores}]").config("spark.jars", jar)
         .config("spark.ui.enabled", "false").config("spark.driver.memory", "4g").getOrCreate())
began = time.perf_counter()
read = (spark.read.format("jdbc").option("url", url).option("dbtable", "reading")
        .option("user", "owner").option("password", sys.argv[6])
        .option("driver", "org.postgresql.Driver").option("fetchsize", 10000)
        .option("partitionColumn", "n").option("lowerBound", 1).option("upperBound", rows + 1)
        .option("numPartitions", cores).load())
read.write.mode("overwrite").parquet(out)
took = time.perf_counter() - began
assert spark.read.parquet(out).count() == rows
print("took", took)
"""


def fill(database: Postgres, rows: int) -> None:
    """Make as many rows as our table has."""
    for statement in FILL.format(rows=rows).split(";"):
        database.ask(statement)


def export(database: Postgres, jar: Path, rows: int, out: Path) -> float:
    """Return how many seconds Spark took, its start not among them."""
    host = database.url.rpartition("@")[2]
    arguments = [f"jdbc:postgresql://{host}", jar, rows, os.cpu_count(), out, PASSWORD]
    ended = subprocess.run(
        [sys.executable, "-c", JOB, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    return float(ended.stdout.split("took ")[1])
