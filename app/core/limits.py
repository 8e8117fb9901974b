"""Every bound of the house: its value, its unit (last in the name) and the reason for the value.

A queue, buffer, retry or timeout that has no name here is a mistake (tests/test_tidy.py). Values that
an operator may change are defaults of ``app/config.py``.
"""

# Topics and values ------------------------------------------------------------------------------
TOPIC_BYTES_MAX = 65_535
"""A topic is an MQTT UTF-8 string: two length bytes (MQTT 5, 1.5.4)."""
TOPIC_LEVELS_MAX = 128
"""Deep enough for every real tree; bounds recursion and trie depth for a stranger's filter."""
VALUE_DEPTH_MAX = 64
"""Nesting of lists and maps in one value; far below where a decoder or encoder would recurse away."""
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
"""One body or payload (FEATURES D58: 2 MB)."""

# Bus and subscriptions --------------------------------------------------------------------------
SUBSCRIPTION_QUEUE_EVENTS_MAX = 8_192
"""More than one socket read (256 KiB) of small publishes, so a healthy reader never falls behind
within one turn of the loop; a slow one goes back to the log at this point."""
SUBSCRIPTION_QUEUE_BYTES_MAX = 8 * 1024 * 1024
"""Memory that one stopped reader can hold."""
LOG_PAGE_EVENTS = 512
"""Events read from the log at a time by a reader that is behind: a few hundred microseconds."""
SCAN_PAGE_RECORDS = 1_000
"""Records read at a time for a snapshot: one statement, so a table of this size is seen at one
instant."""
MATCH_CACHE_TOPICS_MAX = 65_536
"""Topics whose subscribers (bus) or route (engine) are remembered; cleared when full."""

# Store ------------------------------------------------------------------------------------------
COMMIT_BATCH_EVENTS_MAX = 2_000
"""Writes in one transaction: keeps a commit near 10 ms, so acknowledgements keep flowing."""
COMMIT_BACKLOG_EVENTS_MAX = 50_000
"""Writes waiting for the disk before new ones are refused with BUSY."""
COMMIT_BACKLOG_EVENTS_HIGH = 10_000
"""Writes waiting before publishing connections are no longer read from."""
STATEMENT_ROWS_MAX = 250
"""Rows of one multi-row INSERT: the gain is flat above, and 32,766 variables are the limit."""
SEQ_RESERVE = 100_000
"""Sequence numbers reserved on disk at a time; a crash skips at most these."""
RECORD_CACHE_RECORDS_MAX = 100_000
"""Current records kept in memory for hot reads."""
RECORD_CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Payload bytes kept in that cache."""
