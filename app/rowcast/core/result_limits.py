"""Limits of results that jobs upload; see ``limits``."""

RESULT_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of one result by default, and of all uploads of one user: a file until the commit, whose
keys are in memory while it is committed, a hundred bytes each."""
RESULTS_AT_ONCE = 2
"""All running uploads have so many times the bytes of one user, so that no user blocks all."""
RESULT_CHANGES_MAX = 50_000
"""Rows that one result changes by default: other writers wait while they are committed, six tenths
of a second (12 microseconds a row), and reads until the tables have them, about a second."""
RESULT_CHANGES_MAX_MAX = 1_000_000
"""The most that can be set: the batch of the log has 256 MiB at most."""
RESULT_PARTS_MAX = 10_000
"""Parts of one result: a Spark task uploads one for each megabyte."""
RESULTS_MAX = 32
"""Concurrent uploads."""
RESULTS_OF_USER_MAX = 8
"""Concurrent uploads of one user: a quarter of all."""
RESULT_IDLE_SECONDS = 600
"""Idle time after which an upload is discarded: the job is dead."""
RESULT_NAME_CHARS_MAX = 100
"""Name of a job, of an upload or of a part: stored in facts or in events."""
RESULT_SLICE_ROWS = 100
"""Rows checked in one turn of the loop, written to the disk together, and compared with their
records together: a few milliseconds each."""
RESULT_FACTS = 256
"""Facts that list the records of a job: each has some hundreds of names at most."""
RESULT_RECEIPTS_MAX = 1_000
"""Receipts of one job that are remembered, the newest: a repeat of an older one is refused."""
