"""Limits of the archive of the log: value, unit (last in the name) and the reason for the value."""

from typing import Final

ARCHIVE_STEP_EVENTS: Final = 20_000
"""Events that are archived at a time, and are in memory meanwhile: ten steps of retention."""
ARCHIVE_STEP_BYTES: Final = 16 * 1024 * 1024
"""Payload bytes of these after which no further event is read."""
ARCHIVE_GROUP_EVENTS: Final = 2_048
"""Events in a row group: the least that is decoded to find one event, about five milliseconds."""
ARCHIVE_GROUP_BYTES: Final = 2 * 1024 * 1024
"""Payload bytes after which a row group ends early: it is in memory as a whole."""
ARCHIVE_FILE_BYTES: Final = 64 * 1024 * 1024
"""Size up to which files are merged: few files, each rewritten a few times at most."""
ARCHIVE_FILE_SECONDS: Final = 86_400
"""Time that a merged file spans at most where the archive has an age limit: files end whole."""
ARCHIVE_FOOTERS: Final = 1_024
"""Files whose summary is in memory: some ten kilobytes each."""
ARCHIVE_GROUPS: Final = 16
"""Row groups that are in memory, for the next page: one for each part that a reader merges, at most
some four megabytes each."""
ARCHIVE_CACHE_BYTES: Final = 1024 * 1024 * 1024
"""Files of an archive in an object store that are kept on this disk: some sixteen large ones."""
ARCHIVE_CACHE_BYTES_MIN: Final = 256 * 1024 * 1024
"""The least of these: two files and what they are merged into, and what readers have open."""
ARCHIVE_TAIL_BYTES: Final = 64 * 1024
"""What is read of the end of a file in a store at first: the footer of a large one fits."""
ARCHIVE_CHUNK_BYTES: Final = 1024 * 1024
"""What is in memory of a file while it is fetched."""
ARCHIVE_FETCH_ATTEMPTS: Final = 3
"""How often a file is fetched that others push out of a small cache before it is read."""
