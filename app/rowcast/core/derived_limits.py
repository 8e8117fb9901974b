"""Limits of derived tables and their jobs: each with its unit and its reason."""

from typing import Final

DERIVED_EVERY_SECONDS_MIN: Final = 1.0
"""Shortest period: the snapshot and the start of a process take about as long."""
DERIVED_EVERY_SECONDS_MAX: Final = 31 * 86_400.0
"""Longest period, a month: a result that is older is a report, which is run by hand."""
DERIVED_SOURCES_MAX: Final = 16
"""Tables that one job reads: each is copied for each run."""
DERIVED_JOB_CHARS_MAX: Final = 90
"""Name of a job's file: it is a part of the name of the writer of each of its rows."""
DERIVED_LATE_PERIODS: Final = 2.0
"""A result that is older than so many periods is late: one for the time until the next run, one for
the run itself."""
DERIVED_LOOK_SECONDS_MAX: Final = 5.0
"""Longest time between two looks at the clock, in seconds: it may be set."""
JOB_TIMEOUT_SECONDS: Final = 600
"""Time of one run, in seconds, by default: a result of some minutes of work."""
JOB_END_SECONDS: Final = 5.0
"""Time between SIGTERM and SIGKILL, in seconds."""
JOB_LINE_BYTES_MAX: Final = 64 * 1024
"""Longest line that a job tells its progress in; longer ones are passed over."""
JOB_OUTPUT_BYTES_MAX: Final = 8 * 1024
"""The end of what a job prints that is kept, for administrators."""
JOB_COMMIT_TRIES: Final = 60
"""How often a result is committed again while the server is too busy, each second, or after the ten
seconds that the refusal tells while another large result is committed, which takes ten minutes."""
JOB_RETRY_SECONDS: Final = 1.0
"""Time until a result is committed again, and a refused mark of staleness is, in seconds."""
JOBS_AT_ONCE_MAX: Final = 16
"""Most runs at the same time: each is a process with a copy of its tables."""
