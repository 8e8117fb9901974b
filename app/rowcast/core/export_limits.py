"""Limits of exports: running them, and listing and serving their snapshots.

All other limits are in ``limits.py``.
"""

from typing import Final

# Exports ------------------------------------------------------------------------------------------
EXPORT_SECONDS_MAX: Final = 6 * 3_600
"""Longest run of one export before it is killed: a terabyte at the speed of a disk."""
EXPORT_LINE_BYTES_MAX: Final = 64 * 1024
"""Longest line of an export's progress output."""
EXPORT_COMPLAINT_BYTES_MAX: Final = 4 * 1024
"""The end of a failed export's output that is kept."""
EXPORT_JOBS_KEPT: Final = 20
"""Finished jobs that are still listed: a day of hourly ones."""
EXPORT_JOBS_WAITING_MAX: Final = 8
"""Queued exports: people request fewer."""
EXPORT_TABLES_MAX: Final = 10_000
"""Tables that one export may name."""
EXPORT_RETRY_SECONDS: Final = 60
"""Delay after a failed scheduled export: a full disk does not recover at once."""

# Snapshots as rows and files ----------------------------------------------------------------------
SNAPSHOT_LOOK_SECONDS: Final = 5
"""Interval between scans of the directory for changes by other programs."""
SNAPSHOT_PINNED_SECONDS: Final = 600
"""A snapshot is not removed automatically for so long after a request for one of its files: readers
request the next file when they have read one."""
SNAPSHOT_MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest manifest that is read: ten thousand tables with daily files for a year."""
DOWNLOAD_PIECE_BYTES: Final = 256 * 1024
"""Bytes read at once of a file being sent: few loop turns, little memory for each reader."""

# Imports ------------------------------------------------------------------------------------------
IMPORT_BATCH_ROWS: Final = 1_000
"""Rows per batch: enough to amortise a commit, few enough that other writes hardly wait for it."""
IMPORT_BATCH_BYTES: Final = 1024 * 1024
"""Encoded rows per request: half of the default maximum body."""
IMPORT_ATTEMPTS: Final = 10
"""Attempts of one request: with the delays below they last two minutes, longer than a server's
restart, and than any time that it lets a write wait for the tables."""
IMPORT_RETRY_SECONDS_MIN: Final = 0.5
"""Delay before the second attempt; it doubles with each, and is no shorter than the server asks."""
IMPORT_RETRY_SECONDS_MAX: Final = 30
"""Longest delay between two attempts, also where the server asks for more."""

# Pages of changes ---------------------------------------------------------------------------------
PAGE_BYTES: Final = 128 * 1024 * 1024
"""Target size of merged pages of changes: one Spark partition."""
PAGE_BYTES_SMALL: Final = 512 * 1024
"""A page below this size is small; each next size class is sixteen times as large."""
PAGES_TOGETHER: Final = 16
"""Neighbours of one size class that are merged: each event is rewritten once per class, and at most
so many pages of each class remain."""
PAGES_COVERED_SECONDS: Final = 600
"""How long merged small pages stay: readers may still request their files."""
