"""Limits of writes by query; reasons are where the numbers are."""

from typing import Final

QUERY_WRITE_RECORDS_MAX: Final = 10_000
"""Records that one DELETE or PATCH with a query writes (``http.max_query_writes``): as many as a
batch has, some tenths of a second of the writer."""
QUERY_WRITE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of the records that one such write changes: they are in memory at once, old and new."""
QUERY_WRITE_PAGE_RECORDS: Final = 500
"""Records read at a time, whose topics alone are kept: a few milliseconds of the event loop."""
QUERY_WRITE_ATTEMPTS_MAX: Final = 5
"""Attempts while selected records change: with ordinary writers the second succeeds."""
QUERY_WRITE_SAMPLE_RECORDS: Final = 10
"""Ids that a dry run shows."""
