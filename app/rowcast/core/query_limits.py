"""Limits of live queries: each with its unit and its reason."""

from typing import Final

LIVE_QUERIES_MAX: Final = 1_000
"""Live queries of one user, or of one address without a user: each costs a kilobyte, and each event
that it matches a delivery; a page has some ten."""

RIGHTS_CHANGES_USERS_MAX: Final = 10_000
"""Users whose last change of rights is remembered for each, some hundred bytes; beyond that it is
taken for one of all users, whose live queries begin anew then."""

QUERY_INDEX_SINGLE_MAX: Final = 8
"""Added intervals of one index that are compared one by one, before they become a tree: each costs
what a lookup in a tree costs that has nothing to find."""

LIVE_ROWS_MAX: Final = 10_000
"""Rows of ``$SYS`` that one live query holds: they are in memory, some hundred bytes each."""
LIVE_LOOK_SECONDS: Final = 1.0
"""Between two looks at what retention has removed of a topic table with live queries, in seconds:
a look is one comparison, and nothing is promised about when retention runs."""
LIVE_LOOK_TURN_VIEWS: Final = 16
"""Live queries of a topic table that are told of it in one turn of the loop: a window of a thousand
rows takes half a millisecond."""
LIVE_ROWS_BYTES_MAX: Final = 64 * 1_048_576
"""Payload bytes of the rows that one live query holds, 64 MiB: 10,000 rows of 6.5 KiB."""
WINDOW_RECORDS_MAX: Final = 1_000
"""Records up to the end of one live window (``limit``): what a page shows, and what is sent to its
reader in one piece."""

WINDOW_SPARE_RECORDS_MIN: Final = 16
"""Records that are known behind a window at least; else as many as it has. When so many more have
left it than have come, its records are read from the store again."""

WINDOWS_RECORDS_MAX: Final = 1_000_000
"""Records of all live windows of one process, with spare ones: a gigabyte at a kilobyte each."""

WINDOW_TOUCHED_MAX: Final = 10_000
"""Records that were written since a reader of a window was away, so that it can go on with exact
steps: each is looked up as it was; with more, the window begins anew."""

WINDOW_LOAD_EVENTS_MAX: Final = 10_000
"""Events of one window that are held while its records are read: as many as a second has."""

WINDOW_LOADS_MAX: Final = 5
"""Attempts to read the records of a window, each with more spare ones than the one before."""

WINDOW_READ_MAX: Final = 100_000
"""Records that are read at a time for one window, of which rights or hooks withhold the most."""

WINDOW_BYTES_MAX: Final = 16 * 1_048_576
"""Payload bytes of the records of one live window, 16 MiB: 1,000 records of 16 KiB."""

LIVE_LACKING_MAX: Final = 10_000
"""Records that were written while the current ones of one live query were read, and are noted until
their events follow: as many as a second has."""
