"""Limits of exports: how the server has them made, and how it shows and serves what they made.

They stand beside ``limits.py``, which has all others.
"""

# Exports ------------------------------------------------------------------------------------------
EXPORT_SECONDS_MAX = 6 * 3_600
"""Longest that one export may take before it is ended: a terabyte at what a disk gives."""
EXPORT_LINE_BYTES_MAX = 64 * 1024
"""Longest line in which an export tells how far it is: a manifest is not told."""
EXPORT_COMPLAINT_BYTES_MAX = 4 * 1024
"""Of what a failed export wrote about itself, the end that is kept."""
EXPORT_JOBS_KEPT = 20
"""Jobs that have ended and are still shown: a day of hourly ones."""
EXPORT_JOBS_WAITING_MAX = 8
"""Orders that wait for the export before them: more would not be those of people."""
EXPORT_TABLES_MAX = 10_000
"""Tables that one export may name."""
EXPORT_RETRY_SECONDS = 60
"""After a scheduled export that failed, until the next: a full disk does not empty itself."""

# Snapshots as rows and files ----------------------------------------------------------------------
SNAPSHOT_LOOK_SECONDS = 5
"""Between two looks at the directory, for what other programs did there."""
SNAPSHOT_PINNED_SECONDS = 600
"""After a file of it was asked for, a snapshot is not removed by itself: readers come for the next
file when they are done with one."""
SNAPSHOT_MANIFEST_BYTES_MAX = 64 * 1024 * 1024
"""Largest manifest that is read: ten thousand tables with the files of a year of days."""
DOWNLOAD_PIECE_BYTES = 256 * 1024
"""Of a file that is sent, what is read at once: few turns, little memory for each reader."""

# Imports ------------------------------------------------------------------------------------------
IMPORT_BATCH_ROWS = 1_000
"""Rows that are written together: enough that a commit costs each of them little, few enough that
others' writes hardly wait for it."""
IMPORT_BATCH_BYTES = 1024 * 1024
"""Encoded rows that are sent together: half of the largest body that a server takes by default."""

# Pages of changes ---------------------------------------------------------------------------------
PAGE_BYTES = 128 * 1024 * 1024
"""Size that pages of changes are put together to: what Spark reads as one part."""
PAGE_BYTES_SMALL = 512 * 1024
"""A page below this size is small; one sixteen times as large is of the next size, and so on."""
PAGES_TOGETHER = 16
"""Neighbours of one size that are put together: each event is written again once for each size,
and so many pages of each size are left."""
PAGES_COVERED_SECONDS = 600
"""How long small pages stay that were put together to a larger one: readers that have their names
come for their files."""
