"""Limits of reads of the store: each with its unit and its reason."""

READER_THREADS = 5
"""Threads that read the store: one for each kind of read, and a second for scans."""
READER_SCANS_MAX = 2
"""Threads that scan at once. Each may use a whole core, and the others need some of the machine."""
QUERY_SECONDS = 30.0
"""What one query of a caller may take (``store.query_timeout``): a scan of some million rows, and
less than most clients and proxies wait."""
READ_SLICE_SECONDS = 0.1
"""CPU time of a search before it is a scan: a hundred times what an index needs."""
READ_SLICE_WAIT_SECONDS = 1.0
"""The same by the clock: a search that waits for the disk is a scan, too."""
READ_LOOK_SECONDS = 0.05
"""Between two looks at the reads that run: so much longer than its slice a search may last."""
READ_WAITING_MAX = 256
"""Reads of one kind that wait for one caller: some kilobytes each, and minutes of work."""
