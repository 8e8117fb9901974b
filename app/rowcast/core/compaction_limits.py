"""Limits of compaction: value, unit (last in the name) and the reason for the value."""

TOMBSTONE_SECONDS = 86_400.0
"""How long a table remembers a deletion that its history has no longer: a client that was away for
a day learns of it."""
TOMBSTONE_SECONDS_MIN = 60.0
"""The least: a client that reconnects with growing pauses comes back within it."""
TOMBSTONE_SECONDS_MAX = 366 * 86_400.0
"""The most: each one is in memory."""
TOMBSTONES_MAX = 100_000
"""Tombstones of one table, some 30 MB in memory; beyond, the oldest are forgotten."""
COMPACTED_STEP_EVENTS = 2_000
"""Events that are looked through at a time before they are trimmed: a step of retention."""
COMPACTED_STEP_BYTES = 16 * 1024 * 1024
"""Payload bytes of these after which no further event is read."""
