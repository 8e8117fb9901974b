"""Bounds of snapshots: value, unit (last in the name) and the reason for the value."""

SNAPSHOT_FETCH_ROWS_MAX = 1_024
"""Rows of SQL in memory at a time: enough that a column's conversion costs little for each row,
few enough that the largest payloads (2 MB) in all of them still fit."""
SNAPSHOT_FETCH_ROWS_FIRST = 64
"""The first rows read of a table, whose size says how many the next ones may be."""
SNAPSHOT_FETCH_BYTES = 16 * 1024 * 1024
"""What the rows read at a time should take, by the size of those before."""
SNAPSHOT_GROUP_ROWS = 131_072
"""Rows in a row group: Parquet's readers share out by these, and memory follows it."""
SNAPSHOT_GROUP_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of rows that wait to be a row group, for rows that are large."""
SNAPSHOT_FILE_BYTES = 256 * 1024 * 1024
"""Size after which a table goes on in another file: two of Spark's splits."""
SNAPSHOT_SYNC_BYTES = 1024 * 1024
"""Bytes written between two waits for the disk: a flush of all at the end would hold up the
server's own commits for as long as it takes."""
SNAPSHOT_FREE_BYTES_MIN = 128 * 1024 * 1024
"""What an export leaves free of the disk, because the server writes to it too."""
SNAPSHOT_COMPRESSION_LEVEL = 3
"""Of zstd: beyond it, a tenth smaller for twice the time."""
SNAPSHOT_PROGRESS_SECONDS = 0.5
"""Between two words on how far an export is: what a person wants to see move."""
SNAPSHOT_NICENESS = 10
"""How much an export steps back for the server: with one core, to about a tenth of it; all the
way, it would not end on a busy machine."""
SNAPSHOT_READ_ROWS = 16_384
"""Rows of a file in memory at a time when it is read again."""
SNAPSHOT_MERGE_ROWS = 262_144
"""Rows in memory at a time when the files of partitions are merged, of all of them together."""
SNAPSHOT_PARTED_ROWS = 1_048_576
"""Rows that wait for the files of their days: each gets its share as a row group."""
SNAPSHOT_PARTED_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of these, for rows that are large."""
SNAPSHOT_OPEN_FILES_MAX = 128
"""Files of days open at a time; beyond it, a day that comes again gets another file."""
