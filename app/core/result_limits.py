"""Bounds of results that jobs hand back; the rest of ``limits`` and by its rules."""

RESULT_ROWS_MAX = 50_000
"""Rows of one result: other writers wait while all of them are committed, a second and a quarter
(23 microseconds a row)."""
RESULTS_ROWS_MAX = 100_000
"""Rows of all results that are being brought: one and a half kilobytes each in memory."""
RESULT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of one result, and of all that are being brought: they are in memory until the commit."""
RESULT_PARTS_MAX = 10_000
"""Parts of one result: a Spark task brings one for each megabyte."""
RESULTS_MAX = 16
"""Results that are being brought at once."""
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
