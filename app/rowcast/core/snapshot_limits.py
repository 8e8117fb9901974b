"""Limits of snapshots: value, unit (last in the name) and the reason for the value."""

from typing import Final

SNAPSHOT_FETCH_ROWS_MAX: Final = 1_024
"""Rows of SQL in memory at a time: enough to amortise the conversion of a column, few enough that
rows with the largest payloads (2 MB) still fit."""
SNAPSHOT_FETCH_ROWS_FIRST: Final = 64
"""The first rows read of a table; their size determines the next number of rows."""
SNAPSHOT_FETCH_BYTES: Final = 16 * 1024 * 1024
"""Target size of the rows read at a time, estimated from the previous ones."""
SNAPSHOT_GROUP_ROWS: Final = 131_072
"""Rows in a row group: the unit of parallelism and of memory for Parquet's readers."""
SNAPSHOT_GROUP_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of buffered rows after which a row group is written early."""
SNAPSHOT_PAGE_ROWS: Final = 8_192
"""Rows in a page: what an engine reads at least of a column when it looks for one row."""
SNAPSHOT_FILE_BYTES: Final = 256 * 1024 * 1024
"""Size after which a table continues in another file: two of Spark's splits."""
SNAPSHOT_SYNC_BYTES: Final = 1024 * 1024
"""Bytes written between flushes: one flush at the end would delay the server's commits for its
whole duration."""
SNAPSHOT_FREE_BYTES_MIN: Final = 128 * 1024 * 1024
"""Free disk space that an export leaves for the server."""
SNAPSHOT_COMPRESSION_LEVEL: Final = 3
"""Level of zstd: higher ones are a tenth smaller for twice the time."""
SNAPSHOT_PROGRESS_SECONDS: Final = 0.5
"""Interval of progress reports of an export."""
SNAPSHOT_NICENESS: Final = 10
"""Niceness of an export: on one core it gets about a tenth of it; with 19 it would never finish on
a busy machine."""
SNAPSHOT_READ_ROWS: Final = 16_384
"""Rows of a file in memory at a time when it is verified."""
SNAPSHOT_MERGE_ROWS: Final = 262_144
"""Rows in memory when the files of partitions are merged, in total."""
SNAPSHOT_MERGE_FILES: Final = 128
"""Files open at once for that; a process may usually open 1,024."""
SNAPSHOT_PARTED_ROWS: Final = 1_048_576
"""Rows buffered for partitions: each one's share becomes a row group."""
SNAPSHOT_PARTED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of these, for rows that are large."""
SNAPSHOT_OPEN_FILES_MAX: Final = 128
"""Open files of partitions; beyond it, later rows of one go to another file."""
SNAPSHOT_PARTITIONS_MAX: Final = 50_000
"""Partitions of a table: hours of five years. Each is a file of the manifest, 250 bytes."""
SNAPSHOT_PARTITION_NAME_BYTES: Final = 255
"""Longest name of a partition's directory: that of file systems."""
SNAPSHOT_SHARED_ROWS_MIN: Final = 200_000
"""Rows of a table that a second process reads: its start, half a second, is then small beside what
it saves."""
SNAPSHOT_RANGE_ROWS: Final = 8_192
"""Rows of one range of keys, which become one batch of Arrow: a page of a column of Parquet."""
SNAPSHOT_RANGES_AHEAD: Final = 4
"""Ranges that the second process is asked for before they are written, so that it always has one to
read; and batches of it that wait, which must not be fewer, or both would wait for one another."""
SNAPSHOT_REFUSED_RANGES_MAX: Final = 8
"""Successive ranges that the second process could not read, after which the rest of their table is
read without it: 65,536 rows."""
SNAPSHOT_CUT_TRIES: Final = 100
"""How often two processes try to read the same state of a file that is written to; nine in ten
tries succeed beside a server that writes without a pause."""
