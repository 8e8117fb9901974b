"""Limits of the list of slow subscriptions: each with its unit and its reason."""

from typing import Final

SLOW_TOP_MAX: Final = 1_000
"""Entries of the list, some 500 bytes each: as many rows as are sorted at once."""
SLOW_TOP: Final = 10
"""Default number of entries: one page of the slowest (as EMQX)."""
SLOW_THRESHOLD_MS: Final = 500
"""Milliseconds from which a delivery is slow: what a person notices (as EMQX)."""
SLOW_EXPIRE_SECONDS: Final = 300
"""Lifetime of an entry since it was last slow: shows recent problems."""
SLOW_LOOK_SECONDS: Final = 1.0
"""Interval of updates of the list while it is not empty."""
SLOW_TIMED_MAX: Final = 8
"""Timed unacknowledged writes to one client. Each keeps one event, that of its last message; a
client with more in flight is slow with these already."""
SLOW_HEAP_FACTOR: Final = 4
"""Entries of the heap per valid entry, above which the heap is rebuilt."""
SLOW_MEASURED_EVERY: Final = 17
"""Sampling of the histogram of delivery lag: one delivery in so many, because measuring all would
cost some 3 %. A prime, so that round-robin readers are all measured."""
