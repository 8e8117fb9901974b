"""Limits of reads of the store: each with its unit and its reason."""

from typing import Final

READER_THREADS: Final = 5
"""Threads that read the store: one for each kind of read, and a second for scans."""
READER_SCANS_MAX: Final = 2
"""Concurrent scan threads. Each may use a full core, and the rest of the server needs some, too."""
QUERY_SECONDS: Final = 30.0
"""Timeout of one query (``store.query_timeout``): a scan of some million rows, and less than most
clients and proxies wait."""
READ_SLICE_SECONDS: Final = 0.1
"""CPU time after which a search counts as a scan: a hundred times an index lookup."""
READ_SLICE_WAIT_SECONDS: Final = 1.0
"""The same in wall time: a search that waits for the disk counts as a scan, too."""
READ_LOOK_SECONDS: Final = 0.05
"""Interval between checks of running reads: a search may exceed its slice by this."""
READ_WAITING_MAX: Final = 256
"""Reads of one kind that wait for one caller: some kilobytes each, and minutes of work."""
SCAN_SLICE_SECONDS: Final = 0.001
"""For which one scan looks at rows in Python before another may: what a thread keeps the
interpreter's lock for (``LOCK_SECONDS``)."""
SCAN_REST_SECONDS: Final = 0.003
"""For which all scans rest when others want the interpreter's lock: twice what a write takes."""
SCAN_HINDERED_RATIO: Final = 1.3
"""Time to CPU time of a slice from which others wanted the lock or the core meanwhile."""
SCAN_LOOK_ROWS: Final = 32
"""Rows after which a scan looks at the clock: some two hundred microseconds."""
SCAN_TURN_SECONDS_MAX: Final = 0.05
"""For which a scan waits until others let it: some ten slices with their rests."""
QUERY_GROUPS_MAX: Final = 10_000
"""Groups of one query, which are in memory at once: as many as records with a link to the next."""
LONG_POLL_SECONDS: Final = 25
"""How long a long poll waits (``http.poll_seconds``): less than the 30 seconds after which many
clients and proxies give up a request."""
LONG_POLL_EVENTS: Final = 1_000
"""Events of one answer to a long poll without a limit of its own."""
HISTORY_SORTED_RECORDS_MAX: Final = 100_000
"""Records of a past moment held at once, to sort them: as many as may have changed since."""
SHARED_READ_FAILURES_MAX: Final = 2
"""Failed reads that a reader waits for: one may be its first reader's fault, two are not."""
GATHERED_SCANS_MAX: Final = 100
"""Single topics that one job of a thread looks up for several readers: some two milliseconds."""
SOURCE_HEADS_MAX: Final = 1_000
"""Sources of the log whose newest event is known, some 200 bytes each; with more, all are read
again."""
SOURCE_HEADS_UNASKED_EVENTS: Final = 100_000
"""Events that are noted for this without a reader who asks: 10 ms of work; then it ends until the
next read."""
HTTP_STALL_SECONDS_MAX: Final = 120
"""How long a client may read nothing of its answer: twice what proxies usually wait."""
