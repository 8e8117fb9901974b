"""Limits of the archive of the log: value, unit (last in the name) and the reason for the value."""

ARCHIVE_STEP_EVENTS = 20_000
"""Events that are archived at a time, and are in memory meanwhile: ten steps of retention."""
ARCHIVE_STEP_BYTES = 16 * 1024 * 1024
"""Payload bytes of these after which no further event is read."""
ARCHIVE_GROUP_EVENTS = 2_048
"""Events in a row group: the least that is decoded to find one event, about five milliseconds."""
ARCHIVE_GROUP_BYTES = 2 * 1024 * 1024
"""Payload bytes after which a row group ends early: it is in memory as a whole."""
ARCHIVE_FILE_BYTES = 64 * 1024 * 1024
"""Size up to which files are merged: few files, each rewritten a few times at most."""
ARCHIVE_FILE_SECONDS = 86_400
"""Time that a merged file spans at most where the archive has an age limit: files end whole."""
ARCHIVE_FOOTERS = 1_024
"""Files whose summary is in memory: some ten kilobytes each."""
ARCHIVE_GROUPS = 16
"""Row groups that are in memory, for the next page: one for each part that a reader merges, at most
some four megabytes each."""
