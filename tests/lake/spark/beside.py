"""Jobs beside DuckDB: run one, ask the other engine, compare."""

import math
from datetime import UTC, datetime

import duckdb

from rowcast_lake.spark.jobs import JOBS
from rowcast_lake.spark.jobs.job import Given, Reads


def compute(source, name, table=None, **options):
    """Run a job on what a source has; return its rows."""
    job = JOBS[name]
    read = job.read_options(options)
    at = read.get("at") if Reads.CHANGES in job.reads else None
    frames = {what: source.frame(what, at) for what in job.reads}
    return job.compute(Given(frames, read, source.until, table))


def rows(frame, *columns):
    """The rows of a frame, sorted, times in UTC."""
    found = (frame.select(*columns) if columns else frame).collect()
    return sorted((tuple(map(plain, row)) for row in found), key=repr)


def plain(value):
    """Spark gives times of this machine's zone."""
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


def query(sql):
    """The rows that DuckDB finds, sorted; it hands out times without a zone, which are UTC here."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"create view asked as {sql}")
        told = "select column_name, column_type from (describe asked)"
        names = [
            ('"' + name.replace('"', '""') + '"', kind)
            for name, kind in connection.execute(told).fetchall()
        ]
        chosen = [
            f"timezone('UTC', {name})" if kind.endswith("TIME ZONE") else name
            for name, kind in names
        ]
        found = connection.execute(f"select {', '.join(chosen)} from asked").fetchall()
    return sorted(found, key=repr)


def same(found, wanted):
    """Both engines say the same, but for the order in which they add numbers up."""
    assert len(found) == len(wanted)
    pairs = zip(found, wanted, strict=True)
    different = [(left, right) for left, right in pairs if not all(map(close, left, right))]
    assert not different, different[:5]


def close(found, wanted):
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted
