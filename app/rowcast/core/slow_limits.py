"""Limits of the list of slow subscriptions: each with its unit and its reason."""

SLOW_TOP_MAX = 1_000
"""Entries of the list, some 500 bytes each: as many rows as are sorted at once."""
SLOW_TOP = 10
"""Entries unless it is set: who looks wants the worst, and a page of them (as EMQX)."""
SLOW_THRESHOLD_MS = 500
"""Milliseconds from which on a delivery is slow: what a person notices (as EMQX)."""
SLOW_EXPIRE_SECONDS = 300
"""Until an entry that was not slow again is forgotten: an operator sees what was a moment ago."""
SLOW_LOOK_SECONDS = 1.0
"""Between two looks at the list, while there is anything in it: so often watchers hear of it."""
SLOW_TIMED_MAX = 8
"""Writes to one client whose acknowledgement is timed at once. For each one event is kept: of the
last message, and who has so many open is slow with those."""
SLOW_HEAP_FACTOR = 4
"""How many of its entries the list's heap may have for each that is true: then it is made anew."""
SLOW_MEASURED_EVERY = 17
"""Of so many hand-overs one is counted in the histogram of delivery lag: counting all would cost
each delivery some 3 %. A prime, so that readers in turns are all measured."""
