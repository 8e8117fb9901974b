"""Limits of the list of slow subscriptions: each with its unit and its reason."""

SLOW_TOP_MAX = 1_000
"""Entries of the list, some 500 bytes each: as many rows as are sorted at once."""
SLOW_TOP = 10
"""Default number of entries: one page of the slowest (as EMQX)."""
SLOW_THRESHOLD_MS = 500
"""Milliseconds from which a delivery is slow: what a person notices (as EMQX)."""
SLOW_EXPIRE_SECONDS = 300
"""Lifetime of an entry since it was last slow: shows recent problems."""
SLOW_LOOK_SECONDS = 1.0
"""Interval of updates of the list while it is not empty."""
SLOW_TIMED_MAX = 8
"""Timed unacknowledged writes to one client. Each keeps one event, that of its last message; a
client with more in flight is slow with these already."""
SLOW_HEAP_FACTOR = 4
"""Entries of the heap per valid entry, above which the heap is rebuilt."""
SLOW_MEASURED_EVERY = 17
"""Sampling of the histogram of delivery lag: one delivery in so many, because measuring all would
cost some 3 %. A prime, so that round-robin readers are all measured."""
