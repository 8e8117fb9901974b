"""Bounds of what Spark reads and writes; the rest of ``limits`` and by its rules."""

JAVA_ANSWER_SECONDS = 20
"""Time for a Java to say which one it is: a second, on a machine that is very busy."""
JAVA_VERSION_MIN = 17
"""The oldest Java that Spark 4 starts with."""
RESULTS_KEPT = 3
"""Results of a job that stay on disk, the newest among them: who reads an older one may finish."""
ROWS_SHOWN_MAX = 1_000
"""Rows of a result that are printed, all of which the program holds in memory."""
STREAM_PAUSE_SECONDS = 5
"""From one look of a stream at what is new to the next: a commit costs about half a second."""

REMOTE_ANSWER_SECONDS = 60
"""Silence of a server after which a request is tried again: a commit of a large result waits for
what is before it."""
REMOTE_TRIES = 5
"""Attempts of one request, so that a restart of the server fails no job."""
REMOTE_PAUSE_SECONDS = 0.5
"""Before the second attempt; twice as long before each further one: eight seconds in all."""
REMOTE_SERVERS_MAX = 8
"""Servers that one process keeps a connection to."""
REMOTE_BLOCK_BYTES = 1024 * 1024
"""Least part of a file that is asked for at once: Parquet's reader asks for many small ones."""
EXPORT_SECONDS_MAX = 3_600
"""Time for a snapshot that a reader has asked for."""
EXPORT_POLL_SECONDS = 0.5
"""Between two looks whether it is there."""

PARTITION_ROWS = 1024 * 1024
"""Rows of a snapshot that one Spark task reads: eight row groups."""
PARTITION_EVENTS = 100_000
"""Positions of the log that one Spark task reads: seconds of work."""
BATCH_EVENTS = 1_000_000
"""Positions of the log in one micro-batch, unless ``maxEventsPerBatch`` says otherwise."""
BATCH_TASKS_MAX = 1_000
"""Tasks of one micro-batch: each costs Spark ten milliseconds, even if it has nothing to read."""
SINK_PART_BYTES = 1024 * 1024
"""Rows that a task brings in one request: half of what a server takes by default."""
SINK_PART_ROWS = 2_000
"""The most of them, so that a server looks at each part for a tenth of a second at most."""
ARROW_ROWS = 10_000
"""Rows that are handed to Spark at once, as many as it does itself."""
PLOT_POINTS_MAX = 200_000
"""Points of a plot, all of which the program holds in memory; a screen has fewer."""
PLOT_SERIES_MAX = 7
"""Lines of a plot: more cannot be told apart."""
