"""Limits of Spark's reads and writes; see ``limits``."""

from typing import Final

JAVA_ANSWER_SECONDS: Final = 20
"""Time for a Java to print its version: a second, or more on a busy machine."""
JAVA_END_SECONDS: Final = 5
"""Time for a Java that was asked to end; then it is killed. It takes a tenth of a second."""
JAVA_VERSION_MIN: Final = 17
"""The oldest Java that Spark 4 starts with."""
RESULTS_KEPT: Final = 3
"""Results of a job that stay on disk, including the newest: readers of an older one can finish."""
RESULT_SECONDS_MAX: Final = 24 * 3_600
"""Age after which a result without manifest in an object store is removed: its job was killed."""
ROWS_SHOWN_MAX: Final = 1_000
"""Rows of a result that are printed; all are in memory."""
STREAM_PAUSE_SECONDS: Final = 5
"""Interval between a stream's micro-batches: a commit costs about half a second."""

REMOTE_ANSWER_SECONDS: Final = 60
"""Silence of a server after which a request is retried: the commit of a large result waits for
writes before it."""
REMOTE_PATIENCE_SECONDS: Final = 8
"""Time for which a job repeats a request, so that a restart of the server fails none."""
REMOTE_COMMIT_SECONDS: Final = 7_200
"""How long a job waits for the commit of its result while the server says that it is busy:
5,000,000 rows take half an hour on a machine with other work, and may wait for another result."""
RESULT_PATIENCE_SECONDS: Final = 600
"""The same for each part of a result, and for its commit, once the server was there: as long as
that keeps what it has been brought, also over a restart."""
STREAM_PATIENCE_SECONDS: Final = 900
"""The same for a stream, which nobody watches: longer than an update of the server's machine."""
REMOTE_PAUSE_SECONDS: Final = 0.5
"""Delay before the second attempt; doubles for each further one."""
REMOTE_PAUSE_SECONDS_MAX: Final = 30
"""The longest such delay: a server that is back is not left alone for longer."""
STREAM_RESTARTS: Final = 3
"""Times that a stream starts again from its checkpoint without a finished batch in between: what a
restart of the server took from a batch is there the next time, a mistake is not."""
STREAM_LAG_SECONDS: Final = 30
"""Interval between two words about how far a stream is behind."""
REMOTE_SERVERS_MAX: Final = 8
"""Servers that one process keeps a connection to."""
LISTED_ROWS: Final = 1_000
"""Snapshots and increments in one response: as many as a server returns."""
LISTED_ATTEMPTS: Final = 5
"""Times that a list is begun anew because something was removed from it meanwhile."""
REMOTE_BLOCK_BYTES: Final = 1024 * 1024
"""Smallest range of a file per request: Parquet's reader requests many small ones."""
EXPORT_SECONDS_MAX: Final = 3_600
"""Timeout of an export that a reader requested."""
EXPORT_POLL_SECONDS: Final = 0.5
"""Interval between checks whether it is done."""

PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a snapshot's files that one Spark task reads: some million rows, seconds of work."""
FILE_BYTES: Final = 256 * 1024
"""What it costs to open a file, in bytes that could be read in the same time (3 ms)."""
PARTITION_EVENTS: Final = 100_000
"""Positions of the log that one Spark task reads: seconds of work."""
BATCH_EVENTS: Final = 1_000_000
"""Positions of the log in one micro-batch, unless ``maxEventsPerBatch`` is set."""
BATCH_TASKS_MAX: Final = 1_000
"""Tasks of one micro-batch: each costs Spark ten milliseconds, even if it has nothing to read."""
SINK_PART_BYTES: Final = 1024 * 1024
"""Bytes of rows that a task uploads in one request: half of the server's default maximum."""
SINK_PART_ROWS: Final = 2_000
"""Rows per request, so that a server needs at most a tenth of a second for each part."""
SINK_TOUCH_SECONDS: Final = 120
"""Interval at which a task says that its upload is in use, while its rows are computed: a fifth of
the time after which the server removes one that is idle."""
ROW_BYTES_MIN: Final = 10
"""The shortest row of a result as a line of JSON: a key of one letter, with one digit."""
ARROW_ROWS: Final = 10_000
"""Rows per record batch for Spark, its own default."""
PLOT_POINTS_MAX: Final = 200_000
"""Points of a plot, all in memory; a screen has fewer."""
PLOT_SERIES_MAX: Final = 7
"""Lines of a plot: more cannot be distinguished."""
