"""Limits of results that jobs upload; see ``limits``."""

RESULT_ROWS_MAX = 50_000
"""Rows of one result: other writers wait while all of them are committed, a second and a quarter
(23 microseconds a row)."""
RESULTS_ROWS_MAX = 100_000
"""Rows of all running uploads: one and a half kilobytes each in memory. All uploads of one user
together have at most RESULT_ROWS_MAX, so that no user blocks all others."""
RESULT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of one result, and of all uploads of one user: in memory until the commit."""
RESULTS_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of all running uploads: twice the bound of one user."""
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
"""Rows checked in one turn of the loop: a few milliseconds."""
RESULT_FACTS = 256
"""Facts that list the records of a job: each has some hundreds of names at most."""
RESULT_RECEIPTS_MAX = 1_000
"""Receipts of one job that are remembered, the newest: a repeat of an older one is refused."""
