"""Limits of compaction: value, unit (last in the name) and the reason for the value."""

from typing import Final

TOMBSTONE_SECONDS: Final = 86_400.0
"""How long a table remembers a deletion that its history has no longer: a client that was away for
a day learns of it."""
TOMBSTONE_SECONDS_MIN: Final = 60.0
"""The least: a client that reconnects with growing pauses comes back within it."""
TOMBSTONE_SECONDS_MAX: Final = 366 * 86_400.0
"""The most: each one is in memory."""
TOMBSTONES_MAX: Final = 100_000
"""Tombstones of one table, some 30 MB in memory; beyond, the oldest are forgotten."""
KEPT_KEY_PARTS_MAX: Final = 4
"""Parts of a key by which a table keeps events: nearly each event has a key of more for itself."""
KEPT_EVENTS_MAX: Final = 50_000
"""Events of one table beyond its history, some 25 MB in memory; beyond, the oldest go."""
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Their bytes, beyond which the oldest go: a reader of the past has them all in memory."""
KEPT_EVENT_BYTES_MAX: Final = 1024 * 1024
"""The largest event that is kept: a small part of these bytes, and of a commit in a cluster."""
KEPT_STEP_BYTES: Final = 1024 * 1024
"""As ``COMPACTED_STEP_BYTES``, where events are kept: with its last one, a commit of 2 MB, which is
below the least payload that a NATS server of a cluster may have (4 MB)."""
COMPACTED_STEP_EVENTS: Final = 2_000
"""Events that are looked through at a time before they are trimmed: a step of retention."""
COMPACTED_STEP_BYTES: Final = 16 * 1024 * 1024
"""Payload bytes of these after which no further event is read."""
