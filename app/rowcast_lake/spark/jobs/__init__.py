"""Jobs: predefined computations on snapshots and the log; each is data and a function."""

from typing import Final

from rowcast_lake.spark.jobs import anomalies, current, gaps, quality, retention, rollup, sessions
from rowcast_lake.spark.jobs.job import Job

JOBS: Final[dict[str, Job]] = {
    job.name: job
    for job in (
        current.COMPACT,
        current.ASOF,
        current.HISTORY,
        rollup.JOB,
        gaps.JOB,
        sessions.SESSIONS,
        sessions.UPTIME,
        anomalies.JOB,
        quality.JOB,
        retention.JOB,
    )
}
"""All jobs by name, in the order of the listing."""
