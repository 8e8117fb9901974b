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
