"""Bounds of results that jobs hand back; the rest of ``limits`` and by its rules."""

RESULT_ROWS_MAX = 50_000
"""Rows of one result: other writers wait while all of them are committed, a second and a quarter
(23 microseconds a row)."""
RESULTS_ROWS_MAX = 100_000
"""Rows of all results that are being brought: one and a half kilobytes each in memory. What one
user brings is RESULT_ROWS_MAX together, so that nobody alone keeps all others from it."""
RESULT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of one result, and of all that one user is bringing: in memory until the commit."""
RESULTS_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of all that are being brought: twice what one user may."""
RESULT_PARTS_MAX = 10_000
"""Parts of one result: a Spark task brings one for each megabyte."""
RESULTS_MAX = 32
"""Results that are being brought at once."""
RESULTS_OF_USER_MAX = 8
"""Results that one user is bringing at once: a quarter of all."""
RESULT_IDLE_SECONDS = 600
"""A result that nobody adds to for so long is forgotten: the job is dead."""
RESULT_NAME_CHARS_MAX = 100
"""The name of a job, of an upload or of a part: each stands in facts or in events."""
RESULT_SLICE_ROWS = 100
"""Rows that are looked at in one turn of the loop: a few milliseconds."""
RESULT_FACTS = 256
"""Facts that hold which records are a job's own: each has some hundreds of names at most."""
RESULT_RECEIPTS_MAX = 1_000
"""Receipts of one job that are remembered, the newest: a repeat of an older one is refused."""
